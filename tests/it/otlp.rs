//! Spans leave the process once, or are counted once.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use glassbox::{
    core::{
        Entry, Fact, SessionId, SpanId, StreamId, Timestamp,
        fact::{SpanContent, SuspendCause},
        port::TraceContext,
    },
    machine::Prompt,
    signal::{
        otlp::{Compression, Config, Counts, OnAck, Pipeline, Protocol, SpanCounters, TailRule},
        spans::{Contents, context},
    },
};
use opentelemetry_proto::tonic::{common::v1::any_value, trace::v1::Span};
use prometheus::IntCounter;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::{
    collector::{Collector, Manner},
    semconv::{journal, session_facts},
};

const LONG: Duration = Duration::from_secs(20);

fn counters() -> SpanCounters {
    let counter = |name| IntCounter::new(name, name).unwrap();
    SpanCounters { acknowledged: counter("acknowledged"), failed: counter("failed"), dropped: counter("dropped") }
}

fn counted(counters: &SpanCounters) -> Counts {
    Counts { acknowledged: counters.acknowledged.get(), failed: counters.failed.get(), dropped: counters.dropped.get() }
}

fn config(collector: &Collector, protocol: Protocol) -> Config {
    let endpoint = match protocol {
        Protocol::Grpc => collector.grpc(),
        Protocol::HttpProtobuf => collector.http(),
    };
    Config { timeout: Duration::from_secs(5), ..Config::new(endpoint, protocol) }
}

/// Root spans of so many sessions.
fn publish(pipeline: &Pipeline, sessions: usize) {
    let mut sink = pipeline.sink();
    for n in 0..sessions {
        let mut bytes = [1; 16];
        bytes[8..].copy_from_slice(&(n as u64 + 1).to_be_bytes());
        let facts = session_facts(SessionId::from_bytes(bytes));
        let [first, .., last] = facts.as_slice() else { panic!("a session has two facts at least") };
        sink.publish(&entries(SessionId::from_bytes(bytes), vec![first.clone(), last.clone()]));
    }
}

fn entries(session: SessionId, facts: Vec<Fact>) -> Vec<Arc<Entry>> {
    let stream = StreamId::Session(session);
    let entry = |(place, fact)| {
        Arc::new(Entry { stream, seq: place, at: Timestamp::from_nanos(1_000_000 * (place + 1)), fact })
    };
    (0..).zip(facts).map(entry).collect()
}

async fn flush(pipeline: &Pipeline) -> bool {
    let pipeline = pipeline.clone();
    tokio::task::spawn_blocking(move || pipeline.flush(LONG)).await.unwrap()
}

async fn shutdown(pipeline: &Pipeline, timeout: Duration) -> Counts {
    let pipeline = pipeline.clone();
    let closing = tokio::task::spawn_blocking(move || pipeline.shutdown(timeout));
    tokio::time::timeout(LONG, closing).await.expect("shutdown is bounded").unwrap()
}

fn by_name<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span {name}"));
    assert!(found.next().is_none(), "{name} arrived twice");
    span
}

async fn a_session_arrives_once(protocol: Protocol) {
    let collector = Collector::start(Manner::Accept).await;
    let counters = counters();
    let acked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&acked);
    let on_ack: OnAck = Arc::new(move |ids| seen.lock().unwrap().extend_from_slice(ids));
    let mut config = config(&collector, protocol);
    config.headers = vec![("x-test".into(), "yes".into())];
    config.resource = vec![("deployment.environment.name".into(), "test".into())];
    let pipeline = Pipeline::start_with_ack(config, counters.clone(), Some(on_ack)).unwrap();
    let journal = journal();
    pipeline.sink().publish(&journal.iter().cloned().map(Arc::new).collect::<Vec<_>>());
    let counts = shutdown(&pipeline, LONG).await;

    let spans = collector.spans();
    assert_eq!(spans.len(), 3, "{counts:?}");
    let root = by_name(&spans, "invoke_agent bank");
    for name in ["chat claude-x", "execute_tool lookup"] {
        assert_eq!(by_name(&spans, name).parent_span_id, root.span_id);
        assert_eq!(by_name(&spans, name).trace_id, root.trace_id);
    }
    assert_eq!(root.trace_id, [7; 16]);
    assert!(root.parent_span_id.is_empty());
    assert_eq!(root.start_time_unix_nano, journal[0].at.as_nanos());
    assert_eq!(counts, Counts { acknowledged: 3, failed: 0, dropped: 0 });
    assert_eq!(counted(&counters), counts);
    assert_eq!(acked.lock().unwrap().len(), 3);
    assert_eq!(collector.headers(), ["yes"]);
    let resource = collector.resources().remove(0).resource.unwrap();
    let keys: Vec<_> = resource.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert!(keys.contains(&"service.name") && keys.contains(&"deployment.environment.name"), "{keys:?}");
}

