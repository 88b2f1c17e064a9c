//! The facts of a journal: a closed, versioned list in the past tense.
//!
//! State, trace, metrics, lines, live feed and resume are folds over these. Folds name every
//! fact (wildcards are banned there), so a new one does not compile until each has its answer.

mod call;
mod confirmation;
mod definition;
mod fallback;
mod follows;
mod limit;
mod mcp;
mod session;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::{
    call::{
        AttemptEnd, CallPurpose, CountedBy, ModelCall, ModelCallEnd, ModelOutcome, Observation, ToolCallBegin,
        ToolCallEnd,
    },
    confirmation::{ConfirmationEnd, ConfirmationRequest, Decision},
    definition::{DefinitionChange, DefinitionVerdict},
    fallback::FallbackCause,
    follows::{CarriedPair, Follows},
    limit::{HandoverCause, HandoverChange, Limit, RateLimit},
    mcp::{McpPeer, McpWay},
    session::{
        EraseCause, Language, ModelInfo, PromptRef, SessionEnd, SessionStarted, SessionSummary, SpanContent, SpanLink,
        SuspendCause, TraceStart,
    },
};
use super::{
    circuit::CircuitChange,
    id::{BlobHash, SpanId, StreamId},
    outcome::ToolOutcome,
    sensitive::Sensitive,
    spec::Effect,
    time::Timestamp,
};

/// The version of the facts below; a journal of a newer one is refused.
pub const JOURNAL_VERSION: u32 = 1;

/// The name of [`Fact::CircuitChanged`], to find those of earlier processes by.
pub const CIRCUIT_CHANGED: &str = "circuit_changed";

/// The name of [`Fact::ToolDefinitionChanged`], to find those of earlier processes by.
pub const TOOL_DEFINITION_CHANGED: &str = "tool_definition_changed";
/// The name of [`Fact::ModelChecked`], to find those of earlier processes by.
pub const MODEL_CHECKED: &str = "model_checked";

/// One fact at its place in a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Whose journal.
    pub stream: StreamId,
    /// The place, from 0, without gaps. (stream, seq) never names two facts.
    pub seq: u64,
    /// When it was recorded; never earlier than the entry before.
    pub at: Timestamp,
    /// What happened.
    pub fact: Fact,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// First fact of a session; opens its root span.
    SessionStarted(Box<SessionStarted>),
    /// The session stopped for now; it goes on in this process or another.
    SessionSuspended {
        /// Why it stopped for now.
        cause: SuspendCause,
    },
    /// A process took the session up again.
    SessionResumed {
        /// The process that goes on with it.
        process: String,
    },
    /// Somebody asked for the session to stop.
    CancelRequested {
        /// Who asked: a principal's id, or `signal`.
        by: Sensitive<String>,
    },
    /// A logical model call began; opens its span.
    ModelCallStarted {
        /// The operation and its span.
        op: SpanId,
        /// What is asked.
        call: Arc<ModelCall>,
    },
    /// One request of a model call went out.
    ModelAttemptStarted {
        /// The call that it belongs to.
        call: SpanId,
        /// From 1.
        attempt: u32,
        /// The configured model that is asked.
        model: String,
        /// Milliseconds waited since the attempt before.
        #[serde(default, skip_serializing_if = "is_zero")]
        wait_ms: u64,
    },
    /// One request of a model call came back, or did not.
    ModelAttemptFinished {
        /// The call that it belongs to.
        call: SpanId,
        /// From 1.
        attempt: u32,
        /// How it ended.
        end: AttemptEnd<ModelOutcome>,
    },
    /// A model call ended; closes its span.
    ModelCallFinished {
        /// The operation and its span.
        op: SpanId,
        /// How it ended.
        end: Box<ModelCallEnd>,
    },
    /// The next model call goes to the fallback and not to the agent's own model.
    ModelFallback {
        /// The step of that call.
        step: u32,
        /// The configured model that is not asked, or not again.
        from: String,
        /// The configured model that is asked instead.
        to: String,
        /// Why.
        cause: FallbackCause,
    },
    /// A tool call that the model asked for began; opens its span.
    ToolCallStarted {
        /// The operation and its span.
        op: SpanId,
        /// What was asked for.
        call: Box<ToolCallBegin>,
    },
    /// One attempt of a tool call goes out; where the tool has effects, this is the durable intent.
    ToolAttemptStarted {
        /// The call that it belongs to.
        call: SpanId,
        /// From 1.
        attempt: u32,
        /// What the call changes.
        effect: Effect,
        /// Milliseconds waited since the attempt before.
        #[serde(default, skip_serializing_if = "is_zero")]
        wait_ms: u64,
        /// The MCP server that is asked; nothing for tools of other kinds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mcp: Option<Box<McpPeer>>,
    },
    /// One attempt of a tool call ended.
    ToolAttemptFinished {
        /// The call that it belongs to.
        call: SpanId,
        /// From 1.
        attempt: u32,
        /// How it ended.
        end: AttemptEnd<ToolOutcome>,
    },
    /// A tool call ended; closes its span. Its observation is what the model reads.
    ToolCallFinished {
        /// The operation and its span.
        op: SpanId,
        /// How it ended.
        end: Box<ToolCallEnd>,
    },
    /// A tool call waits for a person; opens the span of the waiting.
    ConfirmationRequested {
        /// The operation and its span.
        op: SpanId,
        /// What is asked.
        request: Box<ConfirmationRequest>,
    },
    /// The waiting ended; closes its span.
    ConfirmationDecided {
        /// The operation and its span.
        op: SpanId,
        /// How.
        end: ConfirmationEnd,
    },
    /// A rate limit of ours refused something.
    RateLimited {
        /// Which one.
        limit: RateLimit,
        /// The tool that was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// Milliseconds until it is allowed again; of slots, which nobody can foretell, 0.
        wait_ms: u64,
        /// How many refusals this stands for: where many are refused, not each is written down.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        times: u64,
    },
    /// Old results of tools, whole steps or pairs of earlier sessions were left out of the history,
    /// to make room for the next call.
    ContextCompacted {
        /// The calls whose results are left out; the calls themselves stay.
        calls: Vec<String>,
        /// How many of the oldest pairs are left out that the session took over when it began.
        #[serde(default, skip_serializing_if = "is_zero_u32")]
        pairs: u32,
        /// How many of the oldest steps are left out, their calls and results together.
        #[serde(default, skip_serializing_if = "is_zero_u32")]
        steps: u32,
        /// What a model says of those pairs and steps, which stands in their place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Sensitive<String>>,
        /// Estimated input tokens of the next call before.
        tokens_before: u64,
        /// And after.
        tokens_after: u64,
    },
    /// The answer was held against the schema that the session holds it to.
    AnswerChecked {
        /// What is wrong with it, each with its path; empty where it fits.
        #[serde(default)]
        problems: Sensitive<Vec<String>>,
    },
    /// A limit stops the session.
    LimitReached {
        /// Which one.
        limit: Limit,
        /// The value at which it stands.
        value: u64,
    },
    /// A person has to take over; the record that operators list.
    HandedOver {
        /// Why.
        cause: HandoverCause,
        /// One phrase for the operator.
        detail: Sensitive<String>,
        /// The tool whose call it is about, if it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
    },
    /// Last fact of a session; closes its root span.
    SessionFinished(Box<SessionEnd>),
    /// System journal: a circuit breaker moved, or an operator switched it.
    CircuitChanged(Box<CircuitChange>),
    /// System journal: a server's tool was seen for the first time, or is defined otherwise than
    /// when it was last seen.
    ToolDefinitionChanged(Box<DefinitionChange>),
    /// System journal: a model that has a fallback is given up for a while, or taken back.
    PrimaryChanged {
        /// The configured model.
        model: String,
        /// Whether calls go straight to the fallback from now on.
        down: bool,
    },
    /// System journal: somebody tried whether a model takes an agent's tool definitions.
    ModelChecked {
        /// The configured model.
        model: String,
        /// The name that the provider knows.
        request_model: String,
        /// The hash of the definitions, all of the agent's.
        tools_hash: BlobHash,
        /// Whether it took them.
        ok: bool,
    },
    /// System journal: a process opened the store.
    ProcessStarted {
        /// The version of glassbox.
        version: String,
        /// Which surface: `run`, `serve`.
        surface: String,
    },
    /// System journal: the process closed the store in order.
    ProcessStopped {
        /// Sessions that it left suspended.
        suspended: u64,
    },
    /// System journal: the process was asked to read its configuration again, and did.
    ConfigReloaded {
        /// Why it goes on with the one before; nothing where it took the new one over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Sensitive<String>>,
    },
    /// System journal: an operator took a hand-over on, or is done with it.
    HandoverChanged(Box<HandoverChange>),
    /// System journal: sessions were removed from the store, for good.
    SessionsErased {
        /// How many.
        count: u64,
        /// Why.
        cause: EraseCause,
    },
}

