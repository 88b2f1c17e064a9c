//! A request in the form of OpenAI chat completions.
//!
//! It must never hold anything that changes between two equal requests.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::MaxTokensKey;
use crate::{
    core::{Message, ModelRequest, ToolDefinition},
    model::{history, structured},
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<Declared<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

/// The form that the reply is forced to.
#[derive(Serialize)]
#[serde(tag = "type", content = "json_schema", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonSchema { name: &'static str, strict: bool, schema: &'a Value },
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Turn<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        /// Null where there are only calls.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(flatten)]
    function: Function<Called<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", content = "function", rename_all = "snake_case")]
enum Function<T> {
    Function(T),
}

#[derive(Serialize)]
struct Called<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

#[derive(Serialize)]
struct Declared<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a Value,
}

/// The body of a request.
pub(super) fn encode(request: &ModelRequest, model: &str, key: MaxTokensKey, stream: bool) -> Vec<u8> {
    let (system, schema) = structured::told(request);
    let system = Some(&*system).filter(|text| !text.trim().is_empty());
    let system = system.map(|content| Turn::System { content });
    let most = |wanted| (key == wanted).then_some(request.max_tokens);
    let body = Body {
        model,
        messages: system.into_iter().chain(request.messages.iter().map(turn)).collect(),
        tools: request.tools.iter().map(declared).collect(),
        max_tokens: most(MaxTokensKey::MaxTokens),
        max_completion_tokens: most(MaxTokensKey::MaxCompletionTokens),
        stop: &request.stop,
        response_format: schema.map(|schema| ResponseFormat::JsonSchema { name: "answer", strict: true, schema }),
        stream,
        stream_options: stream.then_some(StreamOptions { include_usage: true }),
    };
    serde_json::to_vec(&body).expect("a request is plain data with text keys")
}

fn turn(message: &Message) -> Turn<'_> {
    match message {
        Message::User { content } => Turn::User { content },
        Message::Assistant { content, calls } => {
            let only_calls = content.is_empty() && !calls.is_empty();
            let tool_calls = calls.iter().map(|call| {
                let arguments = serde_json::to_string(&*history::arguments(&call.arguments));
                let arguments = arguments.expect("arguments are JSON values");
                let function = Function::Function(Called { name: history::tool_name(&call.name), arguments });
                Call { id: &call.id, function }
            });
            Turn::Assistant { content: (!only_calls).then_some(content), tool_calls: tool_calls.collect() }
        }
        Message::Tool { call_id, content, is_error: _ } => Turn::Tool { tool_call_id: call_id, content },
    }
}

fn declared(definition: &ToolDefinition) -> Function<Declared<'_>> {
    let ToolDefinition { name, description, input_schema } = definition;
    Function::Function(Declared { name, description, parameters: input_schema })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::{Arguments, ToolCall};

    fn sent(request: &ModelRequest, key: MaxTokensKey, stream: bool) -> Value {
        serde_json::from_slice(&encode(request, "gpt-test", key, stream)).unwrap()
    }

    fn request() -> ModelRequest {
        let call = |id: &str, name: &str, arguments| ToolCall { id: id.into(), name: name.into(), arguments };
        let result =
            |id: &str, content: &str, is_error| Message::Tool { call_id: id.into(), content: content.into(), is_error };
        let calls = vec![
            call("call_1", "a", Arguments::Json(json!({"город": "Алматы"}))),
            call("call_2", "no such", Arguments::Raw("{\"x\":".into())),
        ];
        let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
        ModelRequest {
            system: "Help.".into(),
            messages: vec![
                Message::User { content: "Do it.".into() },
                Message::Assistant { content: String::new(), calls },
                result("call_1", "2", false),
                result("call_2", "no JSON", true),
                Message::Assistant { content: "Two.".into(), calls: Vec::new() },
            ],
            tools: [ToolDefinition { name: "a".into(), description: "The a.".into(), input_schema: schema }].into(),
            max_tokens: 512,
            ..ModelRequest::default()
        }
    }

    #[test]
    fn a_step_with_two_parallel_calls() {
        let expected = json!({
            "model": "gpt-test",
            "messages": [
                {"role": "system", "content": "Help."},
                {"role": "user", "content": "Do it."},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "call_1", "type": "function",
                     "function": {"name": "a", "arguments": "{\"город\":\"Алматы\"}"}},
                    {"id": "call_2", "type": "function",
                     "function": {"name": "no_such", "arguments": "{\"raw_arguments\":\"{\\\"x\\\":\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "call_1", "content": "2"},
                {"role": "tool", "tool_call_id": "call_2", "content": "no JSON"},
                {"role": "assistant", "content": "Two."},
            ],
            "tools": [{"type": "function", "function": {
                "name": "a",
                "description": "The a.",
                "parameters": {"type": "object", "properties": {}, "additionalProperties": false},
            }}],
            "max_completion_tokens": 512,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        assert_eq!(sent(&request(), MaxTokensKey::MaxCompletionTokens, true), expected);
    }

    #[test]
    fn a_plain_request_to_a_compatible_server() {
        let body = sent(&ModelRequest { tools: [].into(), ..request() }, MaxTokensKey::MaxTokens, false);
        assert_eq!(body["max_tokens"], 512);
        assert_eq!(body["stream"], false);
        for key in ["max_completion_tokens", "stream_options", "tools", "stop", "response_format"] {
            assert_eq!(body.get(key), None, "{key}");
        }
    }

    #[test]
    fn where_to_stop_and_the_form_of_the_answer() {
        let schema = json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"],
            "additionalProperties": false});
        let stop = vec!["Observation:".to_owned()];
        let asked = ModelRequest { stop, output_schema: Some(schema.clone()), ..request() };
        let body = sent(&asked, MaxTokensKey::MaxTokens, false);
        assert_eq!(body["stop"], json!(["Observation:"]));
        let form = json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}});
        assert_eq!(body["response_format"], form);
        assert_eq!(body["messages"][0]["content"], "Help.");
        let loose = ModelRequest { output_schema: Some(json!({"type": "object"})), ..request() };
        let body = sent(&loose, MaxTokensKey::MaxTokens, false);
        assert_eq!(body.get("response_format"), None);
        assert!(body["messages"][0]["content"].as_str().unwrap().ends_with("{\"type\":\"object\"}"), "{body}");
    }
}
