//! Tests of `tool::schema`: hand-made cases, each with its right value.

use serde_json::{Value, json};

use super::*;

fn refusals(schema: &Value, strict: Strict) -> Vec<String> {
    let errors = Schema::compile(schema, strict).expect_err("should be refused");
    errors.iter().map(ToString::to_string).collect()
}

const OPEN: &str = "additionalProperties must be false, so that undeclared fields are refused";

#[test]
fn an_open_object_is_refused_with_its_place() {
    let schema = json!({
        "type": "object",
        "properties": {"filter": {"type": "object", "properties": {"by": {"type": "array", "items": {
            "type": "object", "properties": {"a/b": {}}
        }}}}}
    });
    let expected = vec![
        format!("schema at the root: {OPEN}"),
        format!("schema at /properties/filter: {OPEN}"),
        format!("schema at /properties/filter/properties/by/items: {OPEN}"),
    ];
    assert_eq!(refusals(&schema, Strict::Refuse), expected);
}

#[test]
fn closing_writes_the_word_and_the_checker_knows_it() {
    let schema = json!({"type": "object", "properties": {"o": {"type": "object", "properties": {"a": {}}}}});
    let closed = Schema::compile(&schema, Strict::Close).expect("closes");
    assert_eq!(
        *closed.source(),
        json!({
            "type": "object",
            "properties": {"o": {"type": "object", "properties": {"a": {}}, "additionalProperties": false}},
            "additionalProperties": false
        })
    );
    assert!(!closed.validator().is_valid(&json!({"o": {"b": 1}})));
}

#[test]
fn maps_stay_open_and_are_listed() {
    let schema = json!({
        "type": "object",
        "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "meta": {"type": "object"},
            "any": {},
            "mixed": {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
            "none": {"type": "object", "additionalProperties": false},
            "text": {"type": "string"}
        },
        "additionalProperties": false
    });
    for strict in [Strict::Refuse, Strict::Close] {
        let compiled = Schema::compile(&schema, strict).expect("compiles");
        let expected = ["/properties/labels", "/properties/meta", "/properties/any", "/properties/mixed"];
        assert!(expected.iter().all(|path| compiled.maps().contains(&(*path).to_owned())), "{:?}", compiled.maps());
        assert!(!compiled.maps().iter().any(|path| path.ends_with("none") || path.ends_with("text")));
        assert!(compiled.validator().is_valid(&json!({"meta": {"x": 1}, "labels": {"y": "z"}})));
    }
}

#[test]
fn composed_objects_are_closed_from_outside() {
    let schema = json!({
        "type": "object",
        "$defs": {"Base": {"type": "object", "properties": {"id": {"type": "string"}}}},
        "properties": {"item": {"allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"n": {"type": "integer"}}}]}},
        "additionalProperties": false
    });
    let closed = Schema::compile(&schema, Strict::Close).expect("closes");
    assert_eq!(closed.source()["properties"]["item"]["unevaluatedProperties"], json!(false));
    assert!(closed.validator().is_valid(&json!({"item": {"id": "a", "n": 1}})));
    assert!(!closed.validator().is_valid(&json!({"item": {"id": "a", "n": 1, "x": 2}})));
}

#[test]
fn one_of_several_forms_is_closed_from_outside() {
    let schema = json!({
        "type": "object",
        "properties": {"v": {"anyOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "null"}
        ]}},
        "additionalProperties": false
    });
    let closed = Schema::compile(&schema, Strict::Close).expect("closes").validator().clone();
    assert!(closed.is_valid(&json!({"v": null})));
    assert!(closed.is_valid(&json!({"v": {"a": 1}})));
    assert!(!closed.is_valid(&json!({"v": {"a": 1, "b": 2}})));
}

#[test]
fn draft_07_cannot_be_closed_from_outside() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"item": {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}},
        "additionalProperties": false
    });
    let expected =
        "schema at /properties/item: draft-07 cannot close an object that is put together of several schemas";
    assert_eq!(refusals(&schema, Strict::Close), [expected]);
}

#[test]
fn what_cannot_be_a_schema_of_arguments_says_why() {
    let table = [
        (json!({"type": "array"}), "schema at the root: the arguments are an object: \"type\" must be \"object\""),
        (
            json!({"$schema": "https://example.com/none", "type": "object"}),
            "schema at /$schema: unknown dialect \"https://example.com/none\", 2020-12 and draft-07 are understood",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "schema at the root: the root names the fields of the tool: additionalProperties must be false",
        ),
    ];
    for (schema, expected) in table {
        assert_eq!(refusals(&schema, Strict::Close), [expected]);
    }
}

#[test]
fn nothing_outside_the_schema_is_read() {
    for reference in ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "other.json", "#/$defs/none"] {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": reference}}, "additionalProperties": false});
        let expected =
            format!("schema at /properties/a: $ref must point to a place in this schema (#/…), found {reference:?}");
        assert_eq!(refusals(&schema, Strict::Close), [expected]);
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let mut deep = json!({"type": "string"});
    for _ in 0..MAX_SCHEMA_DEPTH {
        deep = json!({"items": deep});
    }
    let deep = json!({"type": "object", "properties": {"a": deep}});
    assert_eq!(refusals(&deep, Strict::Close), ["schema at the root: nests deeper than 64 levels"]);
    let long = json!({"type": "object", "description": "x".repeat(MAX_SCHEMA_BYTES)});
    assert!(refusals(&long, Strict::Close)[0].ends_with("bytes long, at most 65536 are allowed"));
}

#[test]
fn a_default_that_does_not_fit_is_refused_or_taken_out() {
    let schema = json!({
        "type": "object", "properties": {"a": {"type": "string", "default": null}}, "additionalProperties": false
    });
    let expected = "schema at /properties/a/default: the default does not fit its own schema";
    assert_eq!(refusals(&schema, Strict::Refuse), [expected]);
    let closed = Schema::compile(&schema, Strict::Close).expect("compiles");
    assert_eq!(closed.source()["properties"]["a"], json!({"type": "string"}));
}

#[test]
fn a_schema_that_points_at_itself_compiles() {
    let schema = json!({
        "type": "object",
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
        "properties": {"node": {"$ref": "#/$defs/Node"}}
    });
    let closed = Schema::compile(&schema, Strict::Close).expect("closes");
    assert!(closed.validator().is_valid(&json!({"node": {"next": {"next": {}}}})));
    assert!(!closed.validator().is_valid(&json!({"node": {"next": {"next": {"x": 1}}}})));
}

#[test]
fn a_pattern_that_backtracks_for_ever_is_cut_short() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^(?:(?=a)a|aa)+$"}},
        "additionalProperties": false
    });
    let compiled = Schema::compile(&schema, Strict::Refuse).expect("compiles");
    assert!(!compiled.validator().is_valid(&json!({"a": format!("{}!", "a".repeat(5000))})));
}

#[test]
fn one_of_several_forms_that_is_a_map_stays_one() {
    let schema = json!({
        "type": "object",
        "properties": {"v": {"anyOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "object"}
        ]}},
        "additionalProperties": false
    });
    let closed = Schema::compile(&schema, Strict::Close).expect("closes");
    assert_eq!(closed.maps(), ["/properties/v/anyOf/1"]);
    assert!(closed.validator().is_valid(&json!({"v": {"x": 1}})));
}
