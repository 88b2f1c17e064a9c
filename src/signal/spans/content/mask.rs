//! What was said with marks in the place of what looks like personal data or a secret, where that
//! is asked for. Each text goes by itself, before JSON is made of it. Knows no bounds and no span.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    core::{Arguments, Message, ToolCall, ToolDefinition, fact::SpanContent},
    signal::redact,
};

/// A text as it may be shown.
pub(super) fn text(mode: SpanContent, text: &str) -> Cow<'_, str> {
    if mode == SpanContent::Full { Cow::Borrowed(text) } else { redact::redact_text(text) }
}

/// A JSON value as it may be shown.
pub(super) fn value(mode: SpanContent, value: &Value) -> Cow<'_, Value> {
    if mode == SpanContent::Full { Cow::Borrowed(value) } else { Cow::Owned(redact::redact_json(value)) }
}

/// A message as it may be shown.
pub(super) fn message(mode: SpanContent, message: &Message) -> Cow<'_, Message> {
    if mode == SpanContent::Full {
        return Cow::Borrowed(message);
    }
    let clean = |words: &str| text(mode, words).into_owned();
    Cow::Owned(match message {
        Message::User { content } => Message::User { content: clean(content) },
        Message::Assistant { content, calls } => {
            Message::Assistant { content: clean(content), calls: calls.iter().map(|one| call(mode, one)).collect() }
        }
        Message::Tool { call_id, content, is_error } => {
            Message::Tool { call_id: clean(call_id), content: clean(content), is_error: *is_error }
        }
    })
}

/// Definitions as they may be shown: servers of others write some.
pub(super) fn tools(mode: SpanContent, tools: &[ToolDefinition]) -> Cow<'_, [ToolDefinition]> {
    if mode == SpanContent::Full {
        return Cow::Borrowed(tools);
    }
    let clean = |tool: &ToolDefinition| ToolDefinition {
        name: text(mode, &tool.name).into_owned(),
        description: text(mode, &tool.description).into_owned(),
        input_schema: redact::redact_json(&tool.input_schema),
    };
    tools.iter().map(clean).collect()
}

/// Names and ids too: a model may have made them up.
fn call(mode: SpanContent, call: &ToolCall) -> ToolCall {
    let arguments = match &call.arguments {
        Arguments::Json(json) => Arguments::Json(value(mode, json).into_owned()),
        Arguments::Raw(raw) => Arguments::Raw(text(mode, raw).into_owned()),
    };
    ToolCall { id: text(mode, &call.id).into_owned(), name: text(mode, &call.name).into_owned(), arguments }
}
