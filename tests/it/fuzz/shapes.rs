//! What is thrown in: schemas with arguments that nearly fit them, and spoilt files.

use glassbox::core::Arguments;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

/// A schema, and arguments that follow it, or do not, or are no JSON at all.
pub fn schema_and_arguments() -> impl Strategy<Value = (Value, Arguments)> {
    let bytes = vec(any::<u8>(), 0..64);
    let shaped = (root(), bytes).prop_map(|(schema, bytes)| {
        let arguments = follow(&schema, &schema, &mut bytes.into_iter(), 0);
        (schema, Arguments::Json(arguments))
    });
    let other = (root(), json_value()).prop_map(|(schema, value)| (schema, Arguments::Json(value)));
    let text = (root(), text()).prop_map(|(schema, text)| (schema, Arguments::Raw(text)));
    prop_oneof![4 => shaped, 2 => other, 1 => text]
}

/// A file with some parts cut, doubled or replaced; words of it in any order; any bytes.
pub fn file(good: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => select(YAML.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
        1 => "\\PC{0,12}".prop_map(String::into_bytes),
    ];
    let edit = (any::<prop::sample::Index>(), 0..20_usize, 0..4_u8, piece);
    let spoilt = vec(edit, 1..4).prop_map(move |edits| {
        let mut bytes = good.as_bytes().to_vec();
        for (at, length, kind, piece) in edits {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            let part = at..(at + length).min(bytes.len());
            match kind {
                0 => drop(bytes.drain(part)),
                1 => drop(bytes.splice(at..at, bytes[part].to_vec())),
                2 => drop(bytes.splice(part, piece)),
                _ => drop(bytes.splice(at..at, piece)),
            }
        }
        bytes
    });
    let words: Vec<&str> = good.split_inclusive([' ', '\n', ':']).chain(YAML.iter().copied()).collect();
    let soup = vec(select(words), 0..120).prop_map(|words| words.concat().into_bytes());
    prop_oneof![4 => spoilt, 2 => soup, 1 => vec(any::<u8>(), 0..2000), 1 => bomb()]
}

const YAML: [&str; 30] = [
    ": ", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ",", "&a ", "*a", "'", "\"", "|\n", ">\n", "#", "!!str ",
    "<<: ", "---\n", "? ", "10", "-1", "1e999", "yes", "15s", "\t", "%", "\u{0}", "\u{feff}",
];

/// Aliases that double with each line, and brackets that go deep.
fn bomb() -> impl Strategy<Value = Vec<u8>> {
    let aliases = (1..40_usize).prop_map(|levels| {
        let lines = (1..levels).map(|n| format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1));
        format!("a0: &a0 [x, x]\n{}", lines.collect::<String>()).into_bytes()
    });
    let deep =
        (select(vec!["[", "{a: ", "- ", "? "]), 0..20_000_usize).prop_map(|(open, n)| open.repeat(n).into_bytes());
    prop_oneof![aliases, deep]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => select(vec!["a", "b", "c", "list", "~/", "%25"]).prop_map(str::to_owned),
        1 => "\\PC{0,6}",
        1 => Just("x".repeat(5000)),
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        select(vec![json!(null), json!(true), json!(0), json!(-1), json!(3.0), json!(1e300), json!(u64::MAX)]),
        any::<f64>().prop_map(Value::from),
        select(vec!["", "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "2026-02-30", "{\"a\": 1}"]).prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        Just(Value::from("long ".repeat(2000))),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((name(), inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    let cut = (json_value(), any::<prop::sample::Index>()).prop_map(|(value, at)| {
        let text: Vec<char> = value.to_string().chars().collect();
        text[..at.index(text.len())].iter().collect()
    });
    let deep = (select(vec!["[", "{\"a\":", "[{\"a\":"]), 0..50_000_usize).prop_map(|(open, n)| open.repeat(n));
    let digits = (1..400_000_usize).prop_map(|n| format!("{{\"a\": {}}}", "9".repeat(n)));
    prop_oneof![3 => cut, 3 => "\\PC{0,200}", 1 => deep, 1 => digits, 1 => Just("\"\\ud800\"".to_owned())]
}

fn leaf() -> impl Strategy<Value = Value> {
    let sound = select(vec![
        json!({"type": "string"}),
        json!({"type": "string", "maxLength": 3, "default": "x"}),
        json!({"type": "string", "pattern": "^(a+)+$"}),
        json!({"type": "string", "pattern": "^(?=a)(a|aa)*$"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "format": "uri"}),
        json!({"type": "integer", "minimum": 1, "maximum": 10, "default": 3}),
        json!({"type": "number", "multipleOf": 0.1}),
        json!({"type": ["string", "null"]}),
        json!({"type": "boolean", "default": "wrong"}),
        json!({"type": "array", "uniqueItems": true, "maxItems": 2, "contains": {"type": "null"}}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "propertyNames": {"maxLength": 2}}),
        json!({"enum": ["a", 1, null, {"a": []}]}),
        json!({"const": {"a": 1}}),
        json!({"$ref": "#"}),
        json!({"$ref": "#", "default": {}}),
        json!({"$ref": "#/properties/a", "default": {}}),
        json!({"default": {"a": {"a": {}}}}),
        json!({}),
        json!(true),
        json!(false),
    ]);
    // Each of these is a reason to refuse the whole schema.
    let odd = select(vec![
        json!({"type": "string", "pattern": "("}),
        json!({"type": "number", "multipleOf": 0}),
        json!({"type": "banana"}),
        json!({"$ref": "#/nowhere"}),
        json!({"$ref": "https://example.invalid/x.json"}),
        json!(7),
    ]);
    prop_oneof![40 => sound, 1 => odd]
}

fn inner() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let list = vec(inner.clone(), 0..4);
        prop_oneof![
            3 => object(inner.clone().boxed()),
            2 => inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            1 => list.clone().prop_map(|items| json!({"prefixItems": items, "items": false})),
            2 => (select(vec!["anyOf", "oneOf", "allOf"]), list).prop_map(|(word, list)| json!({word: list})),
            1 => inner.clone().prop_map(|part| json!({"not": part})),
            1 => (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
        ]
    })
}

