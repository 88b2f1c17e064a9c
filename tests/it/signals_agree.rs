//! The signals cannot disagree: sessions of every sort run in one process, and what it left is
//! counted again from the lines, from the journal and from the spans, by code that shares
//! nothing with the program, and held against the metrics.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

pub mod count;
pub mod evidence;
pub mod traces;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use glassbox::{
    Config, Runtime,
    config::Sources,
    runtime::{SessionHandle, Setup, Task},
};
use serde_json::{Value, json};

use self::{
    count::RequestModels,
    evidence::{Evidence, Seen, number, text},
};
use crate::{
    collector::{Collector, Manner},
    process::Home,
    world::{PlannedTool, ToolPlan},
};

const GRACE: Duration = Duration::from_secs(20);
/// Agents, tasks, and how each ends.
const SESSIONS: &[(&str, &str, &str)] = &[
    ("work", "sum", "done"),
    ("work", "parallel", "done"),
    ("work", "invalid", "done"),
    ("work", "invented", "done"),
    ("work", "forbidden", "done"),
    ("work", "sleepy", "done"),
    ("work", "bomb", "done"),
    ("work", "down", "done"),
    ("work", "wrong", "done"),
    ("work", "pay", "done"),
    ("work", "again", "done or error"),
    ("work", "circle", "error no_progress"),
    ("work", "silence", "error empty_reply"),
    ("work", "think", "cancelled"),
    ("work", "speak", "cancelled"),
    ("work", "hang", "cancelled"),
    ("short", "many", "max_iterations"),
    ("poor", "circle", "budget_exceeded token_budget"),
    ("hasty", "doze", "budget_exceeded deadline"),
    ("broken", "key", "error model_auth"),
    ("broken", "request", "error model_unavailable"),
    ("broken", "late", "error model_unavailable"),
    ("broken", "panic", "error model_unavailable"),
    ("relay", "sum", "done"),
    ("relay", "twice", "done"),
];

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/signals")
}

fn models() -> RequestModels {
    RequestModels::from([("main", "main-2026"), ("faulty", "faulty"), ("weak", "weak"), ("bank", "bank")])
}

fn agree(evidence: &Evidence) {
    count::agree(evidence, &models());
    traces::lines_tell_of_the_journal(evidence);
    traces::spans_tell_of_the_lines(evidence);
    lines_are_valid(&evidence.lines);
}

fn lines_are_valid(lines: &[Value]) {
    let schema: Value = serde_json::from_str(include_str!("../../docs/events.schema.json")).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    for line in lines {
        let problems: Vec<_> = validator.iter_errors(line).map(|problem| problem.to_string()).collect();
        assert!(problems.is_empty(), "{line}: {problems:#?}");
    }
}

fn runtime(folder: &Path, collector: &Collector) -> Runtime {
    let variables = [
        ("GLASSBOX__TELEMETRY__OTLP__ENDPOINT", collector.grpc()),
        ("GLASSBOX__TELEMETRY__OTLP__PROTOCOL", "grpc".into()),
        ("GLASSBOX__TELEMETRY__EVENTS", folder.join("events").display().to_string()),
    ];
    let env = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let config = Config::load(&Sources { file: Some(data().join("glassbox.yaml")), env }).unwrap();
    let plans = fs::read_to_string(data().join("tools.yaml")).unwrap();
    let plans: BTreeMap<String, ToolPlan> = serde_saphyr::from_str(&plans).unwrap();
    let mut setup = Setup::serve(folder);
    for (name, plan) in plans {
        setup = setup.with_tool(["work", "hasty"], PlannedTool::new(&name, plan));
    }
    Runtime::start(&config, setup).unwrap()
}

async fn open(runtime: &Runtime, agent: &str, text: &str) -> SessionHandle {
    let scopes = vec!["spending:read".to_owned()];
    let attributes = [("customer_id".to_owned(), "C-001".to_owned())].into();
    let principal = glassbox::core::Principal { id: "C-001".into(), scopes, roles: Vec::new(), attributes };
    let task_type = (agent == "work").then(|| if text.len() > 5 { "bad" } else { "good" }.to_owned());
    runtime.open(Task { agent: Some(agent.into()), task_type, ..Task::new(text, principal) }).await.unwrap()
}

/// Waits until the journal of a session holds this fact.
async fn until(runtime: &Runtime, handle: &SessionHandle, fact: &str) {
    let mut reader = runtime.feed().subscribe(Some(handle.id()));
    let stream = glassbox::core::StreamId::Session(handle.id());
    let stored = runtime.store().load(stream).unwrap();
    if stored.iter().any(|entry| entry.fact.name() == fact) {
        return;
    }
    let waiting = async { while reader.next_fact().await.unwrap().fact.name() != fact {} };
    tokio::time::timeout(GRACE, waiting).await.unwrap();
}

