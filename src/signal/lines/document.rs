//! Prints the catalogue of events as a page for people and as a JSON Schema for machines.
//! It must never add a field that the catalogue lacks.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::catalogue::{COMMON, EVENTS, Event, Field, SYSTEM, Scope, Shape};

const HEAD: &str = "# Events

This page and `events.schema.json` are printed from the catalogue in `src/signal/lines/catalogue.rs`; a test compares
them.

One JSON object a line, to stdout or a file, each written after its fact is committed.
In normal life a line is written once, and the lines of a session come in the order of their `seq`. Around a crash, and
after losses, lines come again, byte for byte the same, and none stays away: drop repeats by (`session_id`, `seq`), and by
(`process_id`, `seq`) where there is no session. [observability.md](observability.md#event-lines-after-a-crash) says when.
A kill may leave half a line in a file, which is ended and written again: skip what is no JSON.
No field holds text of people: the task and the principal's id are keyed hashes, `hmac-sha256:<key id>:<hex>`.
A name that the configuration does not know is `unknown`.

";

/// The text of `docs/events.md`.
pub fn render_document() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Fields of every event of a session\n\n");
    let event = Field {
        name: "event",
        shape: Shape::Word(|| EVENTS.iter().map(|event| event.name).collect()),
        nullable: false,
        meaning: "which event",
    };
    table(&mut page, std::iter::once(&event).chain(COMMON));
    page.push_str("\n## Fields of events that belong to no session\n\nInstead of those above:\n\n");
    table(&mut page, std::iter::once(&event).chain(SYSTEM));
    for event in EVENTS {
        write!(page, "\n## {}\n\n{}\n", event.name, event.meaning).expect("a string takes any text");
        if !event.fields.is_empty() {
            page.push('\n');
            table(&mut page, event.fields);
        }
    }
    page
}

/// The text of `docs/events.schema.json`.
pub fn render_schema() -> String {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "glassbox event line",
        "type": "object",
        "required": ["event"],
        "oneOf": EVENTS.iter().map(event_schema).collect::<Vec<_>>(),
    });
    let mut text = serde_json::to_string_pretty(&schema).expect("plain JSON");
    text.push('\n');
    text
}

fn table<'a>(page: &mut String, fields: impl IntoIterator<Item = &'a Field>) {
    page.push_str("| field | type | meaning |\n|---|---|---|\n");
    for field in fields {
        let null = if field.nullable { " or null" } else { "" };
        let shape = shape_text(field.shape);
        writeln!(page, "| `{}` | {shape}{null} | {} |", field.name, field.meaning).expect("a string takes any text");
    }
}

fn shape_text(shape: Shape) -> String {
    match shape {
        Shape::Pattern(pattern) => format!("string `{pattern}`"),
        Shape::Name => "string".to_owned(),
        Shape::Names => "array of strings".to_owned(),
        Shape::Count => "integer".to_owned(),
        Shape::Amount => "number".to_owned(),
        Shape::Flag => "boolean".to_owned(),
        Shape::Timestamp => "string, RFC 3339".to_owned(),
        Shape::Word(words) => words().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
    }
}

fn event_schema(event: &Event) -> Value {
    let mut properties = Map::new();
    properties.insert("event".to_owned(), json!({"const": event.name}));
    let common = match event.scope {
        Scope::Session => COMMON,
        Scope::System => SYSTEM,
    };
    for field in event.fields.iter().chain(common) {
        properties.insert(field.name.to_owned(), field_schema(field));
    }
    let required: Vec<_> = properties.keys().cloned().collect();
    json!({
        "title": event.name,
        "description": event.meaning,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn field_schema(field: &Field) -> Value {
    let mut schema = match field.shape {
        Shape::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
        Shape::Name => json!({"type": "string", "minLength": 1}),
        Shape::Names => json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        Shape::Count => json!({"type": "integer", "minimum": 0}),
        Shape::Amount => json!({"type": "number", "minimum": 0}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Timestamp => json!({"type": "string", "format": "date-time"}),
        Shape::Word(words) => json!({"type": "string", "enum": words()}),
    };
    if field.nullable {
        schema["type"] = json!([schema["type"], "null"]);
        if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
            words.push(Value::Null);
        }
    }
    schema["description"] = json!(field.meaning);
    schema
}
