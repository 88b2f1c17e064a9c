//! Strictness: every object that declares fields lets only those through.
//!
//! In 2020-12 an object that declares fields through `allOf`, `anyOf`, `oneOf`, `then`, `else`,
//! `dependentSchemas` or `$ref` is closed from outside by `unevaluatedProperties`, since each
//! part alone would refuse the fields of the others. Draft-07 has no such word, so there the
//! parts must be closed by whoever wrote them.

use std::collections::HashSet;

use jsonschema::Draft;
use serde_json::{Map, Value, json};

use super::{SchemaError, Strict, resolve};

/// Words whose subschemas look at the same value: a list, or a map by name.
const IN_PLACE: [(&str, Shape); 7] = [
    ("allOf", Shape::List),
    ("anyOf", Shape::List),
    ("oneOf", Shape::List),
    ("then", Shape::One),
    ("else", Shape::One),
    ("dependentSchemas", Shape::Named),
    ("dependencies", Shape::Named),
];
/// Words whose subschemas look at a part of the value. `not` and `if` only ask, and are left alone.
const PARTS: [(&str, Shape); 9] = [
    ("properties", Shape::Named),
    ("patternProperties", Shape::Named),
    ("additionalProperties", Shape::One),
    ("unevaluatedProperties", Shape::One),
    ("items", Shape::OneOrList),
    ("prefixItems", Shape::List),
    ("additionalItems", Shape::One),
    ("unevaluatedItems", Shape::One),
    ("contains", Shape::One),
];

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    One,
    List,
    OneOrList,
    Named,
}

/// How a schema stands to the value that it looks at.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// It alone answers for the value.
    Whole,
    /// The schema around it is closed, or is closed by this walk.
    Covered {
        /// Whether it is one of several forms, and the schema around it declares no fields.
        form: bool,
    },
}

struct Walk {
    root: Value,
    draft: Draft,
    strict: Strict,
    /// What is written into the schema at the end: place, word, value or removal.
    edits: Vec<(String, &'static str, Option<Value>)>,
    maps: Vec<String>,
    errors: Vec<SchemaError>,
    seen: HashSet<String>,
}

/// Closes a schema or finds where it is open; gives the places of the maps in it.
pub(super) fn close(schema: &mut Value, draft: Draft, strict: Strict) -> Result<Vec<String>, Vec<SchemaError>> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(vec![SchemaError::new("", "the arguments are an object: \"type\" must be \"object\"")]);
    }
    let mut walk = Walk {
        root: schema.clone(),
        draft,
        strict,
        edits: Vec::new(),
        maps: Vec::new(),
        errors: Vec::new(),
        seen: HashSet::new(),
    };
    let root = walk.root.clone();
    walk.visit(&root, "", Role::Whole);
    if !walk.errors.is_empty() {
        return Err(walk.errors);
    }
    for (path, word, value) in walk.edits {
        let node = schema.pointer_mut(&path).and_then(Value::as_object_mut).expect("the walk visited this object");
        match value {
            Some(value) => node.insert(word.to_owned(), value),
            None => node.remove(word),
        };
    }
    Ok(walk.maps)
}

impl Walk {
    fn visit(&mut self, node: &Value, path: &str, role: Role) {
        let Some(fields) = node.as_object() else { return };
        if !self.seen.insert(path.to_owned()) {
            return;
        }
        self.check_references(fields, path);
        let covers = self.judge(fields, path, role);
        for (word, shape) in PARTS {
            for (part, place) in children(fields, word, shape, path) {
                self.visit(part, &place, Role::Whole);
            }
        }
        let inner = |word: &str| match role {
            Role::Covered { form } => Role::Covered { form: (form || is_choice(word)) && !declares(fields) },
            Role::Whole => Role::Covered { form: is_choice(word) && !declares(fields) },
        };
        for (word, shape) in IN_PLACE {
            for (part, place) in children(fields, word, shape, path) {
                self.visit(part, &place, if covers { inner(word) } else { Role::Whole });
            }
        }
        if let Some((target, place)) = self.target(fields) {
            self.visit(&target, &place, if covers { inner("$ref") } else { Role::Whole });
        }
    }

    /// Decides about one schema; says whether the parts that look at the same value are covered.
    fn judge(&mut self, fields: &Map<String, Value>, path: &str, role: Role) -> bool {
        let root = path.is_empty();
        if is_closed(fields) {
            return true;
        }
        if has_value_schema(fields) {
            if root {
                self.error(path, "the root names the fields of the tool: additionalProperties must be false");
            } else {
                self.maps.push(path.to_owned());
            }
            return true;
        }
        match role {
            Role::Covered { form } => self.judge_covered(fields, path, form),
            Role::Whole => self.judge_whole(fields, path, root),
        }
    }

    fn judge_covered(&mut self, fields: &Map<String, Value>, path: &str, form: bool) -> bool {
        if declares(fields) {
            // What it lets through would count as looked at, and the schema around would stay open.
            if fields.contains_key("additionalProperties") {
                self.edits.push((path.to_owned(), "additionalProperties", None));
            }
        } else if form && takes_objects(fields) {
            self.maps.push(path.to_owned());
            self.edits.push((path.to_owned(), "additionalProperties", Some(json!(true))));
        }
        true
    }

