//! The input of an action as arguments: JSON where it can be read as such, else the text itself,
//! whose check then tells the model what is wrong with it.

use serde_json::{Map, Value};

use super::{NO_NAME, relaxed};
use crate::{
    core::{Arguments, ToolCall},
    machine::answer::without_fence,
};

/// The keys under which an action in JSON names its tool and its input.
const TOOL_KEYS: [&str; 4] = ["action", "tool", "name", "function"];
const INPUT_KEYS: [&str; 6] = ["action_input", "input", "arguments", "args", "parameters", "params"];

/// Reads an input.
pub(super) fn read(text: &str) -> Arguments {
    let text = without_fence(text).trim_matches(['`', '*']).trim();
    if ["none", "null", "n/a", "no input"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Arguments::empty();
    }
    match Arguments::from_text(text) {
        Arguments::Json(value) => Arguments::Json(value),
        Arguments::Raw(_) => json_of(text).map_or_else(|| Arguments::Raw(text.to_owned()), Arguments::Json),
    }
}

/// The input that stands in brackets behind a name: `city: Paris, unit: "c"`.
pub(super) fn read_pairs(text: &str) -> Arguments {
    let text = text.trim();
    if text.is_empty() || text.starts_with('{') {
        return read(text);
    }
    relaxed::value(&format!("{{{text}}}")).map_or_else(|| Arguments::Raw(text.to_owned()), Arguments::Json)
}

/// The object or array that a text is, or that it begins with where only words follow.
fn json_of(text: &str) -> Option<Value> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    relaxed::value(text).or_else(|| {
        let mut values = serde_json::Deserializer::from_str(text).into_iter();
        let first: Value = values.next()?.ok()?;
        let behind = text.get(values.byte_offset()..)?;
        (!behind.contains(['{', '['])).then_some(first)
    })
}

/// Calls that are written as JSON, one object or a list of them; nothing where it is something else.
pub(super) fn calls_in(text: &str) -> Option<Vec<ToolCall>> {
    let Arguments::Json(value) = read(text) else { return None };
    let items = match value {
        Value::Array(items) => items,
        Value::Object(fields) => vec![Value::Object(fields)],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    items.into_iter().map(|item| if let Value::Object(fields) = item { call_of(fields) } else { None }).collect()
}

fn call_of(mut fields: Map<String, Value>) -> Option<ToolCall> {
    let name = TOOL_KEYS.iter().find_map(|key| match fields.remove(*key)? {
        Value::String(name) => Some(name),
        _ => None,
    })?;
    let arguments = match INPUT_KEYS.iter().find_map(|key| fields.remove(*key)) {
        None | Some(Value::Null) => Arguments::empty(),
        Some(Value::String(text)) => read(&text),
        Some(value) => Arguments::Json(value),
    };
    Some(call(&name, arguments))
}

/// A call whose id is made up later, from its place.
pub(super) fn call(name: &str, arguments: Arguments) -> ToolCall {
    let markup = |letter: char| letter.is_whitespace() || matches!(letter, '`' | '"' | '\'' | '*' | '.' | ',' | ':');
    let name = name.trim_matches(markup);
    let name = if name.is_empty() { NO_NAME } else { name };
    ToolCall { id: String::new(), name: name.to_owned(), arguments }
}
