//! A request in the form of Anthropic Messages.
//!
//! The fixed part, tools and system prompt, and the end of the history carry the marks of prompt
//! caching. It must never hold anything that changes between two equal requests.

use std::{borrow::Cow, collections::BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    core::{Message, ModelRequest, ToolDefinition},
    model::{history, structured},
};

/// What stands for a result without text, which the API refuses where it is an error.
const NOTHING: &str = "(nothing)";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, Map<String, Value>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

impl Block<'_> {
    /// Everything up to here may be kept in the provider's cache.
    const fn mark(&mut self) {
        let (Self::Text { cache_control, .. }
        | Self::ToolUse { cache_control, .. }
        | Self::ToolResult { cache_control, .. }) = self;
        *cache_control = Some(CacheControl::Ephemeral);
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize, Clone, Copy)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CacheControl {
    Ephemeral,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ToolChoice {
    None,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    format: OutputFormat<'a>,
}

/// The form that the reply is forced to.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputFormat<'a> {
    JsonSchema { schema: &'a Value },
}

/// The body of a request.
pub(super) fn encode(request: &ModelRequest, model: &str, stream: bool) -> Vec<u8> {
    write(request, model, Some(request.max_tokens), Some(stream))
}

/// The body of a request to have that request counted.
pub(super) fn encode_count(request: &ModelRequest, model: &str) -> Vec<u8> {
    write(request, model, None, None)
}

fn write(request: &ModelRequest, model: &str, max_tokens: Option<u64>, stream: Option<bool>) -> Vec<u8> {
    let (tools, tool_choice) = tools(request);
    let (system, schema) = structured::told(request);
    let system = text(&system).map(|text| Block::Text { text, cache_control: Some(CacheControl::Ephemeral) });
    let body = Body {
        model,
        max_tokens,
        system: system.into_iter().collect(),
        messages: marked(turns(&request.messages), !request.tools.is_empty()),
        tools,
        tool_choice,
        // Where it is only counted, nothing is stopped.
        stop_sequences: if max_tokens.is_some() { &request.stop } else { &[] },
        output_config: schema.map(|schema| OutputConfig { format: OutputFormat::JsonSchema { schema } }),
        stream,
    };
    serde_json::to_vec(&body).expect("a request is plain data with text keys")
}

/// The history as turns that alternate: what the model reads between two of its replies is one
/// turn, the results of all parallel calls among it.
fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages {
        let (role, blocks) = blocks(message);
        match turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => turns.push(Turn { role, content: blocks }),
        }
    }
    turns
}

/// The end of the history, where another step may follow: its request begins with all of this.
fn marked(mut turns: Vec<Turn<'_>>, goes_on: bool) -> Vec<Turn<'_>> {
    if let Some(block) = turns.last_mut().filter(|_| goes_on).and_then(|turn| turn.content.last_mut()) {
        block.mark();
    }
    turns
}

fn blocks(message: &Message) -> (Role, Vec<Block<'_>>) {
    let said = |content| text(content).map(|text| Block::Text { text, cache_control: None });
    match message {
        Message::User { content } => (Role::User, said(content).into_iter().collect()),
        Message::Assistant { content, calls } => {
            let uses = calls.iter().map(|call| Block::ToolUse {
                id: history::call_id(&call.id),
                name: history::tool_name(&call.name),
                input: history::arguments(&call.arguments),
                cache_control: None,
            });
            (Role::Assistant, said(content).into_iter().chain(uses).collect())
        }
        Message::Tool { call_id, content, is_error } => {
            let result = Block::ToolResult {
                tool_use_id: history::call_id(call_id),
                content: text(content).unwrap_or(NOTHING),
                is_error: *is_error,
                cache_control: None,
            };
            (Role::User, vec![result])
        }
    }
}

/// Text blocks of nothing but spaces are refused.
fn text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.trim().is_empty())
}

fn tools(request: &ModelRequest) -> (Vec<Tool<'_>>, Option<ToolChoice>) {
    if request.tools.is_empty() {
        return closed_tools(&request.messages);
    }
    let last = request.tools.len() - 1;
    let tools = request.tools.iter().enumerate().map(|(index, definition)| {
        let ToolDefinition { name, description, input_schema } = definition;
        let cache_control = (index == last).then_some(CacheControl::Ephemeral);
        Tool { name: Cow::Borrowed(name), description, input_schema: Cow::Borrowed(input_schema), cache_control }
    });
    (tools.collect(), None)
}