    fn judge_whole(&mut self, fields: &Map<String, Value>, path: &str, root: bool) -> bool {
        let open_parts = self.parts_declare(fields, &mut HashSet::new());
        if !root && !declares(fields) && !open_parts {
            if is_map(fields) {
                self.maps.push(path.to_owned());
            }
            return false;
        }
        if self.strict == Strict::Refuse {
            if root || declares(fields) {
                self.error(path, "additionalProperties must be false, so that undeclared fields are refused");
                return true;
            }
            return false;
        }
        if !open_parts {
            self.edits.push((path.to_owned(), "additionalProperties", Some(json!(false))));
            return true;
        }
        if self.draft == Draft::Draft7 {
            self.error(path, "draft-07 cannot close an object that is put together of several schemas");
            return true;
        }
        if fields.contains_key("additionalProperties") {
            self.edits.push((path.to_owned(), "additionalProperties", None));
        }
        self.edits.push((path.to_owned(), "unevaluatedProperties", Some(json!(false))));
        true
    }

    /// Whether a part that looks at the same value declares fields and is not closed itself.
    fn parts_declare(&self, fields: &Map<String, Value>, seen: &mut HashSet<String>) -> bool {
        let open = |part: &Map<String, Value>, seen: &mut HashSet<String>| {
            (declares(part) && !is_closed(part) && !has_value_schema(part)) || self.parts_declare(part, seen)
        };
        let inline = IN_PLACE.iter().any(|(word, shape)| {
            children(fields, word, *shape, "")
                .iter()
                .filter_map(|(part, _)| part.as_object())
                .any(|part| open(part, seen))
        });
        inline
            || self.target(fields).is_some_and(|(target, place)| {
                seen.insert(place) && target.as_object().is_some_and(|part| open(part, seen))
            })
    }

    fn check_references(&mut self, fields: &Map<String, Value>, path: &str) {
        for word in ["$dynamicRef", "$recursiveRef"] {
            if fields.contains_key(word) {
                self.error(path, &format!("{word} is not supported, use $ref"));
            }
        }
        if !path.is_empty() && fields.get("$id").is_some_and(Value::is_string) {
            self.error(path, "$id below the root is not supported");
        }
        let Some(reference) = fields.get("$ref").and_then(Value::as_str) else { return };
        if resolve(&self.root, reference).is_none() {
            let detail = format!("$ref must point to a place in this schema (#/…), found {reference:?}");
            self.error(path, &detail);
        }
    }

    fn target(&self, fields: &Map<String, Value>) -> Option<(Value, String)> {
        let reference = fields.get("$ref")?.as_str()?;
        let place = super::percent_decoded(reference.strip_prefix('#')?)?;
        self.root.pointer(&place).map(|target| (target.clone(), place))
    }

    fn error(&mut self, path: &str, detail: &str) {
        self.errors.push(SchemaError::new(path, detail));
    }
}

/// The subschemas under a word, with their places.
fn children<'a>(fields: &'a Map<String, Value>, word: &str, shape: Shape, path: &str) -> Vec<(&'a Value, String)> {
    match (shape, fields.get(word)) {
        (Shape::Named, Some(Value::Object(named))) => {
            named.iter().map(|(name, part)| (part, format!("{path}/{word}/{}", escape(name)))).collect()
        }
        (Shape::List | Shape::OneOrList, Some(Value::Array(list))) => {
            list.iter().enumerate().map(|(index, part)| (part, format!("{path}/{word}/{index}"))).collect()
        }
        (Shape::One | Shape::OneOrList, Some(part @ Value::Object(_))) => vec![(part, format!("{path}/{word}"))],
        _ => Vec::new(),
    }
}

/// A name as one segment of a JSON Pointer.
pub(in crate::tool) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn is_choice(word: &str) -> bool {
    matches!(word, "anyOf" | "oneOf")
}

fn declares(fields: &Map<String, Value>) -> bool {
    fields.contains_key("properties")
}

fn is_closed(fields: &Map<String, Value>) -> bool {
    let closed = |word| fields.get(word) == Some(&Value::Bool(false));
    closed("additionalProperties") || closed("unevaluatedProperties")
}

/// Whether undeclared fields are allowed and have a schema of their own.
fn has_value_schema(fields: &Map<String, Value>) -> bool {
    fields.get("additionalProperties").and_then(Value::as_object).is_some_and(|schema| !schema.is_empty())
}

/// Whether the type says that objects may come.
fn takes_objects(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    }
}

/// Whether it lets objects of any fields through: by its type, or because it says nothing at all.
fn is_map(fields: &Map<String, Value>) -> bool {
    const SAYS_MORE: [&str; 8] = ["enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not", "if"];
    takes_objects(fields) || (!fields.contains_key("type") && !SAYS_MORE.iter().any(|word| fields.contains_key(*word)))
}
