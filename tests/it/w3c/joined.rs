//! A trusted caller's trace is joined, whatever processes the session goes through; nobody else's is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};

use crate::{
    auth::{ask, bank, key},
    collector::{Collector, Manner},
    process::{Home, Server},
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
/// Of a span whose parent is in another process, as OTLP tells it.
const PARENT_IS_REMOTE: u32 = 0x300;

/// The sessions of the test: two of the trusted caller in one trace, one that it does not record,
/// one of somebody else.
struct Sessions {
    waits: String,
    short: String,
    unsampled: String,
    foreign: String,
}

fn begin(server: &Server<'_>, who: &str, task: &str, flags: &str) -> String {
    let bearer = format!("Bearer {}", key(who));
    let parent = format!("00-{TRACE}-{CALLER}-{flags}");
    let headers = [("content-type", "application/json"), ("authorization", &bearer), ("traceparent", &parent)];
    let answer = server.request("POST", "/v1/sessions?wait=15s", &headers, &json!({"task": task}).to_string());
    assert!([200, 202].contains(&answer.status), "{answer:?}");
    answer.json()["session_id"].as_str().unwrap().to_owned()
}

fn report(server: &Server<'_>, id: &str) -> Value {
    ask(server, Some("operator"), "GET", &format!("/v1/sessions/{id}"), "").json()
}

/// What the journal says of the session's trace.
fn trace(server: &Server<'_>, id: &str) -> Value {
    let journal = ask(server, Some("operator"), "GET", &format!("/v1/sessions/{id}/journal"), "").json();
    journal["facts"][0]["fact"]["session_started"]["trace"].clone()
}

/// Two lives of the service: in the second one the call is approved that waits in the first.
fn lives(home: &Home) -> Sessions {
    let first = home.serve();
    let sessions = Sessions {
        waits: begin(&first, "approver", "Заблокируй мою карту", "01"),
        short: begin(&first, "approver", "hi", "01"),
        unsampled: begin(&first, "approver", "hi", "00"),
        foreign: begin(&first, "other", "hi", "01"),
    };
    assert_eq!(report(&first, &sessions.waits)["status"], "awaiting_confirmation");
    for (id, sampled) in [(&sessions.waits, true), (&sessions.short, true), (&sessions.unsampled, false)] {
        let kept = trace(&first, id);
        let told = [&kept["trace_id"], &kept["parent"], &kept["sampled"], &kept["link"]];
        assert_eq!(told, [&json!(TRACE), &json!(CALLER), &json!(sampled), &Value::Null], "{kept}");
        assert_eq!(report(&first, id)["trace_id"], TRACE);
    }
    let own = sessions.foreign.trim_start_matches("sess_");
    let kept = trace(&first, &sessions.foreign);
    let link = json!({"trace_id": TRACE, "span_id": CALLER});
    assert_eq!((&kept["trace_id"], &kept["parent"], &kept["link"]), (&json!(own), &Value::Null, &link), "{kept}");
    assert_eq!(first.stop().code, Some(0));

    let second = home.serve();
    let path = format!("/v1/sessions/{}/confirmations/call_1_1", sessions.waits);
    let answer = ask(&second, Some("approver"), "POST", &path, &json!({"decision": "approve"}).to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    second.get_until("/healthz", |_| report(&second, &sessions.waits)["status"] == "done");
    assert_eq!(second.stop().code, Some(0));
    sessions
}

/// Spans of the caller's trace, each once, by id.
fn joined(spans: Vec<Span>) -> BTreeMap<String, Span> {
    spans.into_iter().filter(|span| hex(&span.trace_id) == TRACE).map(|span| (hex(&span.span_id), span)).collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_session(span: &Span) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == "glassbox.session.id")?;
    match found.value.as_ref()?.value.as_ref()? {
        opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue(text) => Some(text.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trusted_callers_trace_is_joined_and_kept_by_later_processes() {
    let collector = Collector::start(Manner::Accept).await;
    let endpoint = collector.http();
    let (sessions, lines) = tokio::task::spawn_blocking(move || {
        let home = bank("  join_traces: [staff-1]\n")
            .variable("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .variable("GLASSBOX__TELEMETRY__EVENTS", "events.jsonl");
        let sessions = lives(&home);
        (sessions, std::fs::read_to_string(home.path("events.jsonl")).unwrap())
    })
    .await
    .unwrap();

    let spans = collector.spans();
    let is_root = |span: &&Span| span.name.starts_with("invoke_agent");
    let foreign = spans.iter().filter(is_root).find(|span| of_session(span).as_ref() == Some(&sessions.foreign));
    let foreign = foreign.expect("its root");
    assert_eq!(hex(&foreign.trace_id), sessions.foreign.trim_start_matches("sess_"), "a trace of its own");
    assert!(foreign.parent_span_id.is_empty() && hex(&foreign.links[0].trace_id) == TRACE, "{foreign:?}");

    let joined = joined(spans);
    let (roots, below): (Vec<_>, Vec<_>) = joined.values().partition(|span| span.name.starts_with("invoke_agent"));
    let ids: BTreeSet<_> = roots.iter().filter_map(|root| of_session(root)).collect();
    assert_eq!(
        ids,
        BTreeSet::from([sessions.waits.clone(), sessions.short.clone()]),
        "not the one that is not sampled"
    );
    for root in &roots {
        assert_eq!((hex(&root.parent_span_id).as_str(), root.links.len()), (CALLER, 0), "{root:?}");
        assert_eq!(root.flags & PARENT_IS_REMOTE, PARENT_IS_REMOTE, "{root:?}");
    }
    let above: BTreeSet<_> = below.iter().map(|span| hex(&span.parent_span_id)).collect();
    assert!(above.iter().all(|parent| joined.contains_key(parent)), "nothing hangs in the air: {above:?}");
    // Of both lives: the call that waited, the waiting itself, what came of it.
    for name in ["await_confirmation", "execute_tool card_block", "chat bank"] {
        assert!(below.iter().any(|span| span.name == name), "{name}");
    }
    let told = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<_> = told.filter(|line| line["session_id"] == json!(sessions.waits)).collect();
    assert!(told.len() > 4 && told.iter().all(|line| line["trace_id"] == TRACE), "{told:#?}");
}
