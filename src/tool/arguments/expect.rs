//! Words for what a schema expects and for what came instead.

use serde_json::{Map, Value};

/// Characters of a value that are shown.
const SHOWN: usize = 60;

/// What a schema expects, as a phrase: `a string matching ^\d{4}$`.
pub(super) fn expected(schema: &Value) -> Option<String> {
    let fields = schema.as_object()?;
    if let Some(value) = fields.get("const") {
        return Some(format!("exactly {}", shorten(&value.to_string())));
    }
    if let Some(Value::Array(values)) = fields.get("enum") {
        return Some(one_of(values));
    }
    match fields.get("type") {
        Some(Value::String(name)) => Some(of_type(name, fields)),
        Some(Value::Array(names)) => {
            let names: Vec<_> = names.iter().filter_map(Value::as_str).map(|name| of_type(name, fields)).collect();
            Some(names.join(" or "))
        }
        _ => {
            let forms = ["anyOf", "oneOf"].iter().find_map(|word| fields.get(*word)?.as_array())?;
            let forms: Option<Vec<_>> = forms.iter().map(expected).collect();
            forms.map(|forms| forms.join(" or "))
        }
    }
}

/// What came, as a phrase: a string is named as one, for `"3"` and `3` are easily confused.
pub(super) fn got(value: &Value) -> String {
    let text = shorten(&value.to_string());
    match value {
        Value::String(_) => format!("the string {text}"),
        Value::Array(_) => format!("the array {text}"),
        Value::Object(_) => format!("the object {text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) => text,
    }
}

/// What a string holds, if it is an array or an object written as text.
pub(super) fn encoded_kind(value: &Value) -> Option<&'static str> {
    let text = value.as_str()?.trim();
    if !text.starts_with(['[', '{']) {
        return None;
    }
    match serde_json::from_str(text).ok()? {
        Value::Array(_) => Some("an array"),
        Value::Object(_) => Some("an object"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A text cut to what is shown.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn one_of(values: &[Value]) -> String {
    const LISTED: usize = 20;
    let listed: Vec<_> = values.iter().take(LISTED).map(|value| shorten(&value.to_string())).collect();
    let rest = if values.len() > LISTED { format!(" and {} more", values.len() - LISTED) } else { String::new() };
    format!("one of {}{rest}", listed.join(", "))
}

fn of_type(name: &str, fields: &Map<String, Value>) -> String {
    match name {
        "string" => {
            format!("a string{}{}{}", length(fields, "Length", "characters"), pattern(fields), format_of(fields))
        }
        "integer" => format!("an integer{}", range(fields)),
        "number" => format!("a number{}", range(fields)),
        "boolean" => "true or false".to_owned(),
        "array" => format!("an array{}{}", length(fields, "Items", "items"), unique(fields)),
        "object" => format!("an object{}", length(fields, "Properties", "fields")),
        other => other.to_owned(),
    }
}

fn length(fields: &Map<String, Value>, what: &str, unit: &str) -> String {
    let bound = |side: &str| fields.get(&format!("{side}{what}")).filter(|bound| bound.is_number());
    match (bound("min"), bound("max")) {
        (Some(least), Some(most)) => format!(" of {least} to {most} {unit}"),
        (Some(least), None) => format!(" of at least {least} {unit}"),
        (None, Some(most)) => format!(" of at most {most} {unit}"),
        (None, None) => String::new(),
    }
}

fn range(fields: &Map<String, Value>) -> String {
    let bound = |word: &str| fields.get(word).filter(|bound| bound.is_number());
    let mut text = match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        (Some(least), None) => format!(" of at least {least}"),
        (None, Some(most)) => format!(" of at most {most}"),
        (None, None) => String::new(),
    };
    for (word, phrase) in
        [("exclusiveMinimum", "above"), ("exclusiveMaximum", "below"), ("multipleOf", "a multiple of")]
    {
        if let Some(limit) = bound(word) {
            let gap = if text.is_empty() { " " } else { ", " };
            text += &format!("{gap}{phrase} {limit}");
        }
    }
    text
}

fn pattern(fields: &Map<String, Value>) -> String {
    fields.get("pattern").and_then(Value::as_str).map(|regex| format!(" matching {regex}")).unwrap_or_default()
}

fn format_of(fields: &Map<String, Value>) -> String {
    fields.get("format").and_then(Value::as_str).map(|format| format!(" in the format {format}")).unwrap_or_default()
}

fn unique(fields: &Map<String, Value>) -> &'static str {
    if fields.get("uniqueItems") == Some(&Value::Bool(true)) { ", each different" } else { "" }
}
