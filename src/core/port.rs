//! The ports: how the inside asks for a model, a tool, a store, a sink, a clock and chance.
//!
//! They stand here so that `journal` and `policy` can name them without knowing who implements
//! them. Implementations know nothing of metrics, spans, retries, sessions or each other.

mod write;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;

pub use self::write::{Blob, SessionFilter, Write};
use super::{
    fact::{CountedBy, Entry, McpPeer, ModelInfo, SessionSummary},
    fault::Fault,
    handover::Handovers,
    id::{BlobHash, ProcessId, SessionId, SpanId, StreamId, TraceId},
    lease::Leases,
    mark::Marks,
    message::{ModelReply, ModelRequest},
    notice::Notices,
    once::BegunOnce,
    principal::Principal,
    spec::ToolSpec,
    time::Timestamp,
};
pub use super::{
    progress::{LiveText, Nobody, Progress},
    store_error::{StoreError, StoreErrorKind},
};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now, UTC.
    fn now(&self) -> Timestamp;
}

/// Gives chance: ids of sessions, jitter.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random ones.
    fn fill(&self, bytes: &mut [u8]);
}

/// A language model behind some provider.
#[async_trait]
pub trait Model: Send + Sync {
    /// What is configured of it.
    fn info(&self) -> &ModelInfo;

    /// The body that [`Model::call`] will send for this request, byte for byte. Its hash stands
    /// in the journal, so that a prompt rebuilt later can be proved.
    fn encode(&self, request: &ModelRequest) -> Vec<u8>;

    /// Asks once. No retry, no timeout: both are the policy's.
    ///
    /// # Errors
    /// A [`Fault`] of any kind; the text must not hold the credential.
    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault>;

    /// About how many tokens it adds to a request with so many tools, beside what stands in the
    /// request: the explanation of a form of its own.
    fn form_tokens(&self, _tools: usize) -> u64 {
        0
    }

    /// Who counts in [`Model::count`]; where nobody does, it is not asked.
    fn counted_by(&self) -> CountedBy {
        CountedBy::Estimate
    }

    /// Input tokens of a request, counted before it is made. Nothing where it cannot be said;
    /// then an estimate stands in.
    async fn count(&self, _request: &ModelRequest, _trace: TraceContext) -> Option<u64> {
        None
    }
}

/// One request to a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelCallInput<'a> {
    /// What is asked.
    pub request: &'a ModelRequest,
    /// What [`Model::encode`] made of it.
    pub body: &'a Bytes,
    /// The span of the call, for the outgoing `traceparent`.
    pub trace: TraceContext,
    /// Hears of the reply while it comes. A provider that has the reply only as a whole tells
    /// nothing.
    pub progress: &'a dyn Progress,
}

/// A tool: something that the model may ask for.
///
/// Implement this to give an agent a function of your own; validation, timeout, spans, metrics
/// and events come with the registration.
///
/// ```
/// use glassbox::{async_trait, Effect, Fault, Tool, ToolContext, ToolReply, ToolSpec};
/// use serde_json::{json, Value};
///
/// struct Rate(ToolSpec);
///
/// impl Rate {
///     fn new() -> Self {
///         let schema = json!({
///             "type": "object",
///             "properties": {"currency": {"type": "string", "enum": ["USD", "EUR"]}},
///             "required": ["currency"],
///             "additionalProperties": false
///         });
///         Self(ToolSpec::new("exchange_rate", "Tenge for one unit of a currency.", schema).effect(Effect::Read))
///     }
/// }
///
/// #[async_trait]
/// impl Tool for Rate {
///     fn spec(&self) -> &ToolSpec {
///         &self.0
///     }
///
///     async fn call(&self, _cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
///         let rate = if arguments["currency"] == "USD" { 521.5 } else { 605.1 };
///         Ok(ToolReply::Json(json!({"tenge": rate})))
///     }
/// }
/// ```
#[async_trait]
pub trait Tool: Send + Sync {
    /// What it declares of itself; the same on every call.
    fn spec(&self) -> &ToolSpec;

    /// Runs one attempt. The arguments fit the schema. No timeout and no retry here; a panic
    /// becomes a fault, and the future may be dropped at any await. Work that blocks belongs on
    /// `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    /// A [`Fault`]; its text is shown to the model.
    async fn call(&self, cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault>;

    /// What sort of tool it is, in a word: `http`, `sql`, `command`, `mcp`, `builtin`, or `rust`
    /// for what is code of the program.
    fn kind(&self) -> &'static str {
        "rust"
    }

    /// The MCP server that an attempt asks now, for the trace; nothing for tools of other kinds.
    fn mcp(&self) -> Option<McpPeer> {
        None
    }

    /// Whether what is behind it can be reached, found out without changing anything there.
    ///
    /// # Errors
    /// A [`Fault`] that says what is missing.
    async fn probe(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Level 2 of validation: what the schema cannot say (a limit per customer, a sanity check).
    ///
    /// # Errors
    /// One phrase for the model on why the call is not allowed.
    fn check(&self, _cx: &ToolContext, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }
}

/// What a tool is told besides its arguments.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// Who the session acts for. Identity comes from here, never from the model.
    pub principal: Arc<Principal>,
    /// The session.
    pub session: SessionId,
    /// The id of the call.
    pub call_id: String,
    /// The same for all attempts of one call, in any process.
    pub idempotency_key: String,
    /// From 1.
    pub attempt: u32,
    /// The span of the call, for an outgoing `traceparent`.
    pub trace: TraceContext,
}

