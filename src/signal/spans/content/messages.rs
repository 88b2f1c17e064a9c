//! What was said, in the form that the GenAI conventions have for it: the JSON Schemas of messages,
//! system instructions and tool definitions. Newest first decides what has room: what came long
//! ago stands on earlier spans. Knows no span.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{
    mask,
    pen::{Made, OMITTED, Pen, fit},
};
use crate::core::{Arguments, Finish, Message, ModelReply, ToolCall, ToolDefinition, fact::SpanContent};

/// Room for the message that says how many are left out.
const MARK: usize = 96;

/// `gen_ai.input.messages`: the newest that have room, and how many older ones there were.
pub(super) fn input(mode: SpanContent, room: usize, messages: &[Message]) -> Made {
    let (mut shown, mut used, mut left_out, mut whole) = (Vec::new(), 2, 0, true);
    for (older, message) in messages.iter().enumerate().rev() {
        let message = mask::message(mode, message);
        let made = fit(room.saturating_sub(used + MARK), |pen| say(pen, &message));
        left_out = if made.is_some() { older } else { older + 1 };
        whole = made.as_ref().is_some_and(|made| made.whole);
        used += made.as_ref().map_or(0, |made| made.text.len() + 1);
        shown.extend(made.map(|made| made.text));
        if !whole {
            break;
        }
    }
    if left_out > 0 {
        let parts = json!([{"type": OMITTED, "messages": left_out}]);
        shown.push(json!({"role": "system", "parts": parts}).to_string());
    }
    shown.reverse();
    Made { text: format!("[{}]", shown.join(",")), whole }
}

/// `gen_ai.output.messages` of a model call.
pub(super) fn output(mode: SpanContent, room: usize, reply: &ModelReply) -> Made {
    let message = Message::Assistant { content: reply.text.clone(), calls: reply.calls.clone() };
    one(mode, room, &message, finish_reason(reply))
}

/// `gen_ai.output.messages` of a whole session.
pub(super) fn answer(mode: SpanContent, room: usize, answer: &str, reason: &str) -> Made {
    let message = Message::Assistant { content: answer.to_owned(), calls: Vec::new() };
    one(mode, room, &message, reason)
}

/// `gen_ai.system_instructions`.
pub(super) fn instructions(mode: SpanContent, room: usize, text: &str) -> Made {
    let text = mask::text(mode, text);
    fit(room, |pen| json!([part(pen, &text)])).unwrap_or_else(|| nothing(json!([{"type": OMITTED}])))
}

/// `gen_ai.tool.definitions`, by name alone: the conventions advise against more on each call.
pub(super) fn tool_names(mode: SpanContent, room: usize, tools: &[ToolDefinition]) -> Made {
    names(room, tools.iter().map(|tool| mask::text(mode, &tool.name)).collect())
}

/// `gen_ai.tool.definitions`, whole; by name alone where that has no room.
pub(super) fn definitions(mode: SpanContent, room: usize, tools: &[ToolDefinition]) -> Made {
    let tools = mask::tools(mode, tools);
    let all = |pen: &mut Pen| tools.iter().map(|tool| definition(pen, tool)).collect();
    fit(room, all).unwrap_or_else(|| Made {
        whole: false,
        ..names(room, tools.iter().map(|tool| tool.name.as_str().into()).collect())
    })
}

fn names(room: usize, names: Vec<Cow<'_, str>>) -> Made {
    let all = |pen: &mut Pen| names.iter().map(|name| json!({"type": "function", "name": pen.text(name)})).collect();
    fit(room, all).unwrap_or_else(|| nothing(json!([{"type": OMITTED, "name": format!("{} tools", names.len())}])))
}

fn definition(pen: &mut Pen, tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "name": pen.text(&tool.name),
        "description": pen.text(&tool.description),
        "parameters": pen.value(&tool.input_schema),
    })
}

/// The one message of an answer.
fn one(mode: SpanContent, room: usize, message: &Message, reason: &str) -> Made {
    let message = mask::message(mode, message);
    let answer = |mut said: Value| {
        said["finish_reason"] = reason.into();
        json!([said])
    };
    let instead = || nothing(answer(json!({"role": "assistant", "parts": [{"type": OMITTED}]})));
    fit(room, |pen| answer(say(pen, &message))).unwrap_or_else(instead)
}

fn nothing(instead: Value) -> Made {
    Made { text: instead.to_string(), whole: false }
}

fn say(pen: &mut Pen, message: &Message) -> Value {
    match message {
        Message::User { content } => json!({"role": "user", "parts": [part(pen, content)]}),
        Message::Assistant { content, calls } => {
            json!({"role": "assistant", "parts": reply_parts(pen, content, calls)})
        }
        Message::Tool { call_id, content, .. } => {
            let response =
                json!({"type": "tool_call_response", "id": pen.text(call_id), "response": pen.text(content)});
            json!({"role": "tool", "parts": [response]})
        }
    }
}

fn reply_parts(pen: &mut Pen, text: &str, calls: &[ToolCall]) -> Value {
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(part(pen, text));
    }
    parts.extend(calls.iter().map(|call| {
        let arguments = match &call.arguments {
            Arguments::Json(value) => pen.value(value),
            Arguments::Raw(text) => Value::String(pen.text(text)),
        };
        json!({"type": "tool_call", "id": pen.text(&call.id), "name": pen.text(&call.name), "arguments": arguments})
    }));
    parts.into()
}

fn part(pen: &mut Pen, text: &str) -> Value {
    json!({"type": "text", "content": pen.text(text)})
}

