//! A real Jaeger, by gRPC and by HTTP: one trace a session, of the right shape, whatever the
//! session and its process went through.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    process::{Home, PATIENCE, Server},
    real_parts::{Jaeger, jaeger},
};

/// Four agents, each of which goes through something else; a lease that is over soon.
const CONFIG: &str = "
agents:
  well: {system_prompt: Hello., model: well, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
  ill: {system_prompt: Hello., model: ill, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
  asks: {system_prompt: Hello., model: asks, language: en, tools: [card_block], task_types: [other], limits: {token_budget: 50000}}
  dies: {system_prompt: Hello., model: dies, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
models:
  well: {provider: scripted, script: well.yaml}
  ill: {provider: scripted, script: ill.yaml}
  asks: {provider: scripted, script: asks.yaml}
  dies: {provider: scripted, script: dies.yaml}
tools:
  txn_sum: {builtin: txn_sum, scopes: [spending:read]}
  card_block: {builtin: card_block, scopes: [card:block], confirm: suspend}
auth:
  default_principal: {id: C-001, scopes: [spending:read, card:block]}
server: {lease: 1s}
telemetry: {events: none}
";
const SCRIPTS: [(&str, &str); 4] = [
    (
        "well",
        "[{when: {step: 1}, call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}}, {text: Done.}]",
    ),
    ("ill", "[{when: {step: 1}, call: {tool: txn_sum, arguments: {colour: red}}}, {fault: {kind: auth}}]"),
    ("asks", "[{when: {step: 1}, call: {tool: card_block, arguments: {}}}, {text: Done.}]"),
    (
        "dies",
        "[{when: {step: 1}, call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}}, {delay: 1500ms, text: Done.}]",
    ),
];

/// A span as Jaeger tells of it: name, kind, what it failed with.
type Told = (String, String, Option<String>);

/// The root, and what stands right under it.
#[derive(Debug, PartialEq)]
struct Tree {
    root: Told,
    /// In the order of their names.
    children: Vec<Told>,
}

fn told(name: &str, kind: &str, error: Option<&str>) -> Told {
    (name.to_owned(), kind.to_owned(), error.map(str::to_owned))
}

/// What each session's trace must be, worked out by hand.
fn expected() -> BTreeMap<&'static str, Tree> {
    // A scripted model is known by its name in the configuration.
    let chat = |agent: &str, error| told(&format!("chat {agent}"), "client", error);
    let tool = |name: &str, error| told(&format!("execute_tool {name}"), "internal", error);
    let root = |agent: &str, error| told(&format!("invoke_agent {agent}"), "internal", error);
    BTreeMap::from([
        (
            "well",
            Tree {
                root: root("well", None),
                children: vec![chat("well", None), chat("well", None), tool("txn_sum", None)],
            },
        ),
        (
            "ill",
            Tree {
                root: root("ill", Some("model_auth")),
                children: vec![
                    chat("ill", None),
                    chat("ill", Some("auth")),
                    tool("txn_sum", Some("invalid_arguments")),
                ],
            },
        ),
        (
            "asks",
            Tree {
                root: root("asks", None),
                children: vec![
                    told("await_confirmation", "internal", None),
                    chat("asks", None),
                    chat("asks", None),
                    tool("card_block", None),
                ],
            },
        ),
        // The call that died with its process is there, and the one in its place.
        (
            "dies",
            Tree {
                root: root("dies", None),
                children: vec![
                    chat("dies", None),
                    chat("dies", None),
                    chat("dies", Some("lost")),
                    tool("txn_sum", None),
                ],
            },
        ),
    ])
}

fn home(jaeger: &Jaeger, protocol: &str) -> Home {
    let endpoint = if protocol == "grpc" { jaeger.grpc() } else { jaeger.http() };
    let home = Home::configured(CONFIG)
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .variable("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        .variable("GLASSBOX__PRIVACY__SPAN_CONTENT", "full");
    for (name, rules) in SCRIPTS {
        home.write(&format!("{name}.yaml"), &format!("{{name: {name}, rules: {rules}}}"));
    }
    home
}

fn begin(server: &Server<'_>, agent: &str) -> String {
    let answer = server.post("/v1/sessions", &json!({"agent": agent, "task": "Do it."}).to_string());
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["session_id"].as_str().unwrap().to_owned()
}

fn await_status(server: &Server<'_>, id: &str, status: &str) {
    server.get_until(&format!("/v1/sessions/{id}"), |answer| answer.json()["status"] == status);
}

/// Lets every session go through what it is for; gives their ids by agent.
fn live(home: &Home) -> BTreeMap<&'static str, String> {
    let first = home.serve();
    let id = |report: Value| report["session_id"].as_str().unwrap().to_owned();
    let well = id(first.run_as("well", "Do it."));
    let ill = id(first.run_as("ill", "Do it."));
    let asks = begin(&first, "asks");
    await_status(&first, &asks, "awaiting_confirmation");
    let dies = begin(&first, "dies");
    let calls = |body: &str| body.matches("model_call_started").count();
    first.get_until(&format!("/v1/sessions/{dies}/journal"), |answer| calls(&answer.body) == 2);
    first.process.signal("KILL");
    drop(first);

    let second = home.serve();
    await_status(&second, &dies, "done");
    let path = format!("/v1/sessions/{asks}/confirmations/call_1_1");
    let approved = second.post(&path, &json!({"decision": "approve"}).to_string());
    assert_eq!(approved.status, 200, "{approved:?}");
    await_status(&second, &asks, "done");
    assert_eq!(second.stop().code, Some(0));
    BTreeMap::from([("well", well), ("ill", ill), ("asks", asks), ("dies", dies)])
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn tag<'a>(span: &'a Value, key: &str) -> Option<&'a str> {
    list(&span["tags"]).iter().find(|tag| tag["key"] == key)?["value"].as_str()
}

fn word(span: &Value) -> Told {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let failed = tag(span, "otel.status_code") == Some("ERROR");
    assert_eq!(failed, tag(span, "error.type").is_some(), "{span}");
    let error = tag(span, "error.type").map(str::to_owned);
    (text(&span["operationName"]), tag(span, "span.kind").expect("a kind").to_owned(), error)
}

/// The tree of a trace; nothing while its root, or one below it, is not there.
fn tree(trace: &Value) -> Option<Tree> {
    let spans = list(&trace["spans"]);
    let ids: BTreeSet<_> = spans.iter().map(|span| span["spanID"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), spans.len(), "each span once: {trace}");
    let (roots, below): (Vec<_>, Vec<_>) = spans.iter().partition(|span| list(&span["references"]).is_empty());
    assert!(roots.len() < 2, "one root: {trace}");
    let root = roots.first()?;
    // What a tool opened itself is no fact, may be lost in a crash, and hangs under its call.
    let (inside, below): (Vec<_>, Vec<_>) = below.into_iter().partition(|span| tag(span, "db.system.name").is_some());
    let parent = |span: &Value| {
        let parents: Vec<_> = list(&span["references"]).iter().map(|one| (&one["refType"], &one["spanID"])).collect();
        let [(kind, parent)] = parents.as_slice() else { panic!("one parent: {span}") };
        assert_eq!((*kind, &span["traceID"]), (&json!("CHILD_OF"), &root["traceID"]), "{span}");
        (*parent).clone()
    };
    for span in &inside {
        let above = below.iter().find(|call| call["spanID"] == parent(span));
        let above = above.and_then(|call| call["operationName"].as_str());
        assert!(above.is_none_or(|name| name.starts_with("execute_tool ")), "{span} is under {above:?}");
        assert_ne!(parent(span), root["spanID"], "{span}");
    }
    assert!(below.iter().all(|span| parent(span) == root["spanID"]), "every call is right under the root: {trace}");
    let mut children: Vec<_> = below.into_iter().map(word).collect();
    children.sort();
    Some(Tree { root: word(root), children })
}

/// Asks until the trace is whole: Jaeger shows what it took a moment later.
fn whole(jaeger: &Jaeger, id: &str, expected: &Tree) -> Tree {
    let path = format!("/api/traces/{}", id.trim_start_matches("sess_"));
    let pace = Duration::from_millis(50);
    let mut last = None;
    for _ in 0..PATIENCE.as_millis() / pace.as_millis() {
        let answer = jaeger.client().get(&path);
        last = (answer.status == 200).then(|| tree(&answer.json()["data"][0])).flatten();
        if last.as_ref().is_some_and(|tree| tree.children.len() >= expected.children.len()) {
            break;
        }
        thread::sleep(pace);
    }
    last.unwrap_or_else(|| panic!("{path}: no whole trace within {PATIENCE:?}"))
}

/// What a reader of the trace is shown of a session, worked out by hand.
fn shows_what_was_said(jaeger: &Jaeger, id: &str) {
    let trace = jaeger.client().get(&format!("/api/traces/{}", id.trim_start_matches("sess_"))).json();
    let spans = list(&trace["data"][0]["spans"]);
    let shown = |name: &str, key: &str| {
        let span = spans.iter().find(|span| span["operationName"] == name).unwrap();
        tag(span, key).map(|text| serde_json::from_str::<Value>(text).unwrap())
    };
    let message = |role: &str, text: &str| json!({"role": role, "parts": [{"type": "text", "content": text}]});
    let mut answer = message("assistant", "Done.");
    answer["finish_reason"] = "stop".into();
    assert_eq!(shown("invoke_agent well", "gen_ai.input.messages"), Some(json!([message("user", "Do it.")])));
    assert_eq!(shown("invoke_agent well", "gen_ai.output.messages"), Some(json!([answer])));
    let system = json!([{"type": "text", "content": "Hello."}]);
    assert_eq!(shown("chat well", "gen_ai.system_instructions"), Some(system));
    let arguments = json!({"category": "taxi", "month": "2026-09"});
    assert_eq!(shown("execute_tool txn_sum", "gen_ai.tool.call.arguments"), Some(arguments));
    let result = shown("execute_tool txn_sum", "gen_ai.tool.call.result").unwrap();
    assert_eq!(result["total_kzt"], 5000, "{result}");
}

fn one_trace_a_session(protocol: &str) {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/jaeger/jaeger.yaml");
    let Some(jaeger) = jaeger(&shipped) else { return };
    let home = home(&jaeger, protocol);
    let sessions = live(&home);
    for (agent, expected) in expected() {
        assert_eq!(whole(&jaeger, &sessions[agent], &expected), expected, "{agent}");
    }
    shows_what_was_said(&jaeger, &sessions["well"]);
    let found = jaeger.client().get("/api/traces?service=glassbox&limit=100").json();
    let traces: Vec<_> = list(&found["data"]).iter().map(|trace| trace["traceID"].as_str().unwrap()).collect();
    let ids: BTreeSet<_> = sessions.values().map(|id| id.trim_start_matches("sess_")).collect();
    assert_eq!((traces.len(), traces.into_iter().collect::<BTreeSet<_>>()), (4, ids), "one trace a session, no other");
}

#[test]
fn jaeger_shows_one_trace_a_session_by_grpc() {
    one_trace_a_session("grpc");
}

#[test]
fn jaeger_shows_one_trace_a_session_by_http() {
    one_trace_a_session("http/protobuf");
}
