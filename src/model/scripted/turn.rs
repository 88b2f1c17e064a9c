//! What a script can see of a request: the task and everything said since.

use serde::Deserialize;
use serde_json::Value;

use crate::core::{Message, ModelRequest, ToolCall};

/// Characters of a message that a fault shows.
const SHOWN: usize = 120;

/// What the last message of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Last {
    /// The task, or an instruction of the loop.
    User,
    /// A reply of the model.
    Assistant,
    /// The result of a tool.
    ToolResult,
    /// A tool call that went wrong.
    ToolError,
}

/// The task that is being answered and what followed it.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) task: &'a str,
    pub(super) last: Last,
    pub(super) last_text: &'a str,
    /// From 1: one more than the replies since the task.
    pub(super) step: usize,
    pub(super) call_count: usize,
    pub(super) tool: Option<&'a str>,
    pub(super) tools_offered: bool,
    since: &'a [Message],
}

impl<'a> Turn<'a> {
    pub(super) fn of(request: &'a ModelRequest) -> Self {
        let messages = request.messages.as_slice();
        let begin = task_index(messages);
        let since = messages.get(begin + 1..).unwrap_or_default();
        let (last, last_text) = kind_and_text(messages.last());
        Self {
            task: kind_and_text(messages.get(begin)).1,
            last,
            last_text,
            step: 1 + since.iter().filter(|message| matches!(message, Message::Assistant { .. })).count(),
            call_count: calls(since).count(),
            tool: last_tool(since),
            tools_offered: !request.tools.is_empty(),
            since,
        }
    }

    /// The last result of a tool since the task; text that is no JSON counts as a string.
    pub(super) fn result(&self) -> Option<Value> {
        self.since.iter().rev().find_map(|message| match message {
            Message::Tool { content, is_error: false, .. } => Some(json_or_text(content)),
            _ => None,
        })
    }

    /// What the tools answered to the last calls, in their order, errors too.
    pub(super) fn results(&self) -> Vec<Value> {
        let asked = self.since.iter().rposition(|message| matches!(message, Message::Assistant { .. }));
        let answers = asked.map_or(self.since, |index| &self.since[index..]);
        answers
            .iter()
            .filter_map(|message| match message {
                Message::Tool { content, .. } => Some(json_or_text(content)),
                _ => None,
            })
            .collect()
    }

    /// What the last failed call said: the field `error` where there is one.
    pub(super) fn error(&self) -> Option<String> {
        self.since.iter().rev().find_map(|message| match message {
            Message::Tool { content, is_error: true, .. } => Some(match json_or_text(content).get("error") {
                Some(Value::String(text)) => text.clone(),
                _ => content.clone(),
            }),
            _ => None,
        })
    }

    /// The last message for a fault, shortened.
    pub(super) fn describe_last(&self) -> String {
        let kind = match self.last {
            Last::User => "the user's message",
            Last::Assistant => "the model's own message",
            Last::ToolResult => "the tool result",
            Last::ToolError => "the tool error",
        };
        format!("{kind} {:?}", self.last_text.chars().take(SHOWN).collect::<String>())
    }
}

/// Where the task stands: the last user message that begins the history or follows a final
/// answer. One that follows tool results is an instruction of the loop, and so is one after an
/// empty reply.
fn task_index(messages: &[Message]) -> usize {
    let begins = |index: usize| match index.checked_sub(1).and_then(|before| messages.get(before)) {
        None => true,
        Some(Message::Assistant { content, calls }) => calls.is_empty() && !content.is_empty(),
        Some(Message::User { .. } | Message::Tool { .. }) => false,
    };
    let is_task = |index: &usize| matches!(messages[*index], Message::User { .. }) && begins(*index);
    (0..messages.len()).rev().find(is_task).unwrap_or(0)
}

fn kind_and_text(message: Option<&Message>) -> (Last, &str) {
    match message {
        Some(Message::User { content }) => (Last::User, content),
        Some(Message::Assistant { content, .. }) => (Last::Assistant, content),
        Some(Message::Tool { content, is_error: false, .. }) => (Last::ToolResult, content),
        Some(Message::Tool { content, is_error: true, .. }) => (Last::ToolError, content),
        None => (Last::User, ""),
    }
}

fn calls(messages: &[Message]) -> impl DoubleEndedIterator<Item = &ToolCall> {
    messages.iter().flat_map(|message| match message {
        Message::Assistant { calls, .. } => calls.as_slice(),
        Message::User { .. } | Message::Tool { .. } => &[],
    })
}

fn last_tool(messages: &[Message]) -> Option<&str> {
    let id = messages.iter().rev().find_map(|message| match message {
        Message::Tool { call_id, .. } => Some(call_id),
        _ => None,
    })?;
    calls(messages).rev().find(|call| call.id == *id).map(|call| call.name.as_str())
}

fn json_or_text(content: &str) -> Value {
    serde_json::from_str(content).unwrap_or_else(|_| Value::String(content.to_owned()))
}
