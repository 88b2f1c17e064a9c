//! What facts say of model calls and tool calls.

use serde::{Deserialize, Serialize};

use super::session::ModelInfo;
use crate::core::{
    fault::FaultKind,
    id::BlobHash,
    message::{Arguments, ModelReply, Usage},
    outcome::ToolOutcome,
    sensitive::Sensitive,
};

/// Why a model is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallPurpose {
    /// The next step.
    Step,
    /// The next step, without tools because all of them are unavailable: a reply is the answer.
    Direct,
    /// One call without tools that turns what is known into a partial answer.
    WrapUp,
    /// No step: what is left out of the history is summed up, to make room.
    Summary,
    /// One call without tools that asks for an answer of the right form, after one that was not.
    Repair,
}

impl CallPurpose {
    /// Every purpose.
    pub const ALL: [Self; 5] = [Self::Step, Self::Direct, Self::WrapUp, Self::Summary, Self::Repair];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Direct => "direct",
            Self::WrapUp => "wrap_up",
            Self::Summary => "summary",
            Self::Repair => "repair",
        }
    }
}

/// Who counted the input of a call before it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// The provider of the model.
    Provider,
    /// A tokenizer of ours.
    Tokenizer,
    /// Nobody: an estimate by what was counted last, and by length.
    #[default]
    Estimate,
}

impl CountedBy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Provider, Self::Tokenizer, Self::Estimate];

    /// The word that users see, also in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Tokenizer => "tokenizer",
            Self::Estimate => "estimate",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
    const fn is_estimate(&self) -> bool {
        matches!(self, Self::Estimate)
    }
}

/// What a model call asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The step, from 1; a wrap-up and a repair carry that of the last step.
    pub step: u32,
    /// Why it is made.
    pub purpose: CallPurpose,
    /// The model asked first.
    pub model: ModelInfo,
    /// Its input, as far as it is known before the call.
    pub estimated_input_tokens: u64,
    /// Who says so.
    #[serde(default, skip_serializing_if = "CountedBy::is_estimate")]
    pub counted_by: CountedBy,
    /// Output tokens allowed.
    pub max_tokens: u64,
    /// The hash of the body that is sent, which proves a rebuilt prompt.
    pub body_hash: BlobHash,
    /// Of a summary: how many of the oldest steps it is about.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub summarized_steps: u32,
    /// And how many of the oldest pairs of earlier sessions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub summarized_pairs: u32,
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
    /// Whether it is sure that nothing went out: it was cut off while its intent waited for the
    /// disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_begun: bool,
}

impl<O> AttemptEnd<O> {
    /// An attempt that went out and ended like this.
    pub const fn new(outcome: O, error: Option<Sensitive<String>>) -> Self {
        Self { outcome, error, not_begun: false }
    }
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
    /// Attempts made; 0 where the call was refused before, or its result was still known.
    pub attempts: u32,
    /// Whether the result is one that an earlier call got.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}
