//! A small world in paused time: a session with scripted model and scripted tools, its journal
//! in memory, committed where it is recorded.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use glassbox::{
    config::RetryPolicy,
    core::{
        BlobHash, Clock, Effect, Entry, Fault, FaultKind, Limits, Message, Principal, SessionId, Sink, SpanId, Store,
        StreamId, Timestamp, Tool, ToolSpec,
        circuit::CircuitId,
        fact::{CarriedPair, Follows, Language, ModelInfo, SpanContent, SpanLink},
        id::ProcessId,
        port::{Blob, Entropy, JournalWatch, Nobody, StoreErrorKind, ToolContext, ToolReply},
        spec::{CacheRule, Confirm},
    },
    journal::{Journal, Mode, OnFault, SessionLog, SystemLog, Writer},
    machine::{breaker::Rules, follow},
    model::scripted::Scripted,
    policy::{self, Circuits, Policy, Primaries},
    session::{Agent, Fallback, Followed, NewSession, Upstream},
    store::memory,
    tool::{Registration, Registry},
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A clock that moves with tokio's, from a fixed day on.
pub struct PausedClock {
    begun: tokio::time::Instant,
}

impl PausedClock {
    pub fn new() -> Self {
        Self { begun: tokio::time::Instant::now() }
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        const DAY: u64 = 1_771_410_225_000_000_000; // 2026-02-18T10:23:45Z
        Timestamp::from_nanos(DAY).plus(self.begun.elapsed())
    }
}

/// Hears nothing.
pub struct Deaf;

impl JournalWatch for Deaf {
    fn committed(&self, _: usize, _: Duration) {}
    fn failed(&self, _: StoreErrorKind) {}
    fn queued(&self, _: usize) {}
}

/// How a test tool behaves, call after call; the last behaviour repeats.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ToolPlan {
    #[serde(default = "read")]
    pub effect: Effect,
    #[serde(default)]
    pub confirm: Confirm,
    #[serde(default)]
    pub confirm_expires_ms: Option<u64>,
    #[serde(default = "no_arguments")]
    pub schema: Value,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub scopes: Vec<String>,
    #[serde(default)]
    pub circuit: Option<String>,
    #[serde(default)]
    pub tool_error_trips: bool,
    #[serde(default)]
    pub max_concurrent: Option<u32>,
    #[serde(default)]
    pub fallback_tool: Option<String>,
    #[serde(default)]
    pub cache_ms: Option<u64>,
    pub runs: Vec<Run>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Run {
    #[serde(default)]
    pub delay_ms: u64,
    #[serde(default)]
    pub result: Option<Value>,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub fault: Option<FaultKind>,
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
    #[serde(default)]
    pub panic: Option<String>,
}

fn read() -> Effect {
    Effect::Read
}

fn no_arguments() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// A tool that follows its plan and counts its runs.
pub struct PlannedTool {
    spec: ToolSpec,
    runs: Vec<Run>,
    pub count: Arc<AtomicUsize>,
    /// The idempotency key and number of each attempt.
    pub keys: Arc<Mutex<Vec<(String, u32)>>>,
}

impl PlannedTool {
    pub fn new(name: &str, plan: ToolPlan) -> Self {
        let mut spec = ToolSpec::new(name, format!("The {name} of the test."), plan.schema)
            .effect(plan.effect)
            .confirm(plan.confirm)
            .scopes(plan.scopes);
        if let Some(time) = plan.confirm_expires_ms {
            spec = spec.confirm_expires(Duration::from_millis(time));
        }
        if let Some(timeout) = plan.timeout_ms {
            spec = spec.timeout(Duration::from_millis(timeout));
        }
        spec.circuit = plan.circuit;
        spec.tool_error_trips = plan.tool_error_trips;
        spec.max_concurrent = plan.max_concurrent;
        spec.fallback_tool = plan.fallback_tool;
        let rule = |ttl| CacheRule { ttl: Duration::from_millis(ttl), max_entries: 10, shared: false };
        spec.cache = plan.cache_ms.map(rule);
        Self { spec, runs: plan.runs, count: Arc::default(), keys: Arc::default() }
    }
}

