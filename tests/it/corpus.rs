//! Tools and calls that others wrote: every schema compiles closed, every right call passes, and
//! each of its spoilt copies is refused at the place that was spoilt.
//!
//! The numbers were counted apart from this code: by a Python script over the same files with the
//! `jsonschema` package (all 306 calls valid), which walks each call along its schema and adds one
//! per closed object, per typed value, per required field that is there and per value with an
//! `enum`. No call of the data contradicts its own schema, so none is left out.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use glassbox::{
    ToolReply, ToolSpec,
    core::Arguments,
    tool::{FnTool, Registration, Registry, Schema, Strict},
};
use serde_json::{Map, Value, json};

const BFCL: [&str; 7] =
    ["gorilla_file_system", "live_multiple", "live_simple", "multiple", "parallel", "simple_python", "ticket_api"];

/// One function of the data, in JSON Schema.
struct Function {
    origin: String,
    name: String,
    parameters: Value,
}

/// A right call.
struct Call {
    origin: String,
    schema: Value,
    arguments: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spoilt {
    ExtraField,
    WrongType,
    MissingField,
    BadEnumValue,
}

/// One way to spoil a call, and where the refusal must point.
struct Mutation {
    kind: Spoilt,
    pointer: String,
    arguments: Value,
}

fn read(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn lines(name: &str) -> Vec<Value> {
    read(name).lines().map(|line| serde_json::from_str(line).expect("JSON in each line")).collect()
}

/// Brings BFCL's types to those of JSON Schema.
fn to_json_schema(schema: &Value) -> Value {
    let mut mapped = schema.as_object().expect("a schema is an object").clone();
    let word = match mapped["type"].as_str().expect("a type") {
        "dict" => Some("object"),
        "float" => Some("number"),
        "tuple" | "list" => Some("array"),
        "any" => None,
        known @ ("string" | "integer" | "boolean" | "array" | "object" | "number") => Some(known),
        unknown => panic!("type {unknown}"),
    };
    match word {
        Some(word) => mapped.insert("type".to_owned(), json!(word)),
        None => mapped.remove("type"),
    };
    if let Some(Value::Object(fields)) = mapped.get_mut("properties") {
        fields.values_mut().for_each(|field| *field = to_json_schema(field));
    }
    if let Some(items) = mapped.get_mut("items") {
        *items = to_json_schema(items);
    }
    Value::Object(mapped)
}

fn function(origin: &str, declared: &Value) -> Function {
    Function {
        origin: origin.to_owned(),
        name: declared["name"].as_str().expect("a name").replace('.', "_"),
        parameters: to_json_schema(&declared["parameters"]),
    }
}

/// The functions of one line: those offered together, or the one that the line is.
fn functions_of(file: &str, line: &Value) -> Vec<Function> {
    match line["function"].as_array() {
        Some(offered) => offered.iter().map(|one| function(line["id"].as_str().expect("an id"), one)).collect(),
        None => vec![function(file, line)],
    }
}

fn tau_tools(world: &str) -> Vec<Function> {
    let tools: Value = serde_json::from_str(&read("tau-bench/tools-openai.json")).expect("JSON");
    tools[world].as_array().expect("a list").iter().map(|tool| function(world, &tool["function"])).collect()
}

/// The first right value of each argument; one whose first is `""` is left out.
fn first_right(alternatives: &Value) -> Value {
    let fields = alternatives.as_object().expect("alternatives by argument");
    let chosen = fields.iter().filter_map(|(name, alternatives)| {
        let first = &alternatives[0];
        (first != "").then(|| (name.clone(), plain(first)))
    });
    Value::Object(chosen.collect())
}

/// Objects inside a value list alternatives too.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(_) => first_right(value),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn bfcl_calls() -> Vec<Call> {
    let mut calls = Vec::new();
    for file in BFCL {
        for line in lines(&format!("bfcl/{file}.jsonl")) {
            let functions = functions_of(file, &line);
            for (number, right) in line["ground_truth"].as_array().into_iter().flatten().enumerate() {
                let (name, alternatives) = right.as_object().and_then(|call| call.iter().next()).expect("one call");
                let function = functions.iter().find(|function| function.name == name.replace('.', "_"));
                let function = function.unwrap_or_else(|| panic!("{name} is not offered"));
                calls.push(Call {
                    origin: format!("{}, call {number}", function.origin),
                    schema: function.parameters.clone(),
                    arguments: first_right(alternatives),
                });
            }
        }
    }
    calls
}

fn tau_calls() -> Vec<Call> {
    let schemas: BTreeMap<String, Value> =
        tau_tools("airline").into_iter().map(|tool| (tool.name, tool.parameters)).collect();
    let mut calls = Vec::new();
    for dialog in lines("tau-bench/gpt-4o-airline-15-trajectories.jsonl") {
        let messages = dialog["traj"].as_array().expect("messages");
        for call in messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten() {
            let (name, text) = (&call["function"]["name"], &call["function"]["arguments"]);
            let arguments = Arguments::from_text(text.as_str().expect("text"));
            let Arguments::Json(arguments) = arguments else { panic!("{text} is not JSON") };
            let schema = schemas[name.as_str().expect("a name")].clone();
            calls.push(Call { origin: format!("task {}, {name}", dialog["task_id"]), schema, arguments });
        }
    }
    calls
}

fn all_functions() -> Vec<Function> {
    let bfcl = BFCL.into_iter().flat_map(|file| {
        lines(&format!("bfcl/{file}.jsonl")).into_iter().flat_map(move |line| functions_of(file, &line))
    });
    bfcl.chain(tau_tools("airline")).chain(tau_tools("retail")).collect()
}

fn compile(origin: &str, schema: &Value) -> Schema {
    Schema::compile(schema, Strict::Close).unwrap_or_else(|errors| panic!("{origin}: {errors:?}"))
}

/// A value of another type than the schema asks for.
fn of_another_type(schema: &Value) -> Option<Value> {
    Some(match schema["type"].as_str()? {
        "string" => json!(7),
        "integer" => json!("7"),
        "number" => json!("seven"),
        "boolean" => json!("yes"),
        "array" => json!({}),
        "object" => json!("text"),
        other => panic!("type {other}"),
    })
}

/// A value of the right type that no list of the data holds.
fn of_no_list(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("string") => json!("no value of the list"),
        Some("integer" | "number") => json!(-987_654),
        other => panic!("a list of {other:?}"),
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Every way to spoil these arguments once.
fn mutations(schema: &Value, arguments: &Value) -> Vec<Mutation> {
    let mut found = Vec::new();
    spoil(schema, arguments, "", &mut |kind, pointer, part, spoilt| {
        let mut copy = arguments.clone();
        *copy.pointer_mut(part).expect("the walk was there") = spoilt;
        found.push(Mutation { kind, pointer, arguments: copy });
    });
    found
}

/// Walks a value along its schema; tells `take` what to put where, and what will be wrong then.
fn spoil(schema: &Value, value: &Value, at: &str, take: &mut impl FnMut(Spoilt, String, &str, Value)) {
    if let (Some(other), false) = (of_another_type(schema), at.is_empty()) {
        take(Spoilt::WrongType, at.to_owned(), at, other);
    }
    if schema.get("enum").is_some() {
        take(Spoilt::BadEnumValue, at.to_owned(), at, of_no_list(schema));
    }
    match value {
        Value::Object(fields) => {
            spoil_fields(schema, fields, at, take);
            for (name, field) in fields {
                spoil(&schema["properties"][name], field, &format!("{at}/{}", escaped(name)), take);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                spoil(&schema["items"], item, &format!("{at}/{index}"), take);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// An object too many or too few fields of.
fn spoil_fields(
    schema: &Value,
    fields: &Map<String, Value>,
    at: &str,
    take: &mut impl FnMut(Spoilt, String, &str, Value),
) {
    // The root is closed always; a part that declares no fields is a map, and takes all of them.
    if at.is_empty() || schema.get("properties").is_some() {
        let mut more = fields.clone();
        more.insert("not/declared".to_owned(), json!(1));
        take(Spoilt::ExtraField, format!("{at}/not~1declared"), at, Value::Object(more));
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        let name = required.as_str().expect("a name");
        let mut fewer = fields.clone();
        if fewer.remove(name).is_some() {
            take(Spoilt::MissingField, format!("{at}/{}", escaped(name)), at, Value::Object(fewer));
        }
    }
}

#[test]
fn every_schema_compiles_closed() {
    let functions = all_functions();
    // BFCL: 391 offered with a question, 27 of two documents; tau-bench: 14 airline, 16 retail.
    assert_eq!(functions.len(), 448);
    for Function { origin, name, parameters } in functions {
        let schema = compile(&format!("{origin}, {name}"), &parameters);
        let extra = Arguments::Json(json!({"not_declared_anywhere": 1}));
        let errors = schema.check(&extra).expect_err("an extra field");
        assert!(errors.problems.iter().any(|problem| problem.path == "/not_declared_anywhere"), "{origin}: {errors}");
    }
}

#[test]
fn the_functions_of_each_question_make_one_registry() {
    let mut questions = BTreeMap::<String, Vec<Registration>>::new();
    for Function { origin, name, parameters } in all_functions() {
        let tool =
            FnTool::new(ToolSpec::new(name, "", parameters), |_, _| async { Ok(ToolReply::Text(String::new())) });
        questions.entry(origin).or_default().push(Registration::closing(Arc::new(tool)));
    }
    // 230 questions, two documents, two worlds.
    assert_eq!(questions.len(), 234);
    for (origin, tools) in questions {
        let count = tools.len();
        let registry = Registry::new(tools).unwrap_or_else(|error| panic!("{origin}: {error}"));
        assert_eq!(registry.names().count(), count, "{origin}");
    }
}

#[test]
fn every_right_call_passes_and_each_spoilt_copy_is_refused_where_it_is_wrong() {
    let (bfcl, tau) = (bfcl_calls(), tau_calls());
    assert_eq!((bfcl.len(), tau.len()), (286, 20));
    let mut counts = BTreeMap::new();
    for Call { origin, schema, arguments } in bfcl.into_iter().chain(tau) {
        let compiled = compile(&origin, &schema);
        let passed = compiled.check(&Arguments::Json(arguments.clone()));
        let passed = passed.unwrap_or_else(|errors| panic!("{origin}: {errors}"));
        assert_kept(&arguments, &passed, &origin);
        for Mutation { kind, pointer, arguments } in mutations(&schema, &arguments) {
            *counts.entry(kind).or_insert(0) += 1;
            let errors = compiled.check(&Arguments::Json(arguments));
            let errors = errors.expect_err(&format!("{origin}: {kind:?} at {pointer} went through"));
            let places: Vec<&str> = errors.problems.iter().map(|problem| problem.path.as_str()).collect();
            assert!(places.iter().all(|place| *place == pointer), "{origin}: {kind:?} at {pointer}: {errors}");
        }
    }
    let expected =
        [(Spoilt::ExtraField, 319), (Spoilt::WrongType, 780), (Spoilt::MissingField, 592), (Spoilt::BadEnumValue, 100)];
    assert_eq!(counts, BTreeMap::from(expected));
}

/// What the tool gets holds all that was sent; beside it stand defaults only.
fn assert_kept(sent: &Value, passed: &Value, origin: &str) {
    match (sent, passed) {
        (Value::Object(sent), Value::Object(passed)) => {
            sent.iter().for_each(|(name, value)| assert_kept(value, &passed[name], origin));
        }
        (Value::Array(sent), Value::Array(passed)) => {
            assert_eq!(sent.len(), passed.len(), "{origin}");
            sent.iter().zip(passed).for_each(|(sent, passed)| assert_kept(sent, passed, origin));
        }
        (Value::Number(sent), Value::Number(passed)) => assert_eq!(sent.as_f64(), passed.as_f64(), "{origin}"),
        _ => assert_eq!(sent, passed, "{origin}"),
    }
}
