//! The check of arguments against a tool's schema, and its answer to the model.
//!
//! Nothing is guessed: text that holds JSON, `"3"` for a number or an extra field is refused
//! with words that say what would be right. Only `3.0` becomes `3`, and defaults are filled in.

mod answer;
mod expect;
mod explain;
mod numbers;

use std::{borrow::Cow, fmt, io};

use serde_json::Value;

use super::schema::{Schema, fits_depth};
use crate::core::Arguments;

/// Arguments may be this long as JSON text.
pub const MAX_ARGUMENT_BYTES: usize = 256 * 1024;
/// Arguments may nest this deep.
pub const MAX_ARGUMENT_DEPTH: usize = 32;
/// At most so many problems are named at once.
pub const MAX_PROBLEMS: usize = 20;
/// Characters of a long path that are shown of each end.
const SHOWN: usize = 150;

/// Everything that is wrong with the arguments of a call. Its text is what the model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentErrors {
    /// What is wrong, at most [`MAX_PROBLEMS`] of it.
    pub problems: Vec<Problem>,
    /// Whether there is more.
    pub more: bool,
}

/// One thing that is wrong with the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON Pointer into the arguments; empty for all of them.
    pub path: String,
    /// What was expected and what came.
    pub detail: String,
}

impl Problem {
    fn new(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), detail: detail.into() }
    }
}

impl From<Problem> for ArgumentErrors {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem], more: false }
    }
}

impl fmt::Display for ArgumentErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema validation error: ")?;
        for (index, Problem { path, detail }) in self.problems.iter().enumerate() {
            let gap = if index == 0 { "" } else { "; " };
            let colon = if path.is_empty() { "" } else { ": " };
            write!(f, "{gap}{}{colon}{detail}", both_ends(path))?;
        }
        f.write_str(if self.more { "; and more" } else { "" })?;
        f.write_str(". Fix arguments and retry.")
    }
}

impl std::error::Error for ArgumentErrors {}

impl Schema {
    /// Holds arguments against the schema; gives them as the tool gets them.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once.
    pub fn check(&self, arguments: &Arguments) -> Result<Value, ArgumentErrors> {
        let mut value = parse(arguments)?;
        if !value.is_object() {
            return Err(not_an_object(&value).into());
        }
        check_bounds(&value)?;
        let mut problems = Vec::new();
        numbers::normalise(&mut value, "", &mut problems);
        let told = problems.len();
        for error in self.validator().iter_errors(&value).take(MAX_PROBLEMS + 1) {
            for problem in explain::explain(self.source(), &error) {
                // A number that is too big needs no second word on its type.
                if !problems[..told].iter().any(|known| known.path == problem.path) && !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
        if problems.is_empty() {
            return Ok(self.with_defaults(value));
        }
        let more = problems.len() > MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        Err(ArgumentErrors { problems, more })
    }

    /// Adds the defaults, unless together they would make valid arguments invalid, or longer or
    /// deeper than arguments may be.
    fn with_defaults(&self, value: Value) -> Value {
        let mut filled = value.clone();
        if !self.fill_defaults(&mut filled, MAX_ARGUMENT_BYTES) || check_bounds(&filled).is_err() {
            return value;
        }
        let mut problems = Vec::new();
        numbers::normalise(&mut filled, "", &mut problems);
        if problems.is_empty() && self.validator().is_valid(&filled) { filled } else { value }
    }
}

fn parse(arguments: &Arguments) -> Result<Value, Problem> {
    let text = match arguments {
        Arguments::Json(Value::Null) => return Ok(Value::Object(serde_json::Map::new())),
        Arguments::Json(Value::String(text)) if text.trim().is_empty() => {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        Arguments::Json(value) => return Ok(value.clone()),
        Arguments::Raw(text) => text,
    };
    if text.len() > MAX_ARGUMENT_BYTES {
        return Err(too_long(text.len()));
    }
    match Arguments::from_text(text) {
        Arguments::Json(value) => Ok(value),
        Arguments::Raw(text) => Err(not_json(&text)),
    }
}

fn not_json(text: &str) -> Problem {
    let reason = serde_json::from_str::<serde::de::IgnoredAny>(text).err();
    // Some faults show only when values are built: a number too big, a lone half of a character.
    let reason = reason.or_else(|| serde_json::from_str::<Value>(text).err());
    let reason = reason.map_or_else(|| "unreadable".to_owned(), |error| error.to_string());
    let advice = if reason.starts_with("number out of range") { ", send a number this big as a string" } else { "" };
    Problem::new("", format!("arguments are not valid JSON: {reason}{advice}"))
}

fn not_an_object(value: &Value) -> Problem {
    let detail = match expect::encoded_kind(value) {
        Some(kind) => {
            format!("expected an object, got a string that holds JSON ({kind}), send the object itself, not its text")
        }
        None => format!("expected an object, got {}", expect::got(value)),
    };
    Problem::new("", detail)
}

fn check_bounds(value: &Value) -> Result<(), Problem> {
    if !fits_depth(value, MAX_ARGUMENT_DEPTH) {
        return Err(Problem::new("", format!("arguments nest deeper than {MAX_ARGUMENT_DEPTH} levels")));
    }
    let mut count = Count(0);
    // Counting cannot fail, so the only way to an error is one of the serializer, which has none here.
    let _ = serde_json::to_writer(&mut count, value);
    if count.0 > MAX_ARGUMENT_BYTES { Err(too_long(count.0)) } else { Ok(()) }
}

/// A path as people read it: of one that is very long, where it begins and where it ends.
fn both_ends(path: &str) -> Cow<'_, str> {
    let mut places = path.char_indices().map(|(place, _)| place);
    let (Some(begin), Some(end)) = (places.nth(SHOWN), places.nth_back(SHOWN - 1)) else { return path.into() };
    format!("{}…{}", &path[..begin], &path[end..]).into()
}

fn too_long(bytes: usize) -> Problem {
    Problem::new("", format!("arguments are {bytes} bytes long, at most {MAX_ARGUMENT_BYTES} are allowed"))
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