/// Why a model stopped, in the words of the conventions; the provider's own word stands in
/// `gen_ai.response.finish_reasons`.
fn finish_reason(reply: &ModelReply) -> &'static str {
    match Finish::of(&reply.finish_reason) {
        Finish::Whole if reply.calls.is_empty() => "stop",
        Finish::Whole => "tool_call",
        Finish::Cut | Finish::ContextFull => "length",
        Finish::Paused => "pause",
        Finish::Declined => "content_filter",
        Finish::Overloaded | Finish::Broken => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: SpanContent = SpanContent::Full;

    fn user(content: impl Into<String>) -> Message {
        Message::User { content: content.into() }
    }

    fn parsed(made: &Made) -> Value {
        serde_json::from_str(&made.text).expect("it is JSON")
    }

    #[test]
    fn messages_have_the_form_of_the_conventions() {
        let arguments = Arguments::Json(json!({"to": "87011234567"}));
        let call = ToolCall { id: "c1".into(), name: "sms".into(), arguments };
        let bad = ToolCall { id: "c2".into(), name: "sms".into(), arguments: Arguments::Raw("{\"to".into()) };
        let messages = [
            user("tell 87011234567"),
            Message::Assistant { content: String::new(), calls: vec![call, bad] },
            Message::Tool { call_id: "c1".into(), content: "{\"ok\": true}".into(), is_error: false },
        ];
        let shown = |number: &str| {
            json!([
                {"role": "user", "parts": [{"type": "text", "content": format!("tell {number}")}]},
                {"role": "assistant", "parts": [
                    {"type": "tool_call", "id": "c1", "name": "sms", "arguments": {"to": number}},
                    {"type": "tool_call", "id": "c2", "name": "sms", "arguments": "{\"to"},
                ]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "{\"ok\": true}"}]},
            ])
        };
        let made = input(FULL, 10_000, &messages);
        assert_eq!((parsed(&made), made.whole), (shown("87011234567"), true));
        assert_eq!(parsed(&input(SpanContent::Masked, 10_000, &messages)), shown("[phone]"));
    }

    #[test]
    fn a_mask_comes_before_the_cut() {
        // The cut alone would leave some digits of the card.
        let text = format!("{} 4111 1111 1111 1111 {}", "x".repeat(900), "y".repeat(9000));
        for room in 960..1100 {
            let made = input(SpanContent::Masked, room, &[user(text.as_str())]);
            assert!(!made.text.contains("4111") && !made.whole, "{}", made.text);
        }
    }

    #[test]
    fn the_newest_messages_have_room_first_and_the_others_are_counted() {
        let messages: Vec<_> = (0..100).map(|number| user(format!("message {number} {}", "x".repeat(80)))).collect();
        let made = input(FULL, 1000, &messages);
        assert!(!made.whole && made.text.len() <= 1000, "{}", made.text.len());
        let shown = parsed(&made);
        let shown = shown.as_array().expect("a list");
        let content = |message: &Value| message["parts"][0]["content"].as_str().expect("text").to_owned();
        assert_eq!(content(shown.last().expect("one")), format!("message 99 {}", "x".repeat(80)));
        let left_out = json!({"role": "system", "parts": [{"type": OMITTED, "messages": 101 - shown.len()}]});
        assert_eq!(shown[0], left_out);
        let first = 101 - shown.len();
        assert!(content(&shown[1]).starts_with(&format!("message {first} ")), "{}", shown[1]);
    }

    #[test]
    fn one_long_message_is_cut_and_nothing_is_said_to_be_left_out() {
        let made = input(FULL, 1000, &[user("y".repeat(5000))]);
        let shown = parsed(&made);
        assert!(!made.whole && made.text.len() <= 1000);
        let content = shown[0]["parts"][0]["content"].as_str().expect("text");
        assert!(content.starts_with("yyyy") && content.ends_with(" bytes left out]"), "{content}");
        assert_eq!(shown.as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn no_message_at_all_is_an_empty_list() {
        assert_eq!(input(FULL, 1000, &[]), Made { text: "[]".into(), whole: true });
    }

    #[test]
    fn why_a_model_stopped_is_said_in_the_words_of_the_conventions() {
        let call = ToolCall { id: "c".into(), name: "n".into(), arguments: Arguments::empty() };
        for (word, calls, said) in [
            ("end_turn", vec![], "stop"),
            ("tool_use", vec![call], "tool_call"),
            ("max_tokens", vec![], "length"),
            ("content_filter", vec![], "content_filter"),
        ] {
            let reply = ModelReply { finish_reason: word.into(), calls, text: "t".into(), ..ModelReply::default() };
            assert_eq!(parsed(&output(FULL, 1000, &reply))[0]["finish_reason"], said, "{word}");
        }
    }

    #[test]
    fn definitions_that_have_no_room_are_names_and_then_a_number() {
        let tool = |number: usize| ToolDefinition {
            name: format!("tool_{number}"),
            description: "Does it.".into(),
            input_schema: json!({"type": "object", "properties": {"q": {"type": "string"}}}),
        };
        let tools: Vec<_> = (0..20).map(tool).collect();
        let whole = definitions(FULL, 10_000, &tools);
        assert_eq!(parsed(&whole)[3]["parameters"]["properties"]["q"]["type"], "string");
        let names = definitions(FULL, 1000, &tools);
        assert!(!names.whole);
        assert_eq!(parsed(&names)[19], json!({"type": "function", "name": "tool_19"}));
        assert_eq!(parsed(&tool_names(FULL, 200, &tools)), json!([{"type": OMITTED, "name": "20 tools"}]));
    }
}
