//! The JSON Schema of a tool's arguments, compiled once into a checker.
//!
//! It must never know a tool or a call: a schema comes in, a checker or the list of what is
//! wrong with it goes out. Nothing outside the schema itself is ever read: no file, no network.

mod close;
mod defaults;

use std::fmt;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

pub(super) use self::close::escape;

/// A schema may be this long as JSON text.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// A schema may nest this deep.
pub const MAX_SCHEMA_DEPTH: usize = 64;
/// Steps that a pattern with look-around may take back before the text counts as not matching.
const BACKTRACK_LIMIT: usize = 10_000;

/// What is done with an object that lets undeclared fields through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strict {
    /// The schema is refused.
    #[default]
    Refuse,
    /// The object is closed: for schemas that others wrote.
    Close,
}

/// One thing that is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schema at {}: {detail}", Place(path))]
pub struct SchemaError {
    /// JSON Pointer into the schema; empty for the root.
    pub path: String,
    /// What is wrong, and what would be right.
    pub detail: String,
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    source: Value,
    validator: Validator,
    maps: Vec<String>,
}

struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "the root" } else { self.0 })
    }
}

impl SchemaError {
    fn new(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), detail: detail.into() }
    }
}

impl Schema {
    /// Compiles a schema: JSON Schema 2020-12, or draft-07 where `$schema` says so.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place.
    pub fn compile(schema: &Value, strict: Strict) -> Result<Self, Vec<SchemaError>> {
        check_bounds(schema)?;
        let draft = draft_of(schema)?;
        let mut source = schema.clone();
        let maps = close::close(&mut source, draft, strict)?;
        let validator = build(&source, draft).map_err(|error| vec![error])?;
        defaults::check(&mut source, draft, strict)?;
        Ok(Self { source, validator, maps })
    }

    /// Compiles a schema as it is, its objects as open as it leaves them: for what a model answers
    /// at the end, of which nothing is run.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn open(schema: &Value) -> Result<Self, Vec<SchemaError>> {
        check_bounds(schema)?;
        let validator = build(schema, draft_of(schema)?).map_err(|error| vec![error])?;
        Ok(Self { source: schema.clone(), validator, maps: Vec::new() })
    }

    /// The schema as it is enforced, closed where that was asked for.
    pub const fn source(&self) -> &Value {
        &self.source
    }

    /// JSON Pointers of the objects in it that stay open, because they are maps.
    pub fn maps(&self) -> &[String] {
        &self.maps
    }

    /// The checker.
    pub(super) const fn validator(&self) -> &Validator {
        &self.validator
    }

    /// Fills in the defaults that declared objects name; says whether `room` bytes were enough.
    pub(super) fn fill_defaults(&self, arguments: &mut Value, mut room: usize) -> bool {
        defaults::fill(&self.source, &self.source, arguments, 0, &mut room)
    }
}

/// The subschema that a `$ref` into the same schema points at.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&percent_decoded(reference.strip_prefix('#')?)?)
}

/// Builds the checker of a schema whose refs stay inside it.
fn build(schema: &Value, draft: Draft) -> Result<Validator, SchemaError> {
    jsonschema::options()
        .with_draft(draft)
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT))
        .build(schema)
        .map_err(|error| SchemaError::new(error.instance_path().to_string(), shorten(&error.to_string())))
}

fn check_bounds(schema: &Value) -> Result<(), Vec<SchemaError>> {
    if !fits_depth(schema, MAX_SCHEMA_DEPTH) {
        return Err(vec![SchemaError::new("", format!("nests deeper than {MAX_SCHEMA_DEPTH} levels"))]);
    }
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA_BYTES {
        let detail = format!("is {bytes} bytes long, at most {MAX_SCHEMA_BYTES} are allowed");
        return Err(vec![SchemaError::new("", detail)]);
    }
    Ok(())
}

/// Whether a value nests at most `levels` arrays and objects.
pub(super) fn fits_depth(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits_depth(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| fits_depth(field, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn draft_of(schema: &Value) -> Result<Draft, Vec<SchemaError>> {
    let Some(named) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    match named.as_str().map(|uri| uri.trim_end_matches('#')) {
        Some("https://json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        Some("http://json-schema.org/draft-07/schema" | "https://json-schema.org/draft-07/schema") => Ok(Draft::Draft7),
        _ => {
            let detail =
                format!("unknown dialect {}, 2020-12 and draft-07 are understood", shorten(&named.to_string()));
            Err(vec![SchemaError::new("/$schema", detail)])
        }
    }
}

/// Undoes the percent-encoding that a pointer in a URI fragment may carry.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