/// A pipeline that shows what was said.
fn showing(collector: &Collector, mode: SpanContent, tail: Option<TailRule>) -> Pipeline {
    let prompt = Prompt::new("Be kind.", []);
    let contents = Contents { mode, prompts: Arc::new(move |_| Some(prompt.clone())) };
    let config = Config { contents: Some(contents), tail, ..config(collector, Protocol::Grpc) };
    Pipeline::start(config, counters()).unwrap()
}

#[tokio::test]
async fn content_arrives_whole_and_again_the_same_whoever_decides_on_the_trace() {
    let keep_all = TailRule { slow: Duration::MAX, share: 1.0 };
    let mut arrived = Vec::new();
    for tail in [None, Some(keep_all)] {
        let collector = Collector::start(Manner::Accept).await;
        let pipeline = showing(&collector, SpanContent::Full, tail);
        pipeline.sink().publish(&journal().into_iter().map(Arc::new).collect::<Vec<_>>());
        assert!(flush(&pipeline).await);
        arrived.push(collector.spans());
        // Another life of the process, which knows only the journal.
        let collector = Collector::start(Manner::Accept).await;
        let heir = showing(&collector, SpanContent::Full, tail);
        heir.restore(&journal());
        assert!(flush(&heir).await);
        arrived.push(collector.spans());
    }
    assert!(arrived.iter().all(|spans| *spans == arrived[0]), "{arrived:#?}");
    let text = |name: &str, key: &str| {
        let span = by_name(&arrived[0], name);
        let attribute = span.attributes.iter().find(|attribute| attribute.key == key);
        let value = attribute.and_then(|attribute| attribute.value.clone()?.value);
        let Some(any_value::Value::StringValue(text)) = value else { panic!("{name} has no {key}") };
        text
    };
    let task = r#"[{"role":"user","parts":[{"type":"text","content":"task"}]}]"#;
    let system = r#"[{"type":"text","content":"Be kind."}]"#;
    for name in ["invoke_agent bank", "chat claude-x"] {
        assert_eq!(text(name, "gen_ai.input.messages"), task);
        assert_eq!(text(name, "gen_ai.system_instructions"), system);
    }
    let call = r#"{"type":"tool_call","id":"call","name":"lookup","arguments":{}}"#;
    let reply = format!(r#"[{{"role":"assistant","parts":[{call}],"finish_reason":"tool_call"}}]"#);
    assert_eq!(text("chat claude-x", "gen_ai.output.messages"), reply);
    assert_eq!(text("execute_tool lookup", "gen_ai.tool.call.arguments"), "{}");
    assert_eq!(text("execute_tool lookup", "gen_ai.tool.call.result"), "5000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_arrives_once_by_grpc() {
    a_session_arrives_once(Protocol::Grpc).await;
}

/// One worker and no more: the pipeline must need nothing of the runtime that calls it.
#[tokio::test]
async fn a_session_arrives_once_by_http() {
    a_session_arrives_once(Protocol::HttpProtobuf).await;
}

#[tokio::test]
async fn gzip_arrives_by_grpc() {
    let collector = Collector::start(Manner::Accept).await;
    let config = Config { compression: Some(Compression::Gzip), ..config(&collector, Protocol::Grpc) };
    let pipeline = Pipeline::start(config, counters()).unwrap();
    publish(&pipeline, 5);
    assert!(flush(&pipeline).await);
    assert_eq!(collector.spans().len(), 5);
}

async fn a_collector_that_is_down_costs_spans_only(protocol: Protocol) {
    // A port that was free a moment ago: nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let counters = counters();
    let mut config = Config::new(format!("http://{free}"), protocol);
    config.queue_size = 100;
    config.timeout = Duration::from_millis(200);
    let pipeline = Pipeline::start(config, counters.clone()).unwrap();
    publish(&pipeline, 1000);
    let counts = shutdown(&pipeline, LONG).await;
    assert_eq!(counts.acknowledged, 0);
    assert_eq!(counts.failed + counts.dropped, 1000);
    assert!(counts.dropped > 0 && counts.failed > 0, "{counts:?}");
    assert_eq!(counted(&counters), counts);
    publish(&pipeline, 7);
    assert_eq!(pipeline.counts(), Counts { dropped: counts.dropped + 7, ..counts }, "too late is dropped");
    assert_eq!(shutdown(&pipeline, LONG).await, pipeline.counts(), "a second shutdown changes nothing");
}

#[tokio::test]
async fn a_collector_that_is_down_costs_spans_only_by_grpc() {
    a_collector_that_is_down_costs_spans_only(Protocol::Grpc).await;
}

#[tokio::test]
async fn a_collector_that_is_down_costs_spans_only_by_http() {
    a_collector_that_is_down_costs_spans_only(Protocol::HttpProtobuf).await;
}

#[tokio::test]
async fn a_full_queue_drops_exactly_what_finds_no_room() {
    let collector = Collector::start(Manner::Hang).await;
    let counters = counters();
    let config = Config {
        queue_size: 10,
        batch_size: 4,
        timeout: Duration::from_secs(60),
        schedule_delay: Duration::ZERO,
        ..config(&collector, Protocol::Grpc)
    };
    let pipeline = Pipeline::start(config, counters.clone()).unwrap();
    publish(&pipeline, 1);
    collector.requested().await;
    // One is in flight and stays there; ten find room, fifteen do not.
    publish(&pipeline, 25);
    assert_eq!(counted(&counters), Counts { acknowledged: 0, failed: 0, dropped: 15 });
    assert_eq!(pipeline.room(), 0);
    let counts = shutdown(&pipeline, Duration::from_millis(50)).await;
    assert_eq!(counts, Counts { acknowledged: 0, failed: 1, dropped: 25 });
    assert_eq!(counted(&counters), counts);
}

#[tokio::test]
async fn bytes_bound_the_queue_too() {
    let collector = Collector::start(Manner::Hang).await;
    let config = Config { queue_bytes: 5_000, timeout: LONG, ..config(&collector, Protocol::Grpc) };
    let pipeline = Pipeline::start(config, counters()).unwrap();
    publish(&pipeline, 100);
    let dropped = pipeline.counts().dropped;
    assert!((80..100).contains(&dropped), "a root span weighs some hundred bytes: {dropped} dropped");
    shutdown(&pipeline, Duration::ZERO).await;
}

async fn a_refusing_collector_is_believed(protocol: Protocol) {
    let collector = Collector::start(Manner::Refuse).await;
    let counters = counters();
    let config = Config { timeout: Duration::from_millis(150), ..config(&collector, protocol) };
    let pipeline = Pipeline::start(config, counters.clone()).unwrap();
    publish(&pipeline, 3);
    assert!(flush(&pipeline).await);
    assert_eq!(counted(&counters), Counts { acknowledged: 0, failed: 3, dropped: 0 });
    collector.behave(Manner::Accept);
    publish(&pipeline, 2);
    assert!(flush(&pipeline).await);
    assert_eq!(counted(&counters), Counts { acknowledged: 2, failed: 3, dropped: 0 });
}

#[tokio::test]
async fn a_refusing_collector_is_believed_by_grpc() {
    a_refusing_collector_is_believed(Protocol::Grpc).await;
}

#[tokio::test]
async fn a_refusing_collector_is_believed_by_http() {
    a_refusing_collector_is_believed(Protocol::HttpProtobuf).await;
}

async fn rejected_spans_are_failed_spans(protocol: Protocol) {
    let collector = Collector::start(Manner::Reject(2)).await;
    let counters = counters();
    let pipeline = Pipeline::start(config(&collector, protocol), counters.clone()).unwrap();
    publish(&pipeline, 5);
    assert!(flush(&pipeline).await);
    let batches = collector.requests() as u64;
    assert_eq!(counted(&counters), Counts { acknowledged: 5 - 2 * batches, failed: 2 * batches, dropped: 0 });
}

#[tokio::test]
async fn rejected_spans_are_failed_spans_by_grpc() {
    rejected_spans_are_failed_spans(Protocol::Grpc).await;
}

#[tokio::test]
async fn rejected_spans_are_failed_spans_by_http() {
    rejected_spans_are_failed_spans(Protocol::HttpProtobuf).await;
}

#[tokio::test]
async fn a_panic_of_whoever_hears_of_spans_does_not_end_the_way_out() {
    let collector = Collector::start(Manner::Accept).await;
    let on_ack: OnAck = Arc::new(|_| panic!("the listener's own fault"));
    let pipeline = Pipeline::start_with_ack(config(&collector, Protocol::Grpc), counters(), Some(on_ack)).unwrap();
    for _ in 0..2 {
        publish(&pipeline, 1);
        assert!(flush(&pipeline).await);
    }
    assert_eq!(pipeline.counts().acknowledged, 2);
}

#[tokio::test]
async fn spans_of_tracing_join_the_context_that_they_are_opened_in() {
    let collector = Collector::start(Manner::Accept).await;
    let pipeline = Pipeline::start(config(&collector, Protocol::Grpc), counters()).unwrap();
    let trace_id = SessionId::from_bytes([7; 16]).trace_id();
    let inside = |sampled| context(&TraceContext { trace_id, span_id: SpanId::from_bytes([5; 8]), sampled });
    tracing::subscriber::with_default(tracing_subscriber::registry().with(pipeline.layer()), || {
        let _attached = inside(true).attach();
        let outer = tracing::info_span!("query", rows = 3_i64, text = "x".repeat(5000)).entered();
        tracing::info_span!(target: "hyper::client", "internal").in_scope(|| ());
        tracing::info!(target: "opentelemetry_sdk", "internal");
        tracing::info!("own");
        tracing::info_span!("fetch").in_scope(|| ());
        drop(outer);
        drop(_attached);
        tracing::info_span!("outside of a session").in_scope(|| ());
        let _unsampled = inside(false).attach();
        tracing::info_span!("unsampled").in_scope(|| ());
    });
    shutdown(&pipeline, LONG).await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 2, "{:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    let (query, fetch) = (by_name(&spans, "query"), by_name(&spans, "fetch"));
    assert_eq!((query.trace_id.as_slice(), query.parent_span_id.as_slice()), ([7; 16].as_slice(), [5; 8].as_slice()));
    assert_eq!((&fetch.trace_id, &fetch.parent_span_id), (&query.trace_id, &query.span_id));
    assert_eq!(query.events.len(), 1, "the event of the tool itself");
    let keys: Vec<_> = query.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!(keys, ["rows", "text"]);
    assert!(format!("{:?}", query.attributes[1]).len() < 2000, "strings are capped");
}

#[tokio::test]
async fn a_session_that_waited_here_sends_nothing_twice() {
    let collector = Collector::start(Manner::Accept).await;
    let pipeline = Pipeline::start(config(&collector, Protocol::Grpc), counters()).unwrap();
    let mut facts: Vec<_> = journal().into_iter().map(|entry| entry.fact).collect();
    let waits = facts.len() - 1;
    facts.insert(waits, Fact::SessionSuspended { cause: SuspendCause::Confirmation });
    facts.insert(waits + 1, Fact::SessionResumed { process: "proc_1".into() });
    let stream = journal()[0].stream;
    let at = |seq| Timestamp::from_nanos((seq + 1) * 1_000_000);
    let journal: Vec<_> = (0..).zip(facts).map(|(seq, fact)| Entry { stream, seq, at: at(seq), fact }).collect();
    let (before, after) = journal.split_at(waits + 1);
    let publish = |entries: &[Entry]| {
        pipeline.sink().publish(&entries.iter().cloned().map(Arc::new).collect::<Vec<_>>());
    };
    publish(before);
    pipeline.forget(stream.session().unwrap());
    pipeline.restore(before);
    publish(after);
    shutdown(&pipeline, LONG).await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 3, "each once: {:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    let root = by_name(&spans, "invoke_agent bank");
    assert_eq!(root.events.len(), 2, "suspended and resumed are on the root");
}

#[tokio::test]
async fn a_session_taken_over_goes_on_where_it_was() {
    let collector = Collector::start(Manner::Accept).await;
    let pipeline = Pipeline::start(config(&collector, Protocol::Grpc), counters()).unwrap();
    let journal = journal();
    let (before, after) = journal.split_at(journal.len() - 1);
    pipeline.restore(before);
    pipeline.sink().publish(&after.iter().cloned().map(Arc::new).collect::<Vec<_>>());
    shutdown(&pipeline, LONG).await;
    let names: Vec<_> = collector.spans().into_iter().map(|span| span.name).collect();
    assert_eq!(names.len(), 3, "the two calls once more, and the root: {names:?}");
    assert_eq!(names[2], "invoke_agent bank");
    let session = after[0].stream.session().expect("a session's journal");
    assert_eq!(pipeline.take_delivered(), [session], "it has ended and all of it arrived");
}
