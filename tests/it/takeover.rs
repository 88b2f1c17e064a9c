//! Sessions outlive their processes: killed, stopped, on one data folder with others.

use serde_json::Value;

use crate::{
    collector::{Collector, Manner},
    process::{Home, Server},
};

/// The answer takes long enough for a process to be ended before it, and a lease is short.
const CONFIG: &str = "
agents:
  bank: {system_prompt: Hello., model: slow, language: ru, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
models:
  slow: {provider: scripted, script: slow.yaml}
tools:
  txn_sum: {builtin: txn_sum, scopes: [spending:read]}
auth:
  default_principal: {id: C-001, scopes: [spending:read]}
server:
  lease: 1s
";
const SCRIPT: &str = "
name: slow
rules:
  - when: {step: 1}
    call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}
  - delay: 1500ms
    text: \"{{ result.total_kzt }}\"
";

fn home(endpoint: &str) -> Home {
    let home = Home::configured(CONFIG).variable("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    home.write("slow.yaml", SCRIPT);
    home
}

/// Begins a session and waits until its second model call is under way.
fn begin(server: &Server<'_>) -> String {
    let id = server.begin("how much");
    let calls = |body: &str| body.matches("model_call_started").count();
    server.get_until(&format!("/v1/sessions/{id}/journal"), |answer| calls(&answer.body) == 2);
    id
}

fn await_end(server: &Server<'_>, id: &str) -> Value {
    server.get_until(&format!("/v1/sessions/{id}"), |answer| answer.body.contains("\"status\":\"done\"")).json()
}

fn fact_names(server: &Server<'_>, id: &str) -> Vec<String> {
    let journal = server.get(&format!("/v1/sessions/{id}/journal")).json();
    let names = journal["facts"].as_array().expect("facts").iter();
    names.map(|entry| entry["fact"].as_object().expect("a fact").keys().next().expect("a name").clone()).collect()
}

fn count(names: &[String], wanted: &str) -> usize {
    names.iter().filter(|name| *name == wanted).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_takes_over_what_a_killed_one_left() {
    let collector = Collector::start(Manner::Accept).await;
    let home = home(&collector.http());
    let (first, second) = (home.serve(), home.serve());
    let id = begin(&first);
    assert_eq!(count(&fact_names(&second, &id), "session_resumed"), 0, "a session has one owner");
    first.process.signal("KILL");
    let report = await_end(&second, &id);
    assert_eq!(report["answer"], "5000");
    assert_eq!(report["trace_id"], id.trim_start_matches("sess_"), "the same trace");

    let names = fact_names(&second, &id);
    assert_eq!(count(&names, "session_resumed"), 1);
    assert_eq!(count(&names, "session_finished"), 1);
    assert_eq!(count(&names, "tool_call_started"), 1, "the result that was durable is kept");
    let scrape = second.get("/metrics").body;
    let done = "glassbox_sessions_total{agent=\"bank\",status=\"done\",task_type=\"other\"} 1";
    assert!(scrape.contains(done), "{scrape}");
    second.stop();

    // Whatever the first had sent before it died was sent again, identical.
    let mut spans: Vec<_> = collector.spans().into_iter().map(|span| format!("{span:?}")).collect();
    spans.sort_unstable();
    spans.dedup();
    let names = |prefix: &str| spans.iter().filter(|span| span.contains(&format!("name: \"{prefix}"))).count();
    assert_eq!(names("invoke_agent"), 1);
    assert_eq!(names("chat"), 3, "one answered, one lost, one answered again");
    assert_eq!(names("execute_tool"), 1);
    let trace: Vec<u8> = collector.spans()[0].trace_id.clone();
    assert!(collector.spans().iter().all(|span| span.trace_id == trace), "one trace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_service_goes_on_after_its_restart() {
    let collector = Collector::start(Manner::Accept).await;
    // So short a grace that the model call is cut off, and the next process closes it as lost.
    let home = home(&collector.http()).variable("GLASSBOX__SERVER__GRACE_PERIOD", "1s");
    let first = home.serve();
    let id = begin(&first);
    first.process.signal("TERM");
    assert_eq!(first.process.end().code, Some(0));
    let second = home.serve();
    let report = await_end(&second, &id);
    assert_eq!((&report["answer"], &report["status"]), (&"5000".into(), &"done".into()));
    assert_eq!(count(&fact_names(&second, &id), "session_finished"), 1);
    second.stop();
    let roots = collector.spans().into_iter().filter(|span| span.name.starts_with("invoke_agent")).count();
    assert_eq!(roots, 1, "the root is exported by whoever ends the session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_left_is_resumed_by_hand() {
    let collector = Collector::start(Manner::Accept).await;
    let home = home(&collector.http()).variable("GLASSBOX__SERVER__GRACE_PERIOD", "1s");
    let server = home.serve();
    let id = begin(&server);
    server.process.signal("TERM");
    assert_eq!(server.process.end().code, Some(0));
    let resumed = home.run(&["session", "resume", &id]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(resumed.out.lines().last(), Some("5000"));
    let again = home.run(&["session", "resume", &id]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains(&format!("{id} has ended")), "{}", again.err);
    let nothing = home.run(&["session", "resume"]);
    assert_eq!((nothing.code, nothing.out.trim()), (Some(0), "no session waits to be resumed"));
}
