//! A JSON Schema in the configuration: inline as YAML, or in a file of its own.
//!
//! Here YAML's own reading of bare words holds, as in every schema that is written in it.

use std::{fs::File, io::Read as _, path::Path};

use serde_json::{Map, Value as Json};

use super::{
    scalar::{Read, show, text},
    tree::{self, Node, Style, Value},
};
use crate::tool::{Schema, schema::MAX_SCHEMA_BYTES};

/// Reads a schema and compiles it, to see that it is one.
pub(super) fn read(node: &Node, folder: &Path) -> Read<Json> {
    let schema = match &node.value {
        Value::Map(_) => json(node),
        Value::Scalar { .. } => file(&folder.join(text(node)?))?,
        Value::List(_) => {
            return Err(format!("must be a JSON Schema or the path of a file with one, not {}", show(node)));
        }
    };
    match Schema::open(&schema) {
        Ok(_) => Ok(schema),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

fn file(path: &Path) -> Read<Json> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SCHEMA_BYTES as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| format!("the file {} cannot be read: {error}", path.display()))?;
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(format!("the file {} is too large for a schema", path.display()));
    }
    // JSON is YAML too.
    let tree = tree::parse(&text, None).map_err(|mistake| format!("the file {}: {}", path.display(), mistake.wrong))?;
    match (tree.mistakes.first(), &tree.root.value) {
        (Some(mistake), _) => Err(format!("the file {}: {} {}", path.display(), mistake.key, mistake.wrong)),
        (None, Value::Map(_)) => Ok(json(&tree.root)),
        (None, _) => Err(format!("the file {} holds no JSON Schema", path.display())),
    }
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|(key, value)| (key.text.clone(), json(value))).collect::<Map<_, _>>())
        }
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Scalar { text, style: Style::Quoted } => Json::from(text.as_str()),
        Value::Scalar { text, style: Style::Plain | Style::Loose } => plain(text),
    }
}

fn plain(text: &str) -> Json {
    match text {
        "" | "~" => Json::Null,
        _ => serde_json::from_str(text).ok().filter(|value: &Json| !value.is_string()).unwrap_or_else(|| text.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_yaml(yaml: &str, folder: &Path) -> Read<Json> {
        read(&tree::parse(yaml, None).expect("it is YAML").root, folder)
    }

    #[test]
    fn a_schema_stands_inline_or_in_a_file() {
        let expected = json!({"type": "object", "properties": {"n": {"enum": [1, "1", null, true, 0.5]}},
            "additionalProperties": false});
        let inline = "type: object\nproperties:\n  n: {enum: [1, '1', null, true, 0.5]}\nadditionalProperties: false\n";
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read_yaml(inline, folder.path()), Ok(expected.clone()));
        std::fs::write(folder.path().join("answer.json"), expected.to_string()).expect("a file");
        std::fs::write(folder.path().join("answer.yaml"), inline).expect("a file");
        assert_eq!(read_yaml("answer.json", folder.path()), Ok(expected.clone()));
        assert_eq!(read_yaml("answer.yaml", folder.path()), Ok(expected));
    }

    #[test]
    fn what_is_no_schema_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("list"), "[1]").expect("a file");
        std::fs::write(folder.path().join("large"), " ".repeat(70_000)).expect("a file");
        for (yaml, part) in [
            ("[1]", "must be a JSON Schema or the path of a file"),
            ("type: objekt", "schema at /type"),
            ("nowhere.json", "nowhere.json cannot be read"),
            ("list", "holds no JSON Schema"),
            ("large", "too large for a schema"),
            ("'$ref': 'https://example.com/s.json'", "schema at"),
        ] {
            let wrong = read_yaml(yaml, folder.path()).expect_err(yaml);
            assert!(wrong.contains(part), "{yaml}: {wrong}");
        }
    }
}