/// Waits until the model has said something, so that stopping it costs something.
async fn until_it_speaks(runtime: &Runtime, handle: &SessionHandle) {
    let mut reader = runtime.feed().subscribe_with_text(Some(handle.id()));
    let waiting = async { while !matches!(reader.next().await.unwrap(), glassbox::signal::FeedItem::Delta(_)) {} };
    tokio::time::timeout(GRACE, waiting).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_agree() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(Manner::Accept).await;
    let runtime = runtime(folder.path(), &collector);
    let mut handles = Vec::new();
    for (agent, task, _) in SESSIONS {
        handles.push(open(&runtime, agent, task).await);
    }
    for (handle, (_, task, end)) in handles.iter_mut().zip(SESSIONS) {
        if *task == "speak" {
            until_it_speaks(&runtime, handle).await;
            handle.cancel();
        } else if *end == "cancelled" {
            let fact = if *task == "think" { "model_attempt_started" } else { "tool_attempt_started" };
            until(&runtime, handle, fact).await;
            handle.cancel();
        }
        tokio::time::timeout(GRACE, handle.ended()).await.unwrap().unwrap();
    }
    // One more, which the stop finds in the middle of a step.
    let mut last = open(&runtime, "work", "slowly").await;
    until(&runtime, &last, "model_attempt_started").await;
    runtime.begin_drain();
    last.ended().await.unwrap();
    assert_eq!(runtime.stop(GRACE).await.unwrap(), 0, "all have settled");

    let evidence = Evidence {
        lines: evidence::lines(&fs::read_to_string(folder.path().join("events")).unwrap()),
        journal: evidence::journal(&folder.path().join("glassbox.db")),
        metrics: runtime.metrics().render(),
        spans: evidence::spans(&collector),
    };
    every_sort_was_there(&evidence.lines);
    agree(&evidence);
    let suspended = evidence.journal.iter().filter(|row| row.name == "session_suspended").count();
    assert_eq!(suspended, 1);
}

/// The sessions ended as they were meant to, and everything that can go wrong did.
fn every_sort_was_there(lines: &[Value]) {
    let of = |event: &'static str| lines.iter().filter(move |line| text(line, "event") == event);
    let mut ends: Vec<String> = of("agent_session_finished")
        .map(|line| format!("{} {}", text(line, "status"), line["reason"].as_str().unwrap_or_default()))
        .map(|end| end.trim().to_owned())
        .collect();
    let mut wanted: Vec<_> = SESSIONS.iter().map(|(_, _, end)| (*end).to_owned()).collect();
    // Whether a model is asked again is not what this test is about.
    wanted.retain(|end| !end.contains(" or "));
    for end in wanted {
        let place = ends.iter().position(|found| *found == end);
        ends.swap_remove(place.unwrap_or_else(|| panic!("no session ended as {end}: {ends:?}")));
    }
    assert_eq!(ends.len(), 1, "{ends:?}");
    let outcomes: BTreeSet<_> = of("tool_called").map(|line| text(line, "outcome")).collect();
    for outcome in [
        "ok",
        "failed",
        "timeout",
        "refused",
        "invalid_arguments",
        "unknown_tool",
        "cancelled",
        "unknown_outcome",
        "denied",
    ] {
        assert!(outcomes.contains(outcome), "{outcome} is not in {outcomes:?}");
    }
    let outcomes: BTreeSet<_> = of("model_called").map(|line| text(line, "outcome")).collect();
    for outcome in ["ok", "auth", "refused", "timeout", "panic", "cancelled"] {
        assert!(outcomes.contains(outcome), "{outcome} is not in {outcomes:?}");
    }
    assert!(of("handed_over").count() > 5);
    assert!(of("model_fallback").count() >= 2, "each step of one session begins at its own model");
    assert!(of("tool_retry").count() >= 2 && of("model_retry").count() >= 2);
    assert!(of("circuit_changed").any(|line| line["name"] == "faulty" && line["to"] == "open"));
}

/// The same of the program itself, over its API, its pipe and its collector; and what its tools
/// open through `tracing` hangs under their calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_agrees_with_itself() {
    let collector = Collector::start(Manner::Accept).await;
    let endpoint = collector.http();
    let (lines, journal, metrics) = tokio::task::spawn_blocking(move || run_the_program(&endpoint)).await.unwrap();
    let evidence = Evidence {
        lines: evidence::lines(&lines),
        journal: journal.into_iter().filter(|row| row.name != "process_stopped").collect(),
        metrics,
        spans: evidence::spans(&collector),
    };
    agree(&evidence);

    let sums = evidence.spans.iter().filter(|span| span.span.name == "SELECT transactions").collect::<Vec<_>>();
    let calls = evidence.lines.iter().filter(|line| line["event"] == "tool_called").count();
    assert_eq!(sums.len(), calls, "one for each call, under its call");
    assert!(sums.iter().all(|span| !span.own && span.attribute("db.system.name") == Some("sqlite".into())));

    let linked: Vec<&Seen> = evidence.spans.iter().filter(|span| !span.span.links.is_empty()).collect();
    let [linked] = linked.as_slice() else { panic!("one session came with a caller's span") };
    assert!(linked.span.name.starts_with("invoke_agent"), "the root is linked");
    let link = &linked.span.links[0];
    assert_eq!(evidence::hex(&link.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(evidence::hex(&link.span_id), "00f067aa0ba902b7");
}

fn run_the_program(endpoint: &str) -> (String, Vec<evidence::Row>, String) {
    let home = Home::new().variable("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    let server = home.serve();
    for task in ["Сколько я потратил на такси в сентябре?", "taxi and food", "loop"] {
        server.run(task);
    }
    let headers = [
        ("content-type", "application/json"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ];
    let answer = server.request("POST", "/v1/sessions?wait=15s", &headers, &json!({"task": "taxi"}).to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    // The spans of a trace are its session's; that the caller's is linked shows in the journal too.
    assert_ne!(answer.json()["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    let metrics = server.get("/metrics").body;
    let finished = server.stop();
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    assert!(number(&answer.json(), "total_steps") == 2);
    (finished.out, evidence::journal(&home.data().join("glassbox.db")), metrics)
}
