//! The tokens of a message by its length, for want of a count.

use crate::core::{Arguments, Message, ToolCall, message::estimate_tokens};

/// Tokens that a message costs besides its text.
const MESSAGE_OVERHEAD: u64 = 4;

/// About how many tokens a message takes.
pub(super) fn estimate_message(message: &Message) -> u64 {
    let text = match message {
        Message::User { content } | Message::Tool { content, .. } => estimate_tokens(content),
        Message::Assistant { content, calls } => {
            estimate_tokens(content) + calls.iter().map(estimate_call).sum::<u64>()
        }
    };
    text + MESSAGE_OVERHEAD
}

/// About how many tokens some messages take.
pub(super) fn estimate_messages(messages: &[Message]) -> u64 {
    messages.iter().map(estimate_message).sum()
}

fn estimate_call(call: &ToolCall) -> u64 {
    let arguments = match &call.arguments {
        Arguments::Json(value) => estimate_tokens(&value.to_string()),
        Arguments::Raw(text) => estimate_tokens(text),
    };
    estimate_tokens(&call.name) + arguments
}