#[async_trait]
impl Tool for PlannedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, cx: &ToolContext, _: Value) -> Result<ToolReply, Fault> {
        self.keys.lock().expect("no panic").push((cx.idempotency_key.clone(), cx.attempt));
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let run = self.runs[number.min(self.runs.len() - 1)].clone();
        if run.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(run.delay_ms)).await;
        }
        if let Some(message) = run.panic {
            panic!("{message}");
        }
        if let Some(kind) = run.fault {
            let retry_after = run.retry_after_ms.map(Duration::from_millis);
            return Err(Fault { retry_after, ..Fault::new(kind, format!("planned {kind}")) });
        }
        Ok(match (run.result, run.text) {
            (Some(value), _) => ToolReply::Json(value),
            (None, text) => ToolReply::Text(text.unwrap_or_default()),
        })
    }
}

pub fn model_info() -> ModelInfo {
    ModelInfo {
        name: "test".into(),
        request_model: "test-1".into(),
        provider: "scripted".into(),
        context_window: 8000,
        max_output_tokens: 1000,
        prices: None,
    }
}

/// The model `backup`, which stands in for the one of the test, with its script.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct FallbackPlan {
    script: String,
    #[serde(default)]
    context_window: Option<u64>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
}

impl FallbackPlan {
    pub fn fallback(&self) -> Fallback {
        let usual = model_info();
        let info = ModelInfo {
            name: "backup".into(),
            request_model: "backup-1".into(),
            context_window: self.context_window.unwrap_or(usual.context_window),
            max_output_tokens: self.max_output_tokens.unwrap_or(usual.max_output_tokens),
            ..usual
        };
        let model = Scripted::from_yaml(info, &self.script).expect("a good script");
        Fallback { model: Arc::new(model), timeout: Duration::from_secs(30) }
    }
}

pub fn principal() -> Principal {
    Principal { id: "C-001".into(), scopes: Vec::new(), roles: Vec::new(), attributes: Default::default() }
}

pub fn session_id() -> SessionId {
    "sess_00112233445566778899aabbccddeeff".parse().expect("an id")
}

/// An agent of the test.
pub fn agent(script: &str, model: ModelInfo, limits: Limits, language: Language, tools: Vec<Arc<dyn Tool>>) -> Agent {
    let names: Vec<_> = tools.iter().map(|tool| tool.spec().name().to_owned()).collect();
    let registry = Registry::new(tools.into_iter().map(Registration::new).collect()).expect("good tools");
    Agent {
        name: "test".into(),
        system_prompt: "You are a test.".into(),
        prompt_version: Some("1".into()),
        language,
        limits,
        model: Arc::new(Scripted::from_yaml(model, script).expect("a good script")),
        model_timeout: Duration::from_secs(30),
        fallback: None,
        tools: registry.subset(&names).expect("known tools"),
        policy: Arc::new(policy(&journal(Arc::new(memory::Store::new()), Vec::new()), [])),
        output_schema: None,
        task_types: vec!["other".into()],
        default_task_type: "other".into(),
        fingerprint: "{}".into(),
    }
}

/// Chance that is none: always the middle, so that jitter adds nothing.
pub struct Middle;

impl Entropy for Middle {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        bytes[0] = 0x80;
    }
}

/// What stands around calls: the policies of the default configuration, and breakers for these.
pub fn policy(journal: &Journal, circuits: impl IntoIterator<Item = CircuitId>) -> Policy {
    policy_with(journal, circuits, &[])
}

