//! What is said between the loop, the model and the tools.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::spec::ToolDefinition;

/// One entry of the history that a model reads. The system prompt stands outside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The task, or an instruction of the loop itself.
    User {
        /// What is said.
        content: String,
    },
    /// A reply of the model.
    Assistant {
        /// Its text, empty if it only asked for tools.
        content: String,
        /// The tool calls that it asked for, in its order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// The answer to one tool call.
    Tool {
        /// The call that it answers.
        call_id: String,
        /// What the model reads.
        content: String,
        /// Whether the call went wrong.
        is_error: bool,
    },
}

/// A tool call as a model asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in its session; made up where the model gave none or gave one twice.
    pub id: String,
    /// The name asked for, which need not exist.
    pub name: String,
    /// The arguments asked for.
    pub arguments: Arguments,
}

/// Arguments of a tool call: parsed, or the text that could not be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON value, not yet held against any schema.
    Json(Value),
    /// Text that is no JSON.
    Raw(String),
}

impl Arguments {
    /// Reads argument text as a model sends it: nothing and `null` are no arguments; what does
    /// not parse is kept as it came.
    pub fn from_text(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::empty();
        }
        match serde_json::from_str(text) {
            Ok(Value::Null) => Self::empty(),
            Ok(value) => Self::Json(value),
            Err(_) => Self::Raw(text.to_owned()),
        }
    }

    /// No arguments: `{}`.
    pub fn empty() -> Self {
        Self::Json(Value::Object(serde_json::Map::new()))
    }
}

/// Everything that a model is asked with in one call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The system prompt.
    pub system: String,
    /// The history, oldest first.
    pub messages: Vec<Message>,
    /// The tools on offer; none in a wrap-up call.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub tools: Arc<[ToolDefinition]>,
    /// Output tokens at the most.
    pub max_tokens: u64,
    /// Texts at which the model stops, before it says them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// JSON Schema of the answer, where it is held to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text, empty if it only asked for tools.
    pub text: String,
    /// The tool calls asked for; where there are any, the reply is not final.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Tokens of this call.
    pub usage: Usage,
    /// The model that really answered.
    pub model: String,
    /// Why it stopped, in the provider's word.
    pub finish_reason: String,
}

/// Tokens of model calls. The parts are subsets of `input` and `output`, never added to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Input tokens, those from a cache included.
    #[serde(default)]
    pub input: u64,
    /// Output tokens, reasoning included.
    #[serde(default)]
    pub output: u64,
    /// Of the input: read from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Of the input: written to a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    /// Of the output: reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning: u64,
    /// Whether the numbers are our estimate, for want of the provider's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub estimated: bool,
}

impl Usage {
    /// Input and output together, which is what a budget counts.
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Adds another call's tokens.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.estimated |= other.estimated;
    }
}

/// A rough count of the tokens of a text: a quarter of its bytes, which suits English and, at
/// two bytes a letter, Russian too. Used where no provider has counted.
pub const fn estimate_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn argument_text_of_every_kind() {
        let empty = Arguments::Json(json!({}));
        assert_eq!(Arguments::from_text(""), empty);
        assert_eq!(Arguments::from_text("  "), empty);
        assert_eq!(Arguments::from_text("null"), empty);
        assert_eq!(Arguments::from_text("{\"a\":1}"), Arguments::Json(json!({"a": 1})));
        assert_eq!(Arguments::from_text("{\"a\":"), Arguments::Raw("{\"a\":".into()));
    }
}
