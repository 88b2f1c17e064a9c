//! Telemetry under pressure: a collector that never answers, thousands of users, invented names.
//! Sessions go on as if nothing were, what is lost is counted, and nothing grows without end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use glassbox::{
    Config, Runtime,
    config::Sources,
    core::{Entry, Fact, SessionId, StreamId, Timestamp, ToolOutcome},
    runtime::{Setup, Task},
    signal::{MetricLabels, Metrics},
};
use serde_json::json;

use crate::{
    collector::{Collector, Manner},
    semconv::session_facts,
};

const GRACE: Duration = Duration::from_secs(20);

/// A runtime whose exporter has little room and little patience.
fn runtime(folder: &Path, collector: &Collector, queue: usize) -> Runtime {
    let script = "name: sums
rules:
  - {when: {step: 1}, call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}}
  - {text: Done.}
";
    fs::write(folder.join("sums.yaml"), script).unwrap();
    let otlp = json!({"endpoint": collector.grpc(), "protocol": "grpc", "timeout": "200ms", "queue_size": queue, "batch_size": 8});
    let config = json!({
        "agents": {"bank": {"system_prompt": "Help.", "model": "sums", "language": "en", "tools": ["txn_sum"], "task_types": ["other"], "limits": {"token_budget": 50_000}}},
        "models": {"sums": {"provider": "scripted", "script": "sums.yaml"}},
        "tools": {"txn_sum": {"builtin": "txn_sum"}},
        "rate_limits": {"sessions_per_user_per_hour": "unlimited"},
        "store": {"kind": "memory"},
        "telemetry": {"events": "none", "otlp": otlp},
    });
    let file = folder.join("glassbox.yaml");
    fs::write(&file, config.to_string()).unwrap();
    let config = Config::load(&Sources { file: Some(file), env: BTreeMap::new() }).unwrap();
    Runtime::start(&config, Setup::serve(folder)).unwrap()
}

fn value(page: &str, series: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series}: {page}")).parse().unwrap()
}

/// Runs sessions one after the other; gives how many of their spans arrived and were lost.
async fn sessions(collector: &Collector, count: usize, queue: usize) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path(), collector, queue);
    for _ in 0..count {
        let attributes = [("customer_id".to_owned(), "C-001".to_owned())].into();
        let principal = glassbox::core::Principal { id: "C-001".into(), scopes: vec![], roles: vec![], attributes };
        let mut handle = runtime.open(Task::new("How much?", principal)).await.unwrap();
        tokio::time::timeout(GRACE, handle.ended()).await.expect("it does not wait for the collector").unwrap();
    }
    // Telemetry is the last to stop, and does not hold up the stop for ever.
    let stopped = tokio::time::timeout(GRACE, runtime.stop(GRACE)).await.expect("a stop is bounded");
    assert_eq!(stopped.unwrap(), 0);
    let page = runtime.metrics().render();
    let done = r#"glassbox_sessions_total{agent="bank",status="done",task_type="other"}"#;
    assert_eq!(value(&page, done), count as u64);
    let lost = value(&page, r#"glassbox_telemetry_dropped_total{sink="otlp"}"#);
    (value(&page, "glassbox_spans_acknowledged_total"), lost)
}

/// One worker and no more: whoever exports must need nothing of it.
#[tokio::test]
async fn a_collector_that_never_answers_delays_no_session_and_every_lost_span_is_counted() {
    let collector = Collector::start(Manner::Hang).await;
    // Two calls of the model, one of the tool with a span of its own inside, and the root.
    let (arrived, lost) = sessions(&collector, 25, 16).await;
    assert_eq!((arrived, lost), (0, 25 * 4));
}

#[tokio::test]
async fn a_collector_that_takes_a_part_of_each_batch_leaves_the_rest_counted() {
    let collector = Collector::start(Manner::Reject(1)).await;
    let (arrived, lost) = sessions(&collector, 25, 2048).await;
    assert_eq!(lost, collector.requests() as u64, "one of each request");
    assert_eq!(arrived + lost, 25 * 4);
}

#[tokio::test]
async fn nothing_is_lost_at_a_collector_that_answers() {
    let collector = Collector::start(Manner::Accept).await;
    assert_eq!(sessions(&collector, 25, 2048).await, (100, 0));
    assert_eq!(collector.spans().len(), 100);
}

/// A journal of somebody whose model invented a tool.
fn invented(number: u64) -> Vec<Arc<Entry>> {
    let mut bytes = [9; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    let session = SessionId::from_bytes(bytes);
    let mut facts = session_facts(session);
    for fact in &mut facts {
        match fact {
            Fact::SessionStarted(started) => {
                started.principal.id = format!("user-{number}");
                started.conversation_id = Some(format!("conversation-{number}"));
            }
            Fact::ToolCallStarted { call, .. } => {
                call.tool = format!("invented_{}", number % 5000);
                call.known = false;
            }
            Fact::ToolCallFinished { end, .. } => end.outcome = ToolOutcome::UnknownTool,
            _ => {}
        }
    }
    let stream = StreamId::Session(session);
    let at = |seq| Timestamp::from_nanos((seq + 1) * 1_000_000);
    (0..).zip(facts).map(|(seq, fact)| Arc::new(Entry { stream, seq, at: at(seq), fact })).collect()
}

#[test]
fn ten_thousand_users_and_five_thousand_invented_tools_make_no_new_series() {
    let labels = MetricLabels {
        agents: vec![("bank".into(), vec!["spending".into()])],
        models: vec![("main".into(), "anthropic".into(), "claude-x".into())],
        tools: vec!["lookup".into()],
        ..MetricLabels::default()
    };
    let metrics = Metrics::new(&labels).unwrap();
    let series = || metrics.render().lines().filter(|line| !line.starts_with('#')).count();
    let mut sink = metrics.sink();
    sink.publish(&invented(0));
    let before = series();
    for number in 1..10_000 {
        sink.publish(&invented(number));
    }
    assert_eq!(series(), before);
    let page = metrics.render();
    assert_eq!(value(&page, r#"glassbox_tool_calls_total{outcome="unknown_tool",tool="unknown"}"#), 10_000);
    assert_eq!(value(&page, r#"glassbox_sessions_total{agent="bank",status="done",task_type="spending"}"#), 10_000);
    assert!(!page.contains("user-") && !page.contains("invented_") && !page.contains("conversation-"));
}
