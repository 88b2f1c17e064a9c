//! What every call of an agent begins with, and how a whole request is put together.

use std::sync::Arc;

use serde_json::Value;

use super::{Old, follow::Pair, state::State, summary};
use crate::core::{
    Message, ModelRequest, ToolDefinition,
    fact::{CallPurpose, Language},
    message::estimate_tokens,
};

/// The fixed part of an agent's requests: system prompt and tool definitions.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The system prompt.
    pub system: Arc<str>,
    /// The tools on offer, in a stable order.
    pub tools: Arc<[ToolDefinition]>,
    /// JSON Schema of the answer, where it is held to one.
    pub output_schema: Option<Arc<Value>>,
    /// What was said in earlier sessions of the conversation, oldest first. How long it is, and how
    /// much of it is still shown, the state knows.
    pub carried: Arc<[Pair]>,
    tokens: u64,
}

impl Prompt {
    /// Puts the parts together and estimates their tokens once.
    pub fn new(system: impl Into<Arc<str>>, tools: impl Into<Arc<[ToolDefinition]>>) -> Self {
        let (system, tools) = (system.into(), tools.into());
        let tokens = estimate_tokens(&system) + tools.iter().map(estimate_definition).sum::<u64>();
        Self { system, tools, output_schema: None, carried: Arc::default(), tokens }
    }

    /// Holds the answer to this schema, if any.
    #[must_use]
    pub fn holding(mut self, output_schema: Option<Arc<Value>>) -> Self {
        self.tokens += output_schema.as_ref().map_or(0, |schema| estimate_tokens(&schema.to_string()));
        self.output_schema = output_schema;
        self
    }

    /// Takes along what was said in earlier sessions of the conversation.
    #[must_use]
    pub fn carrying(mut self, pairs: impl Into<Arc<[Pair]>>) -> Self {
        self.carried = pairs.into();
        self
    }

    /// Adds what a model says of its own form in every request.
    #[must_use]
    pub const fn with_form(mut self, tokens: u64) -> Self {
        self.tokens += tokens;
        self
    }

    /// The estimated tokens of system prompt, tool definitions and form.
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The text that is kept for the tool definitions, under whose hash a session names them.
    pub fn tools_json(&self) -> String {
        serde_json::to_string(&self.tools[..]).expect("definitions are JSON values")
    }
}

fn estimate_definition(definition: &ToolDefinition) -> u64 {
    let schema = estimate_tokens(&definition.input_schema.to_string());
    estimate_tokens(&definition.name) + estimate_tokens(&definition.description) + schema
}

/// The request of the next call, from the state and the prompt: the same journal gives the same
/// bytes. A summary is about what is `old`.
pub fn request(state: &State, prompt: &Prompt, purpose: CallPurpose, max_tokens: u64, old: Old) -> ModelRequest {
    let mut messages: Vec<_> = state.carried().messages(prompt).chain(state.history()).cloned().collect();
    let tools = match purpose {
        CallPurpose::Step => prompt.tools.clone(),
        CallPurpose::Direct => {
            messages.push(Message::User { content: direct_instruction(state.language()).to_owned() });
            Arc::default()
        }
        // What is asked stands in the history, as a word to the answer that did not fit.
        CallPurpose::Repair => Arc::default(),
        CallPurpose::WrapUp => {
            forget_unanswered_calls(&mut messages);
            messages.push(Message::User { content: wrap_up_instruction(state.language()).to_owned() });
            Arc::default()
        }
        CallPurpose::Summary => return summary::request(state, prompt, old, max_tokens),
    };
    // A wrap-up says what is missing, which no set form has a place for.
    let output_schema = prompt.output_schema.as_deref().filter(|_| purpose != CallPurpose::WrapUp).cloned();
    ModelRequest {
        system: prompt.system.to_string(),
        messages,
        tools,
        max_tokens,
        output_schema,
        ..ModelRequest::default()
    }
}

/// Takes back the calls of the last reply, which were not run: a call without its result is an
/// error to every provider.
fn forget_unanswered_calls(messages: &mut Vec<Message>) {
    let Some(Message::Assistant { content, calls }) = messages.last_mut() else { return };
    calls.clear();
    if content.is_empty() {
        messages.pop();
    }
}

const fn direct_instruction(language: Language) -> &'static str {
    match language {
        Language::En => {
            "All tools are unavailable now and none can be called. Answer directly from what you know and from what \
             is said above, and say what you could not look up."
        }
        Language::Ru => {
            "Все инструменты сейчас недоступны, вызвать их нельзя. Ответь напрямую по тому, что знаешь и что уже \
             сказано выше, и скажи, чего не удалось узнать."
        }
    }
}

const fn wrap_up_instruction(language: Language) -> &'static str {
    match language {
        Language::En => {
            "The limit of steps is reached and no tool can be called any more. From what is known above, \
             answer as far as it goes and say what is missing."
        }
        Language::Ru => {
            "Лимит шагов исчерпан, инструменты больше недоступны. Ответь по тому, что уже известно, \
             насколько это возможно, и скажи, чего не хватает."
        }
    }
}

/// What the model is told where its answer stopped in the middle.
pub(super) const fn go_on_instruction(language: Language) -> &'static str {
    match language {
        Language::En => "Your answer stopped in the middle. Go on exactly where it stopped, and repeat nothing.",
        Language::Ru => "Твой ответ оборвался. Продолжи ровно с того места, где он остановился, ничего не повторяя.",
    }
}

/// What the model is told of an answer that does not fit.
pub(super) fn repair_instruction(language: Language, problems: &[String]) -> String {
    let problems = problems.join("; ");
    match language {
        Language::En => format!(
            "The answer does not fit the JSON Schema that it is held to: {problems}. \
             Reply with the corrected JSON alone, no tool can be called any more."
        ),
        Language::Ru => format!(
            "Ответ не соответствует заданной JSON Schema: {problems}. \
             Пришли только исправленный JSON, инструменты больше недоступны."
        ),
    }
}

/// JSON with sorted keys and no spaces, so that equal arguments are equal text.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, value)) in keys.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_text_sorts_keys_at_every_depth() {
        let value = json!({"b": [1, {"d": null, "c": "x"}], "a": true});
        assert_eq!(canonical(&value), r#"{"a":true,"b":[1,{"c":"x","d":null}]}"#);
    }

    #[test]
    fn calls_without_results_leave_the_wrap_up() {
        let mut messages = vec![
            Message::User { content: "task".into() },
            Message::Assistant { content: String::new(), calls: Vec::new() },
        ];
        forget_unanswered_calls(&mut messages);
        assert_eq!(messages, [Message::User { content: "task".into() }]);
    }
}