/// A history with calls needs tools even where none is on offer: those that were called are
/// named, and their use is forbidden.
fn closed_tools(messages: &[Message]) -> (Vec<Tool<'_>>, Option<ToolChoice>) {
    let calls = messages.iter().flat_map(|message| match message {
        Message::Assistant { calls, .. } => calls.as_slice(),
        Message::User { .. } | Message::Tool { .. } => &[],
    });
    let names: BTreeSet<_> = calls.map(|call| history::tool_name(&call.name)).collect();
    let choice = (!names.is_empty()).then_some(ToolChoice::None);
    let tool =
        |name| Tool { name, description: "", input_schema: Cow::Owned(json!({"type": "object"})), cache_control: None };
    (names.into_iter().map(tool).collect(), choice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Arguments, ToolCall};

    fn call(id: &str, name: &str, arguments: Arguments) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), arguments }
    }

    fn result(id: &str, content: &str, is_error: bool) -> Message {
        Message::Tool { call_id: id.into(), content: content.into(), is_error }
    }

    fn request(messages: Vec<Message>, tools: &[&str]) -> ModelRequest {
        let tool = |name: &&str| ToolDefinition {
            name: (*name).into(),
            description: format!("The {name}."),
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        };
        ModelRequest {
            system: "Help.".into(),
            messages,
            tools: tools.iter().map(tool).collect(),
            max_tokens: 512,
            ..ModelRequest::default()
        }
    }

    fn sent(request: &ModelRequest) -> Value {
        serde_json::from_slice(&encode(request, "claude-test", true)).unwrap()
    }

    #[test]
    fn a_step_with_two_parallel_calls() {
        let calls = vec![
            call("toolu_1", "a", Arguments::Json(json!({"x": 1}))),
            call("toolu_2", "b", Arguments::Raw("{\"x\":".into())),
        ];
        let messages = vec![
            Message::User { content: "Do it.".into() },
            Message::Assistant { content: "I look.".into(), calls },
            result("toolu_1", "{\"y\":2}", false),
            result("toolu_2", "arguments are no JSON", true),
        ];
        let expected = json!({
            "model": "claude-test",
            "max_tokens": 512,
            "system": [{"type": "text", "text": "Help.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Do it."}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "a", "input": {"x": 1}},
                    {"type": "tool_use", "id": "toolu_2", "name": "b", "input": {"raw_arguments": "{\"x\":"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "{\"y\":2}"},
                    {"type": "tool_result", "tool_use_id": "toolu_2", "content": "arguments are no JSON",
                     "is_error": true, "cache_control": {"type": "ephemeral"}},
                ]},
            ],
            "tools": [
                {"name": "a", "description": "The a.",
                 "input_schema": {"type": "object", "properties": {}, "additionalProperties": false}},
                {"name": "b", "description": "The b.",
                 "input_schema": {"type": "object", "properties": {}, "additionalProperties": false},
                 "cache_control": {"type": "ephemeral"}},
            ],
            "stream": true,
        });
        assert_eq!(sent(&request(messages, &["a", "b"])), expected);
    }

    #[test]
    fn a_wrap_up_names_what_was_called_and_forbids_it() {
        let messages = vec![
            Message::User { content: "Do it.".into() },
            Message::Assistant { content: " ".into(), calls: vec![call("f:1", "no such", Arguments::empty())] },
            result("f:1", "", true),
            Message::User { content: "Sum up.".into() },
        ];
        let body = sent(&ModelRequest { system: String::new(), ..request(messages, &[]) });
        assert_eq!(body["tools"], json!([{"name": "no_such", "input_schema": {"type": "object"}}]));
        assert_eq!(body["tool_choice"], json!({"type": "none"}));
        assert_eq!(body.get("system"), None);
        assert_eq!(
            body["messages"],
            json!([
                {"role": "user", "content": [{"type": "text", "text": "Do it."}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "f_1", "name": "no_such", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "f_1", "content": "(nothing)", "is_error": true},
                    {"type": "text", "text": "Sum up."},
                ]},
            ])
        );
    }

    #[test]
    fn where_to_stop_and_the_form_of_the_answer() {
        let schema = json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"],
            "additionalProperties": false});
        let task = || request(vec![Message::User { content: "Hello".into() }], &[]);
        let stop = vec!["Observation:".to_owned()];
        let body = sent(&ModelRequest { stop, output_schema: Some(schema.clone()), ..task() });
        assert_eq!(body["stop_sequences"], json!(["Observation:"]));
        assert_eq!(body["output_config"], json!({"format": {"type": "json_schema", "schema": schema}}));
        assert_eq!(body["system"][0]["text"], "Help.");
        let body = sent(&ModelRequest { output_schema: Some(json!({"type": "object"})), ..task() });
        assert_eq!((body.get("output_config"), body.get("stop_sequences")), (None, None));
        assert!(body["system"][0]["text"].as_str().unwrap().ends_with("{\"type\":\"object\"}"), "{body}");
    }

    #[test]
    fn without_tools_and_calls_there_is_no_word_of_tools() {
        let body = sent(&request(vec![Message::User { content: "Hello".into() }], &[]));
        assert_eq!((body.get("tools"), body.get("tool_choice")), (None, None));
    }
}
