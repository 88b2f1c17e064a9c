//! A request as ReAct text: the tools and the form in the system prompt, the history as the model
//! would have written it.
//!
//! It must never hold anything that changes between two equal requests.

use super::{NO_ACTION, NO_NAME, STOP};
use crate::{
    core::{Arguments, Message, ModelRequest, ToolCall, ToolDefinition, message::estimate_tokens},
    model::structured::in_words,
};

/// How the model is to write. The marks are explained to it, so that it can tell a result from
/// an error.
const FORM: &str = "\
To call a tool, write exactly these lines and then stop:

Thought: what you need to know next
Action: the name of one tool from the list
Action Input: its input as one JSON object

What the tool gives comes back to you as \"Observation: ...\", or as \"Observation: [error] ...\" where the call went \
wrong; then mend the call or go another way. Never write an observation yourself. For several calls at once, repeat \
the lines Action and Action Input; their observations come in the same order.

Once you know enough, write:

Thought: what you found out
Final Answer: the answer, in the language of the task";

/// What stands above the tools.
const TOOLS: &str = "You can call these tools:";
/// Tokens of a tool's entry beside its name, description and schema.
const ENTRY: u64 = 8;

/// What is said where tools were called before and none is on offer any more.
const NO_TOOLS: &str = "No tool can be called now. Write the answer behind \"Final Answer:\".";

/// Whether a request speaks of tools at all; one that does not is an ordinary one.
pub(super) fn speaks_react(request: &ModelRequest) -> bool {
    let asks = |message: &Message| match message {
        Message::Assistant { calls, .. } => !calls.is_empty(),
        Message::Tool { .. } => true,
        Message::User { .. } => false,
    };
    !request.tools.is_empty() || request.messages.iter().any(asks)
}

/// About how many tokens the form takes, with so many tools in the list.
pub(super) fn form_tokens(tools: usize) -> u64 {
    if tools == 0 { 0 } else { estimate_tokens(FORM) + estimate_tokens(TOOLS) + ENTRY * tools as u64 }
}

/// The request as the model reads it: no tools, only text.
pub(super) fn flatten(request: &ModelRequest) -> ModelRequest {
    let request = in_words(request);
    if !speaks_react(&request) {
        return request.into_owned();
    }
    let mut stop = request.stop.clone();
    stop.push(STOP.to_owned());
    ModelRequest {
        system: system(&request),
        messages: messages(&request.messages),
        tools: [].into(),
        max_tokens: request.max_tokens,
        stop,
        output_schema: None,
    }
}

fn system(request: &ModelRequest) -> String {
    let mut parts = vec![request.system.trim_end().to_owned()];
    if request.tools.is_empty() {
        parts.push(NO_TOOLS.to_owned());
    } else {
        parts.push(TOOLS.to_owned());
        parts.extend(request.tools.iter().map(tool));
        parts.push(FORM.to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn tool(ToolDefinition { name, description, input_schema }: &ToolDefinition) -> String {
    format!("{name}: {}\nInput, as JSON Schema: {input_schema}", description.trim())
}

/// Turns that alternate, as many templates of chats ask for: what the model reads between two of
/// its replies is one.
fn messages(history: &[Message]) -> Vec<Message> {
    let mut turns: Vec<Message> = Vec::new();
    for message in history {
        match (said(message), turns.last_mut()) {
            (Message::User { content }, Some(Message::User { content: last })) => {
                last.push_str("\n\n");
                last.push_str(&content);
            }
            (turn, _) => turns.push(turn),
        }
    }
    turns
}

fn said(message: &Message) -> Message {
    match message {
        Message::User { content } => Message::User { content: content.clone() },
        Message::Assistant { content, calls } if calls.is_empty() => {
            Message::Assistant { content: format!("Final Answer: {content}"), calls: Vec::new() }
        }
        Message::Assistant { content, calls } => {
            let thought = Some(content.trim()).filter(|text| !text.is_empty()).map(|text| format!("Thought: {text}"));
            let mut lines: Vec<_> = thought.into_iter().chain(calls.iter().filter_map(action)).collect();
            if lines.is_empty() {
                lines.push("Thought:".to_owned());
            }
            Message::Assistant { content: lines.join("\n"), calls: Vec::new() }
        }
        Message::Tool { content, is_error, .. } => {
            let mark = if *is_error { "[error] " } else { "" };
            Message::User { content: format!("{STOP} {mark}{content}") }
        }
    }
}

/// A call as the model would write it; one that it did not manage to write stands as it came.
fn action(ToolCall { name, arguments, .. }: &ToolCall) -> Option<String> {
    if name == NO_ACTION {
        return None; // the thought is all that there was
    }
    let input = match arguments {
        Arguments::Json(value) => value.to_string(),
        Arguments::Raw(text) => text.trim().to_owned(),
    };
    if name == NO_NAME {
        return Some(format!("Action: {input}"));
    }
    Some(format!("Action: {}\nAction Input: {input}", name.replace(['\n', '\r'], " ")))
}
