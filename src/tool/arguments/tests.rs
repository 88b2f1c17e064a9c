//! Tests of `tool::arguments`: hand-made cases, each with its right value.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tool::Strict;

fn schema() -> Schema {
    let schema = json!({
        "type": "object",
        "properties": {
            "month": {"type": "string", "pattern": r"^\d{4}-\d{2}$"},
            "items": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "top_k": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
            "ratio": {"type": "number"},
            "category": {"enum": ["products", "policies"]},
            "note": {"type": ["string", "null"], "maxLength": 5},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "filter": {
                "type": "object",
                "properties": {"by": {"type": "string"}, "deep": {"type": "boolean", "default": true}},
                "required": ["by"],
                "additionalProperties": false
            },
            "any": {}
        },
        "required": ["month"],
        "additionalProperties": false
    });
    Schema::compile(&schema, Strict::Refuse).expect("compiles")
}

fn check(arguments: &str) -> Result<Value, String> {
    schema().check(&Arguments::from_text(arguments)).map_err(|errors| errors.to_string())
}

#[track_caller]
fn refused(arguments: &str, problems: &str) {
    let expected = format!("Schema validation error: {problems}. Fix arguments and retry.");
    assert_eq!(check(arguments), Err(expected), "{arguments}");
}

#[test]
fn each_rule_has_its_words() {
    refused(r#"{"month": 9}"#, r"/month: expected a string matching ^\d{4}-\d{2}$, got 9");
    refused(r#"{"month": "9"}"#, r#"/month: expected a string matching ^\d{4}-\d{2}$, got the string "9""#);
    refused("{}", r"/month: missing, expected a string matching ^\d{4}-\d{2}$");
    let rest = |field: &str| format!(r#"{{"month": "2026-09", {field}}}"#);
    refused(&rest(r#""top_k": 3.5"#), "/top_k: expected an integer from 1 to 10, got 3.5");
    refused(&rest(r#""top_k": "3""#), "/top_k: expected an integer from 1 to 10, got the string \"3\"");
    refused(&rest(r#""top_k": 11"#), "/top_k: expected an integer from 1 to 10, got 11");
    refused(&rest(r#""category": "x""#), "/category: expected one of \"products\", \"policies\", got the string \"x\"");
    refused(
        &rest(r#""note": "123456""#),
        "/note: expected a string of at most 5 characters or null, got the string \"123456\"",
    );
    refused(&rest(r#""when": 5"#), "/when: expected a string or null, got 5");
    refused(
        &rest(r#""items": ["a", 1, "c", "d"]"#),
        "/items: expected an array of at most 3 items, got the array [\"a\",1,\"c\",\"d\"]; /items/1: expected a string, got 1",
    );
}

#[test]
fn text_that_holds_json_is_refused_and_says_so() {
    refused(
        r#"{"month": "2026-09", "items": "[\"a\"]"}"#,
        "/items: expected an array of at most 3 items, got a string that holds JSON (an array), send the array itself, not its text",
    );
    refused(
        r#""{\"month\": \"2026-09\"}""#,
        "expected an object, got a string that holds JSON (an object), send the object itself, not its text",
    );
}

#[test]
fn extra_fields_are_refused_with_the_allowed_names() {
    refused(
        r#"{"month": "2026-09", "customer_id": "C-002"}"#,
        "/customer_id: not an allowed field (allowed: month, items, top_k, ratio, category, note, when, filter, any)",
    );
    refused(
        r#"{"month": "2026-09", "filter": {"by": "x", "a/b": 1}}"#,
        "/filter/a~1b: not an allowed field (allowed: by, deep)",
    );
}

#[test]
fn all_errors_come_at_once_and_not_without_end() {
    let errors = schema().check(&Arguments::from_text(r#"{"items": [1], "top_k": 0, "x": 1}"#)).expect_err("four");
    assert_eq!(errors.problems.len(), 4);
    let many: Vec<_> = (0..100).collect();
    let errors = schema().check(&Arguments::Json(json!({"month": "2026-09", "items": many}))).expect_err("many");
    assert_eq!((errors.problems.len(), errors.more), (MAX_PROBLEMS, true));
    assert!(errors.to_string().ends_with("; and more. Fix arguments and retry."));
}

#[test]
fn nothing_and_null_are_no_arguments() {
    let empty = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let empty = Schema::compile(&empty, Strict::Refuse).expect("compiles");
    let nothings = [Arguments::from_text(""), Arguments::from_text("null"), Arguments::Json(Value::Null)];
    for nothing in nothings.into_iter().chain([Arguments::Raw(String::new()), Arguments::Json(json!(""))]) {
        assert_eq!(empty.check(&nothing), Ok(json!({})));
        let words = schema().check(&nothing).expect_err("month is required").to_string();
        assert!(words.contains("/month: missing"), "{words}");
    }
}

#[test]
fn whole_numbers_are_integers_and_defaults_are_filled_in() {
    assert_eq!(
        check(r#"{"month": "2026-09", "top_k": 3.0, "ratio": 0.1, "filter": {"by": "x"}}"#),
        Ok(json!({"month": "2026-09", "top_k": 3, "ratio": 0.1, "filter": {"by": "x", "deep": true}}))
    );
    assert_eq!(check(r#"{"month": "2026-09"}"#), Ok(json!({"month": "2026-09", "top_k": 3})));
    assert_eq!(check(r#"{"month": "2026-08", "month": "2026-09"}"#), Ok(json!({"month": "2026-09", "top_k": 3})));
}

#[test]
fn numbers_that_lose_digits_are_refused() {
    let range = "expected an integer from -9007199254740991 to 9007199254740991";
    for number in ["9007199254740992", "-9007199254740992", "18446744073709551616", "9007199254740993.0"] {
        let words = check(&format!(r#"{{"month": "2026-09", "ratio": {number}}}"#)).expect_err("too big");
        assert!(words.contains(&format!("/ratio: {range}, got ")), "{words}");
        assert!(words.contains("send a number this big as a string"), "{words}");
    }
    assert!(check(r#"{"month": "2026-09", "ratio": 9007199254740991}"#).is_ok());
    refused(
        r#"{"month": 1e400}"#,
        "arguments are not valid JSON: number out of range at line 1 column 15, send a number this big as a string",
    );
}

#[test]
fn text_that_is_no_json_names_the_place() {
    refused(r#"{"month": "#, "arguments are not valid JSON: EOF while parsing a value at line 1 column 10");
    let words = check(r#"{"month": "\ud800"}"#).expect_err("half a character");
    assert!(words.starts_with("Schema validation error: arguments are not valid JSON: "), "{words}");
    refused("[1]", "expected an object, got the array [1]");
    refused("5", "expected an object, got 5");
}

#[test]
fn size_and_depth_are_bounded() {
    let long = "x".repeat(MAX_ARGUMENT_BYTES);
    let words = schema().check(&Arguments::Json(json!({"any": long}))).expect_err("long").to_string();
    assert!(words.contains("bytes long, at most 262144 are allowed"), "{words}");
    let mut deep = json!(1);
    for _ in 0..MAX_ARGUMENT_DEPTH {
        deep = json!([deep]);
    }
    let words = schema().check(&Arguments::Json(json!({"any": deep}))).expect_err("deep").to_string();
    assert!(words.contains("arguments nest deeper than 32 levels"), "{words}");
}

#[test]
fn several_forms_are_explained_by_the_one_that_was_meant() {
    let schema = json!({
        "type": "object",
        "properties": {"v": {"anyOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": false},
            {"type": "null"}
        ]}},
        "additionalProperties": false
    });
    let schema = Schema::compile(&schema, Strict::Refuse).expect("compiles");
    let words = schema.check(&Arguments::Json(json!({"v": {"a": "x"}}))).expect_err("wrong").to_string();
    assert_eq!(
        words,
        "Schema validation error: /v/a: expected an integer, got the string \"x\". Fix arguments and retry."
    );
}

#[test]
fn fields_of_referred_schemas_are_explained_too() {
    let schema = json!({
        "type": "object",
        "$defs": {"Base": {"type": "object", "properties": {"id": {"type": "string"}}}},
        "properties": {"item": {"$ref": "#/$defs/Base"}}
    });
    let schema = Schema::compile(&schema, Strict::Close).expect("compiles");
    let words = schema.check(&Arguments::Json(json!({"item": {"id": 1}}))).expect_err("wrong").to_string();
    assert!(words.contains("/item/id: expected a string, got 1"), "{words}");
    let words = schema.check(&Arguments::Json(json!({"item": {"x": 1}}))).expect_err("wrong").to_string();
    assert!(words.contains("/item/x: not an allowed field (allowed: id)"), "{words}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let name = prop_oneof![Just("month".to_owned()), Just("items".to_owned()), Just("filter".to_owned()), ".*"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

#[test]
fn a_very_long_path_is_told_by_its_ends() {
    let numbers = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let map = json!({"type": "object", "properties": {"map": numbers}});
    let schema = Schema::compile(&map, Strict::Close).expect("it compiles");
    let told = |letters: usize| {
        let errors =
            schema.check(&Arguments::Json(json!({"map": {"k".repeat(letters): true}}))).expect_err("no number");
        assert_eq!(errors.problems[0].path, format!("/map/{}", "k".repeat(letters)));
        errors.to_string()
    };
    let short = format!("Schema validation error: /map/{}: expected", "k".repeat(295));
    assert!(told(295).starts_with(&short), "{}", told(295));
    let long = format!("Schema validation error: /map/{}…{}: expected", "k".repeat(145), "k".repeat(150));
    assert!(told(100_000).starts_with(&long), "{}", told(100_000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_arguments_panic_and_what_passes_passes_again(value in any_json()) {
        let schema = schema();
        if let Ok(checked) = schema.check(&Arguments::Json(value)) {
            prop_assert_eq!(schema.check(&Arguments::Json(checked.clone())), Ok(checked));
        }
    }

    #[test]
    fn no_text_panics(text in ".*") {
        let _ = schema().check(&Arguments::from_text(&text));
        let _ = schema().check(&Arguments::Raw(text));
    }
}
