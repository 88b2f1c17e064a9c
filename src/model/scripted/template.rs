//! Texts with fields: `{{ result.count }}`, `{{ results.0.total }}`, `{{ error }}`, `{{ task }}`.
//!
//! A field that is not there renders as a text that says so: a script never breaks a session.

use serde_json::Value;

use super::turn::Turn;

/// Fills in the fields of a text.
pub(super) fn render(text: &str, turn: &Turn<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out += before;
        let Some((field, behind)) = after.split_once("}}") else {
            out += "{{";
            rest = after;
            continue;
        };
        let field = field.trim();
        out += &value(field, turn).unwrap_or_else(|| format!("[no field {field}]"));
        rest = behind;
    }
    out + rest
}

fn value(field: &str, turn: &Turn<'_>) -> Option<String> {
    let (name, path) = field.split_once('.').map_or((field, None), |(name, path)| (name, Some(path)));
    let found = match name {
        "task" => Value::String(turn.task.to_owned()),
        "error" => Value::String(turn.error()?),
        "result" => turn.result()?,
        "results" => Value::Array(turn.results()),
        _ => return None,
    };
    match path.map_or(Some(&found), |path| found.pointer(&format!("/{}", path.replace('.', "/"))))? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