impl Fact {
    /// The name as it stands in the store, without serialising the fact.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SessionStarted(_) => "session_started",
            Self::SessionSuspended { .. } => "session_suspended",
            Self::SessionResumed { .. } => "session_resumed",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::ModelCallStarted { .. } => "model_call_started",
            Self::ModelAttemptStarted { .. } => "model_attempt_started",
            Self::ModelAttemptFinished { .. } => "model_attempt_finished",
            Self::ModelCallFinished { .. } => "model_call_finished",
            Self::ModelFallback { .. } => "model_fallback",
            Self::ToolCallStarted { .. } => "tool_call_started",
            Self::ToolAttemptStarted { .. } => "tool_attempt_started",
            Self::ToolAttemptFinished { .. } => "tool_attempt_finished",
            Self::ToolCallFinished { .. } => "tool_call_finished",
            Self::ConfirmationRequested { .. } => "confirmation_requested",
            Self::ConfirmationDecided { .. } => "confirmation_decided",
            Self::RateLimited { .. } => "rate_limited",
            Self::ContextCompacted { .. } => "context_compacted",
            Self::AnswerChecked { .. } => "answer_checked",
            Self::LimitReached { .. } => "limit_reached",
            Self::HandedOver { .. } => "handed_over",
            Self::SessionFinished(_) => "session_finished",
            Self::CircuitChanged(_) => CIRCUIT_CHANGED,
            Self::ToolDefinitionChanged(_) => TOOL_DEFINITION_CHANGED,
            Self::PrimaryChanged { .. } => "primary_changed",
            Self::ModelChecked { .. } => MODEL_CHECKED,
            Self::ProcessStarted { .. } => "process_started",
            Self::ProcessStopped { .. } => "process_stopped",
            Self::ConfigReloaded { .. } => "config_reloaded",
            Self::HandoverChanged(_) => "handover_changed",
            Self::SessionsErased { .. } => "sessions_erased",
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
const fn is_zero_u32(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
const fn is_once(times: &u64) -> bool {
    *times == 1
}

const fn once() -> u64 {
    1
}