/// The same, with these models that have a fallback.
pub fn policy_with(journal: &Journal, circuits: impl IntoIterator<Item = CircuitId>, primaries: &[&str]) -> Policy {
    let (system, rules) = (SystemLog::begin(journal), Rules::default());
    let primaries = primaries.iter().map(|name| (*name).to_owned());
    Policy {
        circuits: Circuits::new(system.clone(), &rules, circuits),
        primaries: Primaries::new(system, rules.half_open_after, primaries),
        limits: policy::Limits::default(),
        slots: policy::Slots::default(),
        cache: policy::Cache::default(),
        llm_retry: RetryPolicy::llm().rules(),
        tool_retry: RetryPolicy::tool().rules(),
        entropy: Arc::new(Middle),
        readers: Arc::new(Nobody),
    }
}

/// What the system journal of the world's process holds.
pub fn system_entries(store: &memory::Store) -> Vec<Entry> {
    store.load(StreamId::System(ProcessId::from_bytes([1; 16]))).expect("a readable memory")
}

/// A journal in memory that commits where a fact is recorded.
pub fn journal(store: Arc<dyn Store>, sinks: Vec<Box<dyn Sink>>) -> Journal {
    journal_of(1, store, sinks, Arc::new(PausedClock::new()))
}

/// The same, of a process with its number.
pub fn journal_of(process: u8, store: Arc<dyn Store>, sinks: Vec<Box<dyn Sink>>, clock: Arc<dyn Clock>) -> Journal {
    let writer =
        Writer::start(Mode::Inline, OnFault::Fail, store, sinks, Arc::new(Deaf), clock.clone()).expect("no thread");
    Journal::new(writer, clock, ProcessId::from_bytes([process; 16]))
}

pub fn begin(agent: &Agent, journal: &Journal, task: &str) -> SessionLog {
    begin_until(agent, journal, task, Duration::from_secs(3600))
}

/// The same, under a lease that lasts so long.
pub fn begin_until(agent: &Agent, journal: &Journal, task: &str, lease: Duration) -> SessionLog {
    begin_following(agent, journal, task, lease, Followed::default())
}

/// What a session takes over from sessions with these tasks and answers.
pub fn followed(pairs: &[(String, String)], doubtful: &[String]) -> Followed {
    let session = SessionId::from_bytes([9; 16]);
    let blob = |text: &String| {
        let hash = BlobHash::from_bytes(Sha256::digest(text).into());
        Blob { hash, bytes: Arc::from(text.as_bytes()) }
    };
    let blobs: Vec<_> = pairs.iter().flat_map(|(task, answer)| [blob(task), blob(answer)]).collect();
    let said = |(task, answer): &(String, String)| {
        [Message::User { content: task.clone() }, Message::Assistant { content: answer.clone(), calls: Vec::new() }]
    };
    let messages: Vec<_> = pairs.iter().map(said).collect();
    let carried = messages.iter().zip(blobs.chunks(2)).map(|(pair, blobs)| CarriedPair {
        session,
        task: blobs[0].hash,
        answer: blobs[1].hash,
        tokens: follow::tokens(pair),
    });
    let root = SpanLink { trace_id: session.trace_id(), span_id: SpanId::of_fact(session, 0) };
    let (carried, doubtful) = (carried.collect(), doubtful.to_vec());
    let follows = Follows { session, root, carried, left_out: 0, doubtful };
    Followed { follows: Some(Box::new(follows)), pairs: messages.into(), blobs }
}

/// The same, of a session that follows others.
pub fn begin_following(agent: &Agent, journal: &Journal, task: &str, lease: Duration, follows: Followed) -> SessionLog {
    let new = NewSession {
        task: task.into(),
        task_type: "other".into(),
        principal: principal(),
        conversation_id: None,
        follows,
        metadata: serde_json::Map::new(),
        upstream: Upstream::None,
        sampled: true,
        // What a fold shows of it is the test's to say.
        content: SpanContent::Full,
        once: None,
    };
    let prompt = agent.prompt(&new.principal);
    let until = journal.clock().now().plus(lease);
    agent.begin(journal, session_id(), new, &prompt, until)
}

pub fn entries(store: &memory::Store) -> Vec<Entry> {
    store.load(StreamId::Session(session_id())).expect("a readable memory")
}
