//! Values of the user's own shape: JSON written as YAML, JSON Pointers, texts with holes.

use serde_json::{Map, Number, Value};

use crate::{
    config::{
        scalar::{self, Read},
        tree::{self, Node, Style},
    },
    tool::{Template, template::Shape},
};

/// Any value, as JSON. Only `true`, `false`, `null` and plain numbers are taken for such; every
/// other word is text.
pub(super) fn json(node: &Node) -> Read<Value> {
    Ok(match &node.value {
        tree::Value::List(items) => Value::Array(items.iter().map(json).collect::<Read<_>>()?),
        tree::Value::Map(entries) => {
            let field = |(key, value): &(tree::Key, Node)| Ok((key.text.clone(), json(value)?));
            Value::Object(entries.iter().map(field).collect::<Read<Map<_, _>>>()?)
        }
        tree::Value::Scalar { text, style: Style::Quoted } => Value::from(text.as_str()),
        tree::Value::Scalar { text, style: Style::Plain | Style::Loose } => match text.as_str() {
            "" | "~" | "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text => serde_json::from_str::<Number>(text).map_or_else(|_| Value::from(text), Value::Number),
        },
    })
}

/// A whole number is written as one.
pub(super) fn number(value: f64) -> Value {
    let text = value.to_string();
    serde_json::from_str(&text).unwrap_or_else(|_| Value::from(value))
}

/// JSON whose texts may have holes.
pub(super) fn shape(node: &Node) -> Read<Shape> {
    Shape::parse(&json(node)?)
}

/// A JSON Pointer.
pub(super) fn pointer(node: &Node) -> Read<String> {
    let text = scalar::text(node)?;
    if text.starts_with('/') {
        Ok(text)
    } else {
        Err(format!("must be a JSON Pointer such as /data/0, not {}", scalar::show(node)))
    }
}

/// Text with holes; a number may stand there too.
pub(super) fn template(node: &Node) -> Read<Template> {
    let (text, _) = scalar::scalar(node, "must be text")?;
    Template::parse(text)
}

/// Text that may hold nothing that ends a line or a string.
pub(super) fn plain_name(name: &str) -> Read<()> {
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic());
    if fits { Ok(()) } else { Err("must be plain letters with no spaces".to_owned()) }
}

/// The items of a list, which may be the same.
pub(super) fn list<'a>(node: &'a Node, right: &str) -> Read<&'a [Node]> {
    match &node.value {
        tree::Value::List(items) => Ok(items),
        tree::Value::Map(_) | tree::Value::Scalar { .. } => Err(format!("{right}, not {}", scalar::show(node))),
    }
}
