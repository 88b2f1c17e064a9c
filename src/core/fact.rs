//! The facts of a journal: a closed, versioned list in the past tense.
//!
//! State, trace, metrics, lines, live feed and resume are folds over these. Folds name every
//! fact (wildcards are banned there), so a new one does not compile until each has its answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    id::{BlobHash, SessionId, SpanId, StreamId, TraceId},
    limits::Limits,
    message::{Arguments, ModelReply, Usage},
    outcome::{EndReason, SessionStatus, ToolOutcome},
    principal::Principal,
    sensitive::Sensitive,
    spec::Effect,
};
use crate::core::{fault::FaultKind, time::Timestamp};

/// The version of the facts below; a journal of a newer one is refused.
pub const JOURNAL_VERSION: u32 = 1;

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
    /// The session will go on by itself, in this process or another.
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
        call: Box<ModelCall>,
    },
    /// One request of a model call went out.
    ModelAttemptStarted {
        /// The call that it belongs to.
        call: SpanId,
        /// From 1.
        attempt: u32,
        /// The configured model that is asked.
        model: String,
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
    },
    /// Last fact of a session; closes its root span.
    SessionFinished(Box<SessionEnd>),
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
            Self::ToolCallStarted { .. } => "tool_call_started",
            Self::ToolAttemptStarted { .. } => "tool_attempt_started",
            Self::ToolAttemptFinished { .. } => "tool_attempt_finished",
            Self::ToolCallFinished { .. } => "tool_call_finished",
            Self::LimitReached { .. } => "limit_reached",
            Self::HandedOver { .. } => "handed_over",
            Self::SessionFinished(_) => "session_finished",
            Self::ProcessStarted { .. } => "process_started",
            Self::ProcessStopped { .. } => "process_stopped",
        }
    }
}

/// How a session began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// [`JOURNAL_VERSION`] of the process that wrote it.
    pub version: u32,
    /// The configured agent.
    pub agent: String,
    /// The task, as it was given.
    pub task: Sensitive<String>,
    /// The configured kind of task, a label.
    pub task_type: String,
    /// Who it acts for.
    pub principal: Principal,
    /// The conversation that it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// The model that it begins with.
    pub model: ModelInfo,
    /// Where it is stopped.
    pub limits: Limits,
    /// The language of what a customer reads.
    pub language: Language,
    /// The system prompt, kept as a blob.
    pub prompt: PromptRef,
    /// The tool definitions on offer, kept as a blob.
    pub tools_hash: BlobHash,
    /// The effective configuration of the agent.
    pub config_hash: BlobHash,
    /// Where its trace begins.
    pub trace: TraceStart,
    /// What the caller sent along, untouched.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// A model as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The name in the configuration, and the label in metrics.
    pub name: String,
    /// The name that the provider knows (`gen_ai.request.model`).
    pub request_model: String,
    /// `gen_ai.provider.name`.
    pub provider: String,
    /// Tokens that fit into one request and its reply.
    pub context_window: u64,
    /// Output tokens at the most.
    pub max_output_tokens: u64,
}

/// The system prompt of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRef {
    /// The agent's name, until prompts have names of their own.
    pub name: String,
    /// `prompt_version` of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where its text is kept.
    pub hash: BlobHash,
}

/// The language of texts for customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Russian.
    Ru,
}

/// The trace of a session: its ids, and the sampling decision that every later process keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStart {
    /// The trace.
    pub trace_id: TraceId,
    /// The root operation and its span.
    pub root: SpanId,
    /// The head decision.
    pub sampled: bool,
    /// The caller's span, where a trusted caller's trace is joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SpanId>,
    /// The caller's span, where it is only linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<SpanLink>,
}

/// A span of another trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanLink {
    /// The other trace.
    pub trace_id: TraceId,
    /// The span in it.
    pub span_id: SpanId,
}

/// Why a model is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallPurpose {
    /// The next step.
    Step,
    /// One call without tools that turns what is known into a partial answer.
    WrapUp,
}

/// What a model call asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The step, from 1; a wrap-up carries that of the last step.
    pub step: u32,
    /// Why it is made.
    pub purpose: CallPurpose,
    /// The model asked first.
    pub model: ModelInfo,
    /// Our estimate of its input.
    pub estimated_input_tokens: u64,
    /// Output tokens allowed.
    pub max_tokens: u64,
    /// The hash of the body that is sent, which proves a rebuilt prompt.
    pub body_hash: BlobHash,
}