fn object(part: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    let more = select(vec![
        json!({}),
        json!({"additionalProperties": false}),
        json!({"minProperties": 2}),
        json!({"patternProperties": {"^b": {"type": "string"}}}),
        json!({"unevaluatedProperties": false}),
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"additionalProperties": {"type": "string"}}),
    ]);
    (vec((name(), part), 0..5), vec(name(), 0..2), 0..8_u8, more).prop_map(|(fields, mut required, odd, more)| {
        let fields: Map<String, Value> = fields.into_iter().collect();
        // Now and then a field is required that is not allowed.
        required.retain(|name| odd == 0 || fields.contains_key(name));
        required.dedup();
        let mut schema = json!({"type": "object", "properties": fields, "required": required});
        schema.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        schema
    })
}

fn root() -> impl Strategy<Value = Value> {
    let draft = prop_oneof![
        20 => Just(None),
        4 => Just(Some("http://json-schema.org/draft-07/schema#")),
        4 => Just(Some("https://json-schema.org/draft/2020-12/schema")),
        1 => Just(Some("urn:other")),
    ];
    let dressed = (object(inner().boxed()), draft).prop_map(|(mut schema, draft)| {
        if let Some(draft) = draft {
            schema["$schema"] = json!(draft);
        }
        schema
    });
    prop_oneof![12 => dressed, 1 => inner(), 1 => json_value()]
}

/// A value that follows a schema; the bytes decide where there is a choice, and where it strays.
fn follow(root: &Value, schema: &Value, bytes: &mut impl Iterator<Item = u8>, depth: u32) -> Value {
    let byte = bytes.next().unwrap_or(0);
    if byte % 64 == 63 || depth > 8 {
        return json!([byte]);
    }
    if let Some(target) = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.trim_start_matches('#')))
    {
        return follow(root, target, bytes, depth + 1);
    }
    for word in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        if let Some(parts) = schema[word].as_array().filter(|parts| !parts.is_empty()) {
            return follow(root, &parts[usize::from(byte) % parts.len()], bytes, depth + 1);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values[usize::from(byte) % values.len().max(1)].clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let required =
                |name: &String| schema["required"].as_array().is_some_and(|list| list.contains(&json!(name)));
            let kept = fields
                .filter(|(name, _)| required(name) || !bytes.next().unwrap_or(0).is_multiple_of(4))
                .collect::<Vec<_>>();
            kept.into_iter().map(|(name, part)| (name.clone(), follow(root, part, bytes, depth + 1))).collect()
        }
        Some("array") => (0..byte % 4).map(|_| follow(root, &schema["items"], bytes, depth + 1)).collect(),
        Some("integer") => json!(byte % 12),
        Some("number") => json!(f64::from(byte) / 10.0),
        Some("boolean") => json!(byte.is_multiple_of(2)),
        Some("string") => json!("a".repeat(usize::from(byte) % 40)),
        _ => json!(null),
    }
}
