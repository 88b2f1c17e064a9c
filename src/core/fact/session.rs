//! What facts say of a session as a whole: how it began, how it ended.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Follows;
use crate::core::{
    id::{BlobHash, SessionId, SpanId, TraceId},
    limits::Limits,
    message::Usage,
    money::{Money, Prices},
    outcome::{EndReason, SessionStatus},
    principal::Principal,
    sensitive::Sensitive,
    time::Timestamp,
};

/// How a session began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// [`JOURNAL_VERSION`](super::JOURNAL_VERSION) of the process that wrote it.
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
    /// The JSON Schema that the answer is held to, kept as a blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema_hash: Option<BlobHash>,
    /// The effective configuration of the agent.
    pub config_hash: BlobHash,
    /// Where its trace begins.
    pub trace: TraceStart,
    /// What it takes over from the conversation, where it is not the first session of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Box<Follows>>,
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
    /// What its tokens cost, in billionths of a dollar; none where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

impl ModelInfo {
    /// What a call of it cost; nothing where it has no prices.
    pub fn cost(&self, usage: &Usage) -> Option<Money> {
        self.prices.map(|prices| prices.cost(usage))
    }
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
    /// What its spans show of what was said, as it was decided when the session began.
    #[serde(default, skip_serializing_if = "SpanContent::is_off")]
    pub content: SpanContent,
    /// The caller's span, where a trusted caller's trace is joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SpanId>,
    /// The caller's span, where it is only linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<SpanLink>,
}

/// What spans show of what was said: prompts, messages, arguments, results. Ordered by how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanContent {
    /// Nothing.
    #[default]
    Off,
    /// All of it, and marks in the place of what looks like personal data or a secret.
    Masked,
    /// All of it, as it is.
    Full,
}

impl SpanContent {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Off, Self::Masked, Self::Full];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Masked => "masked",
            Self::Full => "full",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
    const fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }
}

/// A span of another trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanLink {
    /// The other trace.
    pub trace_id: TraceId,
    /// The span in it.
    pub span_id: SpanId,
}

/// Why a session is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendCause {
    /// The process is stopping.
    Drain,
    /// The journal could not write.
    Journal,
    /// A call waits for a person.
    Confirmation,
}

impl SuspendCause {
    /// Every cause.
    pub const ALL: [Self; 3] = [Self::Drain, Self::Journal, Self::Confirmation];

    /// Where the session stands meanwhile.
    pub const fn status(self) -> SessionStatus {
        match self {
            Self::Drain | Self::Journal => SessionStatus::Suspended,
            Self::Confirmation => SessionStatus::AwaitingConfirmation,
        }
    }

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Journal => "journal",
            Self::Confirmation => "confirmation",
        }
    }
}

/// Why sessions were removed from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EraseCause {
    /// They ended longer ago than sessions are kept.
    Retention,
    /// Somebody asked for it.
    Request,
}

impl EraseCause {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Retention, Self::Request];

    /// The word that users see, a label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Request => "request",
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
    /// Steps that have their reply.
    pub steps: u32,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// What they cost, as far as their models have prices; nothing where none has.
    #[serde(rename = "cost_nano_usd", default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
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
    /// The conversation that it belongs to, if any.
    pub conversation: Option<String>,
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
    /// Steps that have their reply.
    pub steps: u32,
}
