//! JSON with holes for arguments. A text that is one hole as a whole takes the argument as it is,
//! with its type; a field whose argument is missing is left out.

use serde_json::{Map, Value};

use super::Template;
use crate::core::Fault;

/// JSON with holes, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    source: Value,
    part: Part,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Fixed(Value),
    Text(Template),
    List(Vec<Part>),
    Fields(Vec<(String, Part)>),
}

impl Shape {
    /// Parses JSON whose texts may have holes.
    ///
    /// # Errors
    /// One phrase on what is wrong with a text's braces.
    pub fn parse(source: &Value) -> Result<Self, String> {
        Ok(Self { source: source.clone(), part: Part::parse(source)? })
    }

    /// The JSON as it was written.
    pub const fn source(&self) -> &Value {
        &self.source
    }

    /// The arguments that it takes.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.part.collect(&mut names);
        names
    }

    /// Fills the holes; null where all of it is an argument that is missing.
    ///
    /// # Errors
    /// An argument inside a longer text that is no single value.
    pub(in crate::tool) fn fill(&self, values: &Map<String, Value>) -> Result<Value, Fault> {
        Ok(self.part.fill(values)?.unwrap_or(Value::Null))
    }
}

impl Part {
    fn parse(source: &Value) -> Result<Self, String> {
        Ok(match source {
            Value::String(text) => {
                let template = Template::parse(text)?;
                match template.fixed() {
                    Some(text) => Self::Fixed(Value::from(text)),
                    None => Self::Text(template),
                }
            }
            Value::Array(items) => Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?),
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| Ok((name.clone(), Self::parse(value)?));
                Self::Fields(fields.iter().map(field).collect::<Result<_, String>>()?)
            }
            fixed @ (Value::Null | Value::Bool(_) | Value::Number(_)) => Self::Fixed(fixed.clone()),
        })
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Fixed(_) => {}
            Self::Text(template) => names.extend(template.names()),
            Self::List(items) => items.iter().for_each(|item| item.collect(names)),
            Self::Fields(fields) => fields.iter().for_each(|(_, field)| field.collect(names)),
        }
    }

    /// Nothing where an argument is missing.
    fn fill(&self, values: &Map<String, Value>) -> Result<Option<Value>, Fault> {
        Ok(match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Text(template) => match template.only() {
                Some(name) => values.get(name).cloned(),
                None => template.fill_plain(values)?.map(Value::from),
            },
            Self::List(items) => {
                let filled = items.iter().map(|item| item.fill(values)).collect::<Result<Vec<_>, _>>()?;
                Some(Value::Array(filled.into_iter().flatten().collect()))
            }
            Self::Fields(fields) => {
                let mut filled = Map::new();
                for (name, field) in fields {
                    if let Some(value) = field.fill(values)? {
                        filled.insert(name.clone(), value);
                    }
                }
                Some(Value::Object(filled))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_keep_their_types_and_missing_ones_leave_no_field() {
        let shape =
            json!({"a": "{n}", "b": ["{n}", "{none}"], "c": "x{n}", "d": "{none}", "e": {"f": "{list}"}, "g": 1});
        let shape = Shape::parse(&shape).expect("a good shape");
        let values = json!({"n": 2, "list": [1, "{n}"]});
        let filled = shape.fill(values.as_object().expect("an object")).expect("filled");
        assert_eq!(filled, json!({"a": 2, "b": [2], "c": "x2", "e": {"f": [1, "{n}"]}, "g": 1}));
        assert_eq!(shape.names(), ["n", "n", "none", "n", "none", "list"]);
    }
}
