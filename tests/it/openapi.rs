//! The document of the API: that it is one, that it names every route and no other, and that the
//! service keeps to it, whatever it is asked.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    process::{Home, Server, have},
    real_parts::shelf,
};

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "patch", "trace"];

fn document(server: &Server<'_>) -> Value {
    let answer = server.get("/openapi.json");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{answer:?}");
    answer.json()
}

/// Method, path and operation of everything that is documented.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &Value)| {
        let item = item.as_object().unwrap().clone();
        let path = path.clone();
        item.into_iter().map(move |(method, operation)| (method, path.clone(), operation))
    };
    paths.iter().flat_map(of).collect()
}

#[test]
fn the_document_is_openapi() {
    let home = Home::new();
    let server = home.serve();
    let document = document(&server);
    let schema: Value = serde_json::from_str(include_str!("../data/openapi/schema-3.1.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<_> = validator.iter_errors(&document).map(|problem| problem.to_string()).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    // Schemas inside of it are of JSON Schema 2020-12.
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}: {schema}");
    }
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 20, "{references:?}");
    for reference in references {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference} leads nowhere");
    }
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            into.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| collect(member, into));
        }
        Value::Array(members) => members.iter().for_each(|member| collect(member, into)),
        _ => {}
    }
}

/// What is documented is a route of exactly these methods.
#[test]
fn every_documented_operation_is_a_route_with_these_methods_alone() {
    let home = Home::new();
    let server = home.serve();
    let document = document(&server);
    for path in document["paths"].as_object().unwrap().keys() {
        let item = &document["paths"][path];
        // Each parameter is filled with something that is not there, so that nothing changes.
        let place = path.replace("{id}", "nobody").replace("{call_id}", "call_1").replace("{kind}", "tool");
        let place = place.replace("{name}", "nothing");
        for method in METHODS {
            let answer = server.request(&method.to_uppercase(), &place, &[("accept", "application/json")], "");
            let status = answer.status.to_string();
            match item.get(method) {
                None => assert_eq!(answer.status, 405, "{method} {path} is not documented: {answer:?}"),
                Some(operation) => {
                    assert_ne!(answer.status, 405, "{method} {path} is documented");
                    assert!(!answer.body.contains("nothing at this path"), "{method} {path} is documented: {answer:?}");
                    assert!(operation["responses"].get(&status).is_some(), "{method} {path} answers {status}");
                }
            }
        }
    }
}

/// The other way round: the one way to add a route takes its document along. The pages for people
/// are no part of the API; all of them are at `/console`.
#[test]
fn every_route_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![root.join("http.rs")];
    files.extend(fs::read_dir(root.join("http")).unwrap().map(|entry| entry.unwrap().path()).filter(|it| it.is_file()));
    let texts: Vec<_> = files.iter().map(|file| (file, fs::read_to_string(file).unwrap())).collect();
    let pages = root.join("http/console.rs");
    let of_pages = fs::read_to_string(&pages).unwrap();
    let outside = of_pages.split(".route(").skip(1).filter(|route| !route.starts_with("\"/console"));
    assert_eq!(outside.collect::<Vec<_>>(), [""; 0], "pages stand at /console");
    for (file, text) in texts.iter().filter(|(file, _)| **file != pages) {
        for other in [".route(", ".route_service(", ".nest(", ".nest_service(", ".merge(", ".fallback("] {
            assert!(!text.contains(other), "{} adds a route by {other}, which is not documented", file.display());
        }
    }
    let handlers = texts.iter().map(|(_, text)| text.matches("#[utoipa::path(").count()).sum::<usize>();
    let home = Home::new();
    let server = home.serve();
    assert_eq!(operations(&document(&server)).len(), handlers, "a documented handler has no route");
}

#[test]
fn every_operation_says_what_it_is_and_how_it_fails() {
    let home = Home::new();
    let server = home.serve();
    let document = document(&server);
    let mut names = std::collections::BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let name = operation["operationId"].as_str().unwrap();
        assert!(names.insert(name.to_owned()), "{name} is there twice");
        assert!(!operation["summary"].as_str().unwrap_or_default().is_empty(), "{method} {path} has no summary");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
        for (status, response) in responses {
            assert!(!response["description"].as_str().unwrap().is_empty(), "{method} {path} {status}");
            if status.starts_with(['4', '5']) {
                let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Problem", "{method} {path} {status}");
            }
        }
        if let Some(body) = operation.get("requestBody") {
            let reference = body["content"]["application/json"]["schema"]["$ref"].as_str().unwrap();
            let schema = document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
            assert_eq!(schema["additionalProperties"], json!(false), "{reference} is read strictly");
            let example = schema.get("example").unwrap_or_else(|| panic!("{reference} has no example"));
            assert!(example.is_object(), "{example}");
        }
    }
}

/// Pages of other sites may not read answers, unless somebody says so; nobody can yet.
#[test]
fn no_answer_lets_other_sites_read_it() {
    let home = Home::new();
    let server = home.serve();
    for (method, status) in [("GET", 200), ("OPTIONS", 405)] {
        let headers = [("origin", "https://other.example"), ("access-control-request-method", "GET")];
        let answer = server.request(method, "/v1/sessions", &headers, "");
        assert_eq!(answer.status, status, "{answer:?}");
        let cors = answer.headers.iter().find(|(name, _)| name.starts_with("access-control-"));
        assert_eq!(cors, None);
    }
}

/// Requests by schemathesis, right ones and wrong ones: no fault of the service, and no answer
/// that the document does not tell of.
#[test]
fn the_service_keeps_to_its_document() {
    let Some(folder) = shelf("schemathesis-4.32.5") else { return };
    if !have("python3") {
        return;
    }
    let home = Home::new();
    let server = home.serve();
    // What a session leaves behind is there to be found.
    server.run("Сколько я потратил на такси в сентябре?");
    let mut command = Command::new("python3");
    home.dress(&mut command);
    command.args(["-c", "from schemathesis.cli import schemathesis; schemathesis()", "run"]);
    command.arg(format!("http://{}/openapi.json", server.address()));
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,\
                  response_headers_conformance,response_schema_conformance";
    command.args(["--checks", checks, "--phases", "examples,coverage,fuzzing", "--max-examples", "8"]);
    command.args(["--generation-deterministic", "--continue-on-failure"]);
    // One worker: two of them meet in Python's reader of its own source, which not every version survives.
    command.args(["--workers", "1", "--request-timeout", "20", "--no-color", "--warnings", "off"]);
    // It may say nothing for long, so its end is waited for and not its lines.
    let finished = command.env("PYTHONPATH", folder).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let out = String::from_utf8_lossy(&finished.stdout);
    assert!(finished.status.success(), "{out}\n{}", String::from_utf8_lossy(&finished.stderr));
    assert!(out.contains("No issues found"), "{out}");
    assert_eq!(server.get("/readyz").status, 200);
}