/// How a model call or attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelOutcome {
    /// With a reply.
    Ok,
    /// The session was stopped.
    Cancelled,
    /// Its process died.
    Lost,
    /// With a fault.
    #[serde(untagged)]
    Fault(FaultKind),
}

impl ModelOutcome {
    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Fault(kind) => kind.label(),
        }
    }

    /// Every outcome, for series that are born at zero.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Ok, Self::Cancelled, Self::Lost].into_iter().chain(FaultKind::ALL.into_iter().map(Self::Fault))
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd<O> {
    /// How.
    pub outcome: O,
    /// The phrase of its fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Sensitive<String>>,
}

/// How a model call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCallEnd {
    /// How.
    pub outcome: ModelOutcome,
    /// The reply, where there is one; its calls already carry unique ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<ModelReply>,
    /// Tokens of all its attempts.
    pub usage: Usage,
    /// The phrase of the fault that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Sensitive<String>>,
    /// Attempts made.
    pub attempts: u32,
}

/// What a tool call asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallBegin {
    /// The step that asked for it.
    pub step: u32,
    /// The id that its observation answers to.
    pub call_id: String,
    /// The name as the model gave it.
    pub tool: String,
    /// Whether a tool of this name is configured; if not, the name never becomes a label.
    pub known: bool,
    /// The arguments as the model gave them.
    pub arguments: Arguments,
}

/// How a tool call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallEnd {
    /// The id that the observation answers to.
    pub call_id: String,
    /// How.
    pub outcome: ToolOutcome,
    /// What the model reads.
    pub observation: Observation,
    /// Whether the arguments fitted the schema; nothing where no schema was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_valid: Option<bool>,
    /// The phrase of the fault, for spans and operators; the observation has its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Sensitive<String>>,
    /// Attempts made; 0 where the call was refused before.
    pub attempts: u32,
}

/// What the model reads back from a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The text, capped.
    pub content: String,
    /// Whether the call went wrong.
    pub is_error: bool,
    /// Tokens of the text, estimated.
    pub tokens: u64,
    /// Where the whole result is kept, if it was capped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<BlobHash>,
}

/// The limits that stop a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "named like the end reasons, which carry their meanings")]
pub enum Limit {
    MaxIterations,
    TokenBudget,
    CostLimit,
    ContextWindow,
    Deadline,
    RepeatedFailure,
    NoProgress,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 7] = [
        Self::MaxIterations,
        Self::TokenBudget,
        Self::CostLimit,
        Self::ContextWindow,
        Self::Deadline,
        Self::RepeatedFailure,
        Self::NoProgress,
    ];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::MaxIterations => "max_iterations",
            Self::TokenBudget => "token_budget",
            Self::CostLimit => "cost_limit",
            Self::ContextWindow => "context_window",
            Self::Deadline => "deadline",
            Self::RepeatedFailure => "repeated_failure",
            Self::NoProgress => "no_progress",
        }
    }
}

/// Why a person has to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoverCause {
    /// The session ended without its answer.
    SessionEnded,
    /// A call with effects may or may not have happened.
    UnknownOutcome,
}

impl HandoverCause {
    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::SessionEnded => "session_ended",
            Self::UnknownOutcome => "unknown_outcome",
        }
    }
}

/// Why a session is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendCause {
    /// The process is stopping.
    Drain,
    /// The journal could not write.
    Journal,
}

impl SuspendCause {
    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Journal => "journal",
        }
    }
}

/// How a session ended, with its totals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// How.
    pub status: SessionStatus,
    /// What refines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// The answer of a session that is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Sensitive<String>>,
    /// What is known, of a session that is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Sensitive<String>>,
    /// What a customer is told, of a session that is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// Whether the answer was given without tools because all were unavailable.
    #[serde(default)]
    pub degraded: bool,
    /// Steps done.
    pub steps: u32,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// Tools called, each once, in the order of their first call; invented names left out.
    pub tools_called: Vec<String>,
    /// The fullest that the context window was before a call, 0 to 1.
    pub context_peak: f64,
    /// Active time in milliseconds; waiting for a person does not count.
    pub active_ms: u64,
}

/// A session as a list shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionSummary {
    /// The session.
    pub id: SessionId,
    /// The configured agent.
    pub agent: String,
    /// The configured kind of task.
    pub task_type: String,
    /// The owner's identifier.
    pub principal: String,
    /// Where it stands.
    pub status: SessionStatus,
    /// What refines it.
    pub reason: Option<EndReason>,
    /// When it began.
    pub started: Timestamp,
    /// When its last fact was recorded.
    pub updated: Timestamp,
    /// Facts in its journal.
    pub facts: u64,
    /// Steps begun.
    pub steps: u32,
}
