//! Text with holes for arguments: `{name}`; `{{` and `}}` stand for a brace.
//!
//! A filled hole is never read again, so what an argument says cannot become a hole. It must never
//! know where the text goes; whoever fills it says how an argument is written there.

mod shape;

use serde_json::{Map, Value};

use crate::core::{Fault, FaultKind, port::ToolContext};

pub use self::shape::Shape;

/// The name that every tool can use besides its arguments: the same for all attempts of a call.
pub const IDEMPOTENCY_KEY: &str = "idempotency_key";

/// Text with holes, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    source: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Hole(String),
}

impl Template {
    /// Parses text with holes.
    ///
    /// # Errors
    /// One phrase on what is wrong with its braces.
    pub fn parse(source: &str) -> Result<Self, String> {
        let (mut pieces, mut text, mut rest) = (Vec::new(), String::new(), source);
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let found = &rest[at..];
            if found.starts_with("{{ principal") {
                return Err("holds {{ principal... }}; identity goes under bind, and here is {its_name}".to_owned());
            } else if found.starts_with("{{") || found.starts_with("}}") {
                text.push_str(&found[..1]);
                rest = &found[2..];
            } else {
                let name = found.strip_prefix('{').and_then(|inside| inside.split_once('}'));
                let Some((name, after)) = name.filter(|(name, _)| is_name(name)) else {
                    return Err("must hold arguments as {name}; a brace itself is written twice".to_owned());
                };
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Hole(name.to_owned()));
                rest = after;
            }
        }
        text.push_str(rest);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Self { source: source.to_owned(), pieces })
    }

    /// The text as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The arguments that it takes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Hole(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text before the first hole.
    pub fn beginning(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            Some(Piece::Hole(_)) | None => "",
        }
    }

    /// The text, where there are no holes.
    pub fn fixed(&self) -> Option<&str> {
        self.names().next().is_none().then(|| self.beginning())
    }

    /// The argument, where the whole text is one hole.
    pub(super) fn only(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Hole(name)] => Some(name),
            _ => None,
        }
    }

    /// Fills the holes, each argument written by `write`. Nothing where an argument is missing.
    ///
    /// # Errors
    /// An argument that is no single value, or what `write` says.
    pub(super) fn fill(
        &self,
        values: &Map<String, Value>,
        write: impl Fn(&str) -> Result<String, Fault>,
    ) -> Result<Option<String>, Fault> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(fixed) => text.push_str(fixed),
                Piece::Hole(name) => match single(name, values.get(name))? {
                    Some(value) => text.push_str(&write(&value)?),
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(text))
    }

    /// Fills the holes with the arguments as they are.
    ///
    /// # Errors
    /// An argument that is no single value.
    pub(super) fn fill_plain(&self, values: &Map<String, Value>) -> Result<Option<String>, Fault> {
        self.fill(values, |value| Ok(value.to_owned()))
    }
}

/// What can be put into holes: the arguments, and the idempotency key unless one is called so.
pub(super) fn values(cx: &ToolContext, arguments: Value) -> Map<String, Value> {
    let mut values = match arguments {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    values.entry(IDEMPOTENCY_KEY).or_insert_with(|| Value::from(cx.idempotency_key.as_str()));
    values
}

/// A refusal of what the model sent, in a phrase.
pub(super) fn refused(phrase: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Refused, phrase)
}

/// Names of arguments that can stand in a hole.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// A single value as text; nothing for one that is missing.
fn single(name: &str, value: Option<&Value>) -> Result<Option<String>, Fault> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => Ok(Some(value.to_string())),
        Some(Value::Array(_) | Value::Object(_)) => {
            Err(refused(format!("the argument {name} must be a single value, not a list or an object")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(template: &str, values: &Value) -> Option<String> {
        let template = Template::parse(template).expect("a good template");
        template.fill_plain(values.as_object().expect("an object")).expect("single values")
    }

    #[test]
    fn holes_are_filled_once_and_braces_can_be_written() {
        let values = json!({"a": "{b}", "b": 2, "yes": true, "none": null});
        assert_eq!(fill("{a}-{b}", &values).as_deref(), Some("{b}-2"));
        assert_eq!(fill("awk '{{print {b}}}' {yes}", &values).as_deref(), Some("awk '{print 2}' true"));
        assert_eq!(fill("{none}", &values), None);
        assert_eq!(fill("{missing}", &values), None);
        assert_eq!(fill("", &values).as_deref(), Some(""));
    }

    #[test]
    fn wrong_braces_say_what_would_be_right() {
        for text in ["{", "}", "{}", "{a b}", "a } b", "{a"] {
            assert!(Template::parse(text).expect_err(text).contains("as {name}"), "{text}");
        }
        assert!(Template::parse("{{ principal.id }}").expect_err("identity").contains("under bind"));
    }

    #[test]
    fn a_list_is_no_single_value() {
        let template = Template::parse("{a}").expect("a good template");
        let fault = template.fill_plain(json!({"a": [1]}).as_object().expect("an object")).expect_err("a list");
        assert_eq!(fault.kind, FaultKind::Refused);
    }
}
