//! How a model is told which form its answer must have: by the provider's own means, where the
//! schema is one that providers take, else in words.
//!
//! It must never check an answer; whoever asked does.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::core::{
    Fault, Model, ModelReply, ModelRequest,
    fact::{CountedBy, ModelInfo},
    port::{ModelCallInput, TraceContext},
};

/// A schema may nest this deep to be a provider's.
const MAX_DEPTH: usize = 10;

/// How a model is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructuredOutput {
    /// By the provider's own means.
    Native,
    /// By an instruction at the end of the system prompt.
    Prompt,
}

impl StructuredOutput {
    /// Both, with their words in configuration.
    pub const ALL: [(&'static str, Self); 2] = [("native", Self::Native), ("prompt", Self::Prompt)];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Prompt => "prompt",
        }
    }
}

/// A model that has no means of its own: it is told in words.
pub struct Prompted {
    inner: Arc<dyn Model>,
}

impl Prompted {
    /// This model, told in words.
    pub const fn new(inner: Arc<dyn Model>) -> Self {
        Self { inner }
    }
}

impl std::fmt::Debug for Prompted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prompted").field("info", self.info()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for Prompted {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        self.inner.encode(&in_words(request))
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        let request = in_words(call.request);
        self.inner.call(ModelCallInput { request: &request, ..call }).await
    }

    fn counted_by(&self) -> CountedBy {
        self.inner.counted_by()
    }

    async fn count(&self, request: &ModelRequest, trace: TraceContext) -> Option<u64> {
        self.inner.count(&in_words(request), trace).await
    }
}

/// The request with its schema as a part of the system prompt.
pub(super) fn in_words(request: &ModelRequest) -> Cow<'_, ModelRequest> {
    let Some(schema) = &request.output_schema else { return Cow::Borrowed(request) };
    let system = with_instruction(&request.system, schema);
    Cow::Owned(ModelRequest { system, output_schema: None, ..request.clone() })
}

/// The system prompt, and the schema for a provider's own means; where those do not take it, the
/// system prompt says it.
pub(super) fn told(request: &ModelRequest) -> (Cow<'_, str>, Option<&Value>) {
    match &request.output_schema {
        None => (Cow::Borrowed(&request.system), None),
        Some(schema) if is_strict(schema) => (Cow::Borrowed(&request.system), Some(schema)),
        Some(schema) => (Cow::Owned(with_instruction(&request.system, schema)), None),
    }
}

fn with_instruction(system: &str, schema: &Value) -> String {
    let gap = if system.trim().is_empty() { "" } else { "\n\n" };
    format!(
        "{}{gap}Your final answer must be one JSON value that fits this JSON Schema, with no other text before or \
         after it:\n{schema}",
        system.trim_end()
    )
}

/// Whether every provider takes the schema as one that a reply is forced to fit: what OpenAI's
/// strict mode and Anthropic's output format both know. The root is an object, every object is
/// closed and needs all its fields, and no word narrows a text or a number.
fn is_strict(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("anyOf").is_none() && fits(schema, MAX_DEPTH)
}

fn fits(schema: &Value, depth: usize) -> bool {
    let Value::Object(words) = schema else { return false };
    depth > 0
        && words.iter().all(|(word, value)| match word.as_str() {
            "type" | "title" | "description" | "enum" | "const" | "required" => true,
            "additionalProperties" => value == &Value::Bool(false),
            "properties" => value.as_object().is_some_and(|fields| fields.values().all(|field| fits(field, depth - 1))),
            "items" => fits(value, depth - 1),
            "anyOf" => value.as_array().is_some_and(|forms| forms.iter().all(|form| fits(form, depth - 1))),
            _ => false,
        })
        && (!may_be_object(words) || is_closed(words))
}

fn may_be_object(words: &Map<String, Value>) -> bool {
    let types = words.get("type");
    let listed = types.and_then(Value::as_array).is_some_and(|types| types.iter().any(|name| name == "object"));
    listed || types.is_some_and(|name| name == "object") || words.contains_key("properties")
}

fn is_closed(words: &Map<String, Value>) -> bool {
    let required: Vec<_> = words.get("required").and_then(Value::as_array).into_iter().flatten().collect();
    let mut fields = words.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    words.contains_key("additionalProperties") && fields.all(|field| required.iter().any(|name| **name == *field))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strict() -> Value {
        json!({"type": "object", "additionalProperties": false, "required": ["sum", "notes"], "properties": {
            "sum": {"type": "integer", "description": "tenge"},
            "notes": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        }})
    }

    fn request(schema: Value) -> ModelRequest {
        ModelRequest { system: "Help.\n".into(), output_schema: Some(schema), ..ModelRequest::default() }
    }

    #[test]
    fn a_strict_schema_is_left_to_the_provider() {
        let request = request(strict());
        assert_eq!(told(&request), (Cow::Borrowed("Help.\n"), Some(&strict())));
    }

    #[test]
    fn what_no_provider_forces_is_said_in_words() {
        let with = |pointer: &str, word: &str, value: Value| {
            let mut schema = strict();
            schema.pointer_mut(pointer).unwrap()[word] = value;
            schema
        };
        for schema in [
            json!(true),
            json!({"type": "array", "items": {"type": "string"}}),
            with("", "required", json!(["sum"])),
            with("", "additionalProperties", json!(true)),
            with("", "patternProperties", json!({})),
            with("/properties/sum", "minimum", json!(0)),
            with("/properties/sum", "type", json!("object")),
            with("/properties/notes/items", "$ref", json!("#")),
        ] {
            let request = request(schema.clone());
            let (system, native) = told(&request);
            assert_eq!(native, None, "{schema}");
            assert!(system.starts_with("Help.\n\nYour final answer must be one JSON value"), "{system}");
            assert!(system.ends_with(&format!(":\n{schema}")), "{system}");
        }
    }

    #[test]
    fn words_leave_nothing_for_the_wire() {
        let asked = request(strict());
        let words = in_words(&asked);
        assert_eq!(words.output_schema, None);
        assert!(words.system.contains(r#""sum""#));
        let plain = ModelRequest { system: "Help.".into(), ..ModelRequest::default() };
        assert_eq!(*in_words(&plain), plain);
    }
}
