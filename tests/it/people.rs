//! Nothing of people leaves the process: fifty planted secrets and identifiers go through sessions
//! of every sort, and are looked for, byte by byte, in all that went out.
//!
//! The sessions run in a process of their own, whose standard error is its diagnostics and whose
//! tools log, fail and panic with what they were given.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod served;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use glassbox::{
    Config, Fault, FnTool, Runtime,
    config::Sources,
    core::{Effect, FaultKind, Principal, StreamId, ToolSpec, port::ToolReply},
    runtime::{Setup, Task},
    session::Say,
    signal::metrics::Format,
};
use prost::Message as _;
use serde_json::{Value, json};

use crate::collector::{Collector, Manner};

/// The test that is the life of the process; set where it is it, to the collector's address.
const LIFE: &str = "people::life_of_the_process_that_is_searched";
const COLLECTOR: &str = "GLASSBOX_TEST_PEOPLE_COLLECTOR";
const FOLDER: &str = "GLASSBOX_TEST_PEOPLE_FOLDER";
const CONTENT: &str = "GLASSBOX_TEST_PEOPLE_CONTENT";
const GRACE: Duration = Duration::from_secs(20);

/// What is known by its shape, so that the redactor finds it in what others log, too.
const SHAPED: [&str; 35] = [
    "+7 701 123 45 67",
    "8 (702) 234-56-78",
    "87033456789",
    "+44 20 7946 0958",
    "(415) 555-2671",
    "+77074567890",
    "ivan.petrov+bank@mail.example.kz",
    "a.serikbayeva@example.com",
    "иван@пример.рф",
    "support-77@bank.example",
    "x_y@sub.domain.example.org",
    "4111 1111 1111 1111",
    "5500000000000004",
    "3782-822463-10005",
    "4012888888881881",
    "KZ86 125K ZT50 0410 0100",
    "DE89370400440532013000",
    "GB82WEST12345698765432",
    "900101300017",
    "900101300811",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI3NzAxIn0.c2lnbmF0dXJl",
    "eyJhbGciOiJSUzI1NiJ9.eyJuYW1lIjoiSXZhbiJ9.YW5vdGhlcnNpZw",
    "Bearer planted0123456789token",
    "bearer Zm9vYmFyYmF6cXV4cGxhbnRlZA==",
    "Basic cGxhbnRlZDpwYXNzd29yZA==",
    "sk-ant-api03-plantedplantedplanted",
    "sk-proj-abcdefghijklmnop0123",
    "ghp_PlantedPlantedPlanted012345",
    "glpat-planted_0123456789ab",
    "xoxb-1234567890-plantedplanted",
    "hf_plantedplantedplanted",
    "npm_plantedPlanted0123456",
    "AKIAPLANTED0EXAMPLE1",
    "AIzaPlanted0123456789abcdefghijklmnopqr",
    "password=planted-hunter2",
];
/// What only its place says: none of it may come to where text of others is shown.
const UNSHAPED: [&str; 15] = [
    "user-zhanar-7788",
    "customer-zhanar-9911",
    "Zhanar Akhmetova",
    "planted-metadata-value",
    "planted task words",
    "напомни про развод",
    "planted argument words",
    "Абая 150, квартира 7",
    "planted result words",
    "диагноз J45.0",
    "planted error words",
    "planted answer words",
    "planted comment words",
    "person-who-decided-31",
    "planted prompt words",
];

fn all() -> String {
    SHAPED.into_iter().chain(UNSHAPED).collect::<Vec<_>>().join(" | ")
}

fn shaped() -> String {
    SHAPED.join(" | ")
}

/// The agents' one model: the task says which tool is called, with everything as its argument.
fn script() -> String {
    let rule = |name: &str| json!({"when": {"step": 1, "task_matches": format!("^{name}:")}, "calls": [{"tool": name, "arguments": {"q": all()}, "id": "+77012223344"}]});
    let mut rules: Vec<Value> = ["tell", "fail", "bomb", "log", "ask"].map(rule).into();
    rules.push(json!({"when": {"step": 1, "task_matches": "^invent:"}, "calls": [
        {"tool": "mail a.serikbayeva@example.com", "arguments": {"q": all()}},
        {"tool": "tell", "raw": format!("{{\"q\": \"{}\"", all())},
        {"tool": "tell", "arguments": {"q": all(), "also": all()}}]}));
    rules.push(json!({"when": {"task_matches": "^break:"}, "fault": {"kind": "server", "detail": all()}}));
    rules.push(json!({"text": all()}));
    json!({"name": "people", "rules": rules}).to_string()
}