impl ToolContext {
    /// What the first attempt of a call is told; later ones differ in their number only.
    pub fn new(session: SessionId, principal: Arc<Principal>, call_id: &str, trace: TraceContext) -> Self {
        let idempotency_key = format!("{session}:{call_id}");
        Self { principal, session, call_id: call_id.to_owned(), idempotency_key, attempt: 1, trace }
    }
}

/// Where work that goes out belongs in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace of the session.
    pub trace_id: TraceId,
    /// The span that the work belongs to.
    pub span_id: SpanId,
    /// Whether the trace is sampled.
    pub sampled: bool,
}

impl TraceContext {
    /// The W3C `traceparent` header.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-0{}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

/// What a tool gave.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolReply {
    /// JSON, written compactly into the observation.
    Json(Value),
    /// Text, as it is.
    Text(String),
}

impl ToolReply {
    /// The text of the observation.
    pub fn into_text(self) -> String {
        match self {
            Self::Json(value) => value.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// Reads facts after they are committed. A sink never fails or delays a session.
pub trait Sink: Send {
    /// The name in `glassbox_telemetry_dropped_total{sink}`.
    fn name(&self) -> &'static str;

    /// Takes committed facts, of each stream in order. Called on the writer's thread.
    fn publish(&mut self, entries: &[Arc<Entry>]);

    /// From which place on the store is to remember that this sink owes the stream of this fact
    /// something, unless it remembers so already. Asked before the commit, and kept with it.
    fn owes_from(&self, _entry: &Entry) -> Option<u64> {
        None
    }

    /// Writes out what it holds; called when the queue is empty and before the writer stops.
    fn flush(&mut self) {}
}

/// Hears about the health of the journal, the one family of signals that is no fold of facts.
pub trait JournalWatch: Send + Sync {
    /// A commit made `facts` durable in `took`.
    fn committed(&self, facts: usize, took: Duration);

    /// A commit, or one write of it, failed.
    fn failed(&self, kind: StoreErrorKind);

    /// Facts that wait for their commit.
    fn queued(&self, depth: usize);
}

/// Where journals are kept. Calls block; whoever is on an async thread moves them off it.
pub trait Store: Leases + Handovers + Notices + Marks {
    /// Makes the writes durable in one transaction: when this returns `Ok`, each write whose own
    /// result is `Ok` survives a crash. One bad write (a taken place) fails alone.
    ///
    /// # Errors
    /// The outer error means that nothing was written and all may be tried again.
    fn append(&self, writes: &[Write]) -> Result<Vec<Result<(), StoreError>>, StoreError>;

    /// The whole journal of a stream, in order; empty if there is none.
    ///
    /// # Errors
    /// Where the store cannot be read, or holds a newer version.
    fn load(&self, stream: StreamId) -> Result<Vec<Entry>, StoreError>;

    /// Part of the journal of a stream: at most `limit` entries from the place `from` on.
    ///
    /// # Errors
    /// As [`Store::load`].
    fn page(&self, stream: StreamId, from: u64, limit: usize) -> Result<Vec<Entry>, StoreError>;

    /// A kept text.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn blob(&self, hash: BlobHash) -> Result<Option<Arc<[u8]>>, StoreError>;

    /// Sessions, newest first.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError>;

    /// One session of the list.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn session(&self, id: SessionId) -> Result<Option<SessionSummary>, StoreError>;

    /// When this principal's latest sessions began, newest first: those after `since`, at most
    /// `limit` of them.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn recent_starts(&self, principal: &str, since: Timestamp, limit: usize) -> Result<Vec<Timestamp>, StoreError>;

    /// The session that an idempotency key began, if it is still kept at `now`.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn begun_once(&self, key: BlobHash, now: Timestamp) -> Result<Option<BegunOnce>, StoreError>;

    /// Forgets idempotency keys that are kept no longer at `now`, at most `limit` of them; gives
    /// how many there were.
    ///
    /// # Errors
    /// Where the store cannot be written.
    fn forget_keys(&self, now: Timestamp, limit: usize) -> Result<u64, StoreError>;

    /// Remembers that all spans of these sessions have arrived at the collector.
    ///
    /// # Errors
    /// Where the store cannot be written.
    fn mark_exported(&self, sessions: &[SessionId]) -> Result<(), StoreError>;

    /// Sessions that ended between these times and whose spans are not known to have arrived,
    /// oldest first.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn unexported(&self, since: Timestamp, before: Timestamp) -> Result<Vec<SessionId>, StoreError>;

    /// Sessions that ended before this time, at most `limit` of them, in no set order.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn ended(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError>;

    /// Removes sessions in one transaction: facts, row, lease, and the texts that no other
    /// stream names. Only those whose lease `owner` holds: who erases takes the session first,
    /// so that nobody drives it meanwhile. Gives how many there were.
    ///
    /// # Errors
    /// Where the store cannot be written; then all are still there.
    fn erase(&self, owner: ProcessId, sessions: &[SessionId]) -> Result<u64, StoreError>;

    /// Takes off the medium what was erased: until this returns `Ok`, bytes of it may still
    /// stand in the store's files, out of reach of every other call.
    ///
    /// # Errors
    /// `Busy` where others read so long that it has to be tried again; else where the store
    /// cannot be written.
    fn scrub(&self) -> Result<(), StoreError>;

    /// The facts of this name in the system journals of all processes, oldest first.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn system_facts(&self, name: &str) -> Result<Vec<Entry>, StoreError>;

    /// Whether it can be written now, without writing anything that stays.
    ///
    /// # Errors
    /// Why it cannot.
    fn probe(&self) -> Result<(), StoreError>;
}
