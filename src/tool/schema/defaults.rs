//! Defaults: checked once with the schema, filled in at every call.
//!
//! Filled in for fields that an object declares by `properties`, at any depth, through `$ref`
//! and into the items of arrays; not through `anyOf` and its kin, where it is open whose
//! default would hold.

use jsonschema::Draft;
use serde_json::Value;

use super::{SchemaError, Strict, build, close::escape, resolve};

/// How deep defaults are followed; deeper arguments were refused before.
const MAX_DEPTH: usize = 64;
/// Bytes of the quotes, the colon and the comma of a field.
const PUNCTUATION: usize = 4;

/// Holds every default against its own schema: a wrong one is an error, or taken out of a
/// schema that others wrote.
pub(super) fn check(schema: &mut Value, draft: Draft, strict: Strict) -> Result<(), Vec<SchemaError>> {
    let mut wrong = Vec::new();
    collect(schema, schema, draft, "", &mut wrong);
    if strict == Strict::Refuse && !wrong.is_empty() {
        let error = |path: String| SchemaError::new(path + "/default", "the default does not fit its own schema");
        return Err(wrong.into_iter().map(error).collect());
    }
    for path in wrong {
        if let Some(Value::Object(node)) = schema.pointer_mut(&path) {
            node.remove("default");
        }
    }
    Ok(())
}

/// Fills in what `node` declares and `value` lacks, for as long as `room` has bytes left; says
/// whether all of it found room. Defaults that hold others grow with each level.
pub(super) fn fill(root: &Value, node: &Value, value: &mut Value, depth: usize, room: &mut usize) -> bool {
    if depth > MAX_DEPTH {
        return true;
    }
    if let Some(target) = node.get("$ref").and_then(Value::as_str).and_then(|reference| resolve(root, reference))
        && !fill(root, target, value, depth + 1, room)
    {
        return false;
    }
    match value {
        Value::Object(fields) => {
            let declared = node.get("properties").and_then(Value::as_object).into_iter().flatten();
            for (name, schema) in declared {
                if let (false, Some(default)) = (fields.contains_key(name), schema.get("default")) {
                    let Some(left) = room.checked_sub(name.len() + default.to_string().len() + PUNCTUATION) else {
                        return false;
                    };
                    *room = left;
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(field) = fields.get_mut(name)
                    && !fill(root, schema, field, depth + 1, room)
                {
                    return false;
                }
            }
            true
        }
        Value::Array(items) => match node.get("items") {
            Some(schema @ Value::Object(_)) => items.iter_mut().all(|item| fill(root, schema, item, depth + 1, room)),
            _ => true,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Finds defaults of declared fields, anywhere in the schema, that do not fit.
fn collect(root: &Value, node: &Value, draft: Draft, path: &str, wrong: &mut Vec<String>) {
    match node {
        Value::Object(fields) => {
            if let Some(Value::Object(declared)) = fields.get("properties") {
                for (name, schema) in declared {
                    if schema.get("default").is_some_and(|default| !fits(root, schema, draft, default)) {
                        wrong.push(format!("{path}/properties/{}", escape(name)));
                    }
                }
            }
            for (word, part) in fields {
                if !matches!(word.as_str(), "default" | "enum" | "const" | "examples") {
                    collect(root, part, draft, &format!("{path}/{}", escape(word)), wrong);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(root, item, draft, &format!("{path}/{index}"), wrong);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn fits(root: &Value, schema: &Value, draft: Draft, default: &Value) -> bool {
    let Some(mut alone) = schema.as_object().cloned() else { return true };
    for word in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(word) {
            alone.insert(word.to_owned(), definitions.clone());
        }
    }
    build(&Value::Object(alone), draft).is_ok_and(|validator| validator.is_valid(default))
}