fn config(folder: &Path) -> Config {
    let text = json!({
        "agents": {"one": {"system_prompt": all(), "model": "one", "language": "en", "task_types": ["other"], "limits": {"token_budget": 5_000_000}}},
        "models": {"one": {"provider": "scripted", "script": "people.yaml", "context_window": 1_000_000}},
        "llm_retry_policy": {"max_attempts": 2, "initial_delay_ms": 1},
        "privacy": {"span_content": std::env::var(CONTENT).unwrap()},
        "telemetry": {"log": "trace", "events": folder.join("events.jsonl"), "otlp": {"endpoint": std::env::var(COLLECTOR).unwrap(), "protocol": "grpc", "compression": "gzip"}},
    });
    fs::write(folder.join("people.yaml"), script()).unwrap();
    let file = folder.join("glassbox.yaml");
    fs::write(&file, text.to_string()).unwrap();
    Config::load(&Sources { file: Some(file), env: BTreeMap::new() }).unwrap()
}

type Pending = std::pin::Pin<Box<dyn Future<Output = Result<ToolReply, Fault>> + Send>>;

fn tool(name: &'static str, run: fn() -> Result<ToolReply, Fault>) -> impl glassbox::core::Tool {
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false});
    let mut spec = ToolSpec::new(name, "Does it.", schema).effect(Effect::Read);
    if name == "ask" {
        spec = spec.confirm(glassbox::core::spec::Confirm::Suspend);
    }
    FnTool::new(spec, move |_, _| Box::pin(async move { run() }) as Pending)
}

/// As a library would: a span with fields, an event in it, a warning outside.
fn log() -> Result<ToolReply, Fault> {
    let text = shaped();
    let span = tracing::info_span!(target: "library", "fetch", url = %text, phone = 87_033_456_789_i64);
    span.in_scope(|| tracing::info!(target: "library", body = %text, "received {text}"));
    tracing::warn!(target: "library", "trying again: {text}");
    Ok(ToolReply::Text(all()))
}

fn setup(folder: &Path) -> Setup {
    Setup::serve(folder)
        .with_tool(["one"], tool("tell", || Ok(ToolReply::Text(all()))))
        .with_tool(["one"], tool("fail", || Err(Fault::new(FaultKind::Server, all()))))
        .with_tool(["one"], tool("bomb", || panic!("{}", shaped())))
        .with_tool(["one"], tool("log", log))
        .with_tool(["one"], tool("ask", || Ok(ToolReply::Text(all()))))
}

fn task(word: &str) -> Task {
    let attributes = [("customer_id", "customer-zhanar-9911"), ("name", "Zhanar Akhmetova")];
    let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let principal =
        Principal { id: "user-zhanar-7788".into(), scopes: Vec::new(), roles: vec!["user".into()], attributes };
    let mut task = Task::new(format!("{word}: {}", all()), principal);
    task.conversation_id = Some(format!("{word} +7 701 123 45 67"));
    task.metadata.insert("note".into(), all().into());
    task
}

/// The whole life of the process; in the test run itself it does nothing.
#[test]
fn life_of_the_process_that_is_searched() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let runtime = Runtime::start(&config(&folder), setup(&folder)).unwrap();
        runtime.diagnostics().install();
        for word in ["tell", "fail", "bomb", "log", "invent", "break"] {
            let mut handle = runtime.open(task(word)).await.unwrap();
            tokio::time::timeout(GRACE, handle.ended()).await.unwrap().unwrap();
        }
        decide(&runtime).await;
        let pages = [Format::Prometheus, Format::OpenMetrics].map(|format| runtime.metrics().render_as(format));
        fs::write(folder.join("metrics"), pages.concat()).unwrap();
        assert_eq!(runtime.stop(GRACE).await.unwrap(), 0);
    });
}

/// A call that waits for a person, and somebody who says no in many words.
async fn decide(runtime: &Runtime) {
    let mut handle = runtime.open(task("ask")).await.unwrap();
    tokio::time::timeout(GRACE, handle.ended()).await.unwrap().unwrap();
    let say = Say {
        call_id: "+77012223344".into(),
        approve: false,
        by: "person-who-decided-31".into(),
        comment: Some(all().into()),
        arguments_hash: None,
    };
    runtime.decide(handle.id(), say).await.unwrap();
    let mut handle = runtime.find(handle.id()).expect("it goes on");
    tokio::time::timeout(GRACE, handle.ended()).await.unwrap().unwrap();
}

/// Where one of these secrets stands in what went out, with what stands before it.
fn found_of(secrets: &[&str], place: &str, bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut told = Vec::new();
    for secret in secrets {
        if let Some(at) = text.find(secret) {
            let before = &text[text.floor_char_boundary(at.saturating_sub(160))..at];
            told.push(format!("{place}: {secret:?} after {before:?}"));
        }
    }
    told
}

/// The same of any of them.
fn found(place: &str, bytes: &[u8]) -> Vec<String> {
    [SHAPED.as_slice(), &UNSHAPED].into_iter().flat_map(|secrets| found_of(secrets, place, bytes)).collect()
}

/// What went out of a process that lived.
struct Left {
    spans: Vec<u8>,
    lines: Vec<u8>,
    metrics: Vec<u8>,
    diagnostics: Vec<u8>,
    output: Vec<u8>,
}

/// Lets the process live in this folder, with spans that show so much.
async fn live(folder: &Path, content: &str) -> Left {
    let collector = Collector::start(Manner::Accept).await;
    let mut life = Command::new(std::env::current_exe().unwrap());
    life.args([LIFE, "--exact", "--nocapture", "--test-threads", "1"]);
    life.env(FOLDER, folder).env(COLLECTOR, collector.grpc()).env(CONTENT, content);
    let output = tokio::task::spawn_blocking(move || life.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    Left {
        spans: collector.resources().iter().flat_map(|resource| resource.encode_to_vec()).collect(),
        lines: read("events.jsonl"),
        metrics: read("metrics"),
        diagnostics: output.stderr,
        output: output.stdout,
    }
}

impl Left {
    /// What leaked in all that went out but spans.
    fn leaks_beside_spans(&self) -> Vec<String> {
        let places = [
            ("lines", &self.lines),
            ("metrics", &self.metrics),
            ("diagnostics", &self.diagnostics),
            ("output", &self.output),
        ];
        places.into_iter().flat_map(|(place, bytes)| found(place, bytes)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_people_leaves_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let left = live(folder.path(), "off").await;
    let mut leaks = left.leaks_beside_spans();
    leaks.extend(found("spans", &left.spans));
    assert!(leaks.is_empty(), "{} places: {leaks:#?}", leaks.len());

    // There was something to find: all of it went through the sessions, and out under marks.
    let store = glassbox::store::sqlite::Store::open(&folder.path().join("glassbox.db"), Default::default()).unwrap();
    let sessions = glassbox::core::Store::sessions(&store, &Default::default()).unwrap();
    assert_eq!(sessions.len(), 7);
    let journals: String = sessions
        .iter()
        .flat_map(|row| glassbox::core::Store::load(&store, StreamId::Session(row.id)).unwrap())
        .map(|entry| serde_json::to_string(&entry.fact).unwrap())
        .collect();
    let lost: Vec<_> = SHAPED.iter().chain(&UNSHAPED).filter(|secret| !journals.contains(**secret)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let Left { spans, lines, metrics, diagnostics, .. } = &left;
    for (bytes, words) in [
        (spans, ["fetch", "[phone]", "[card]", "[email]", "[iban]", "[iin]", "[jwt]", "[key]", "await_confirmation"]),
        (
            diagnostics,
            ["a thread panicked", "[phone]", "[card]", "[email]", "[iban]", "[iin]", "[jwt]", "[key]", "trying again"],
        ),
    ] {
        let text = String::from_utf8_lossy(bytes);
        for word in words {
            assert!(text.contains(word), "{word}");
        }
    }
    let lines = String::from_utf8_lossy(lines);
    for word in ["\"bomb\"", "\"unknown_tool\"", "\"invalid_arguments\"", "confirmation_decided", "model_retry"] {
        assert!(lines.contains(word), "{word}: {lines}");
    }
    assert!(
        String::from_utf8_lossy(metrics).contains("glassbox_tool_calls_total{outcome=\"rejected\",tool=\"ask\"} 1")
    );
}

/// Masked content: what the redactor knows by its shape leaves in no span, wherever it stood; what
/// only its place says does, as the documents tell. Nothing else shows more than before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masked_content_shows_no_secret_that_has_a_shape() {
    let folder = tempfile::tempdir().unwrap();
    let left = live(folder.path(), "masked").await;
    let mut leaks = left.leaks_beside_spans();
    leaks.extend(found_of(&SHAPED, "spans", &left.spans));
    assert!(leaks.is_empty(), "{} places: {leaks:#?}", leaks.len());
    let spans = String::from_utf8_lossy(&left.spans);
    for word in ["gen_ai.input.messages", "tell: [phone] | [phone]", "planted prompt words", "planted result words"] {
        assert!(spans.contains(word), "{word}");
    }
}

/// Full content: the task, the prompt, arguments and results as they are, byte for byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_content_shows_all_as_it_is_and_in_spans_alone() {
    let folder = tempfile::tempdir().unwrap();
    let left = live(folder.path(), "full").await;
    let leaks = left.leaks_beside_spans();
    assert!(leaks.is_empty(), "{} places: {leaks:#?}", leaks.len());
    let spans = String::from_utf8_lossy(&left.spans);
    let message = |role: &str, text: String| {
        format!("{{\"role\":\"{role}\",\"parts\":[{{\"type\":\"text\",\"content\":\"{text}\"}}]")
    };
    for text in [
        message("user", format!("tell: {}", all())),
        message("assistant", all()),
        format!("[{{\"type\":\"text\",\"content\":\"{}\"}}]", all()),
        format!("{{\"q\":\"{}\"}}", all()),
        format!("\"type\":\"tool_call_response\",\"id\":\"+77012223344\",\"response\":\"{}\"", all()),
    ] {
        assert!(spans.contains(&text), "{text}");
    }
}
