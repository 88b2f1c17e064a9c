//! Spans as Jaeger gives them back: whole microseconds, tags with a type each.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    thread,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, KeyValue, any_value},
    trace::v1::{Span, Status},
};
use serde_json::Value;

use super::spans_of;
use crate::{
    process::PATIENCE,
    real_parts::Jaeger,
    signals_agree::evidence::{Row, Seen},
};

/// Time between two questions.
const PACE: Duration = Duration::from_millis(200);

/// All spans of all sessions, each once, and how many came twice. Waits until each that the
/// journal tells of is there: Jaeger shows what it took a moment later. What else it shows, it shows.
pub(super) fn spans(jaeger: &Jaeger, journal: &[Row]) -> (Vec<Seen>, usize) {
    let sessions: BTreeSet<_> = journal.iter().map(|row| &row.stream).filter(|id| id.starts_with("sess_")).collect();
    let wanted: BTreeMap<_, _> = sessions.into_iter().map(|id| (id, spans_of(journal, id))).collect();
    // More than there are, so that a trace of no session would be seen.
    let path = format!("/api/traces?service=glassbox&limit={}", 2 * wanted.len() + 100);
    let mut last = Vec::new();
    for _ in 0..PATIENCE.as_millis() / PACE.as_millis() {
        let answer = jaeger.client().get(&path);
        assert_eq!(answer.status, 200, "{answer:?}");
        last = all(&answer.json());
        let there: BTreeSet<_> = last.iter().map(Seen::id).collect();
        if wanted.values().flatten().all(|id| there.contains(id)) {
            break;
        }
        thread::sleep(PACE);
    }
    let all = last.len();
    let mut once: HashMap<String, Seen> = HashMap::new();
    for seen in last {
        if let Some(before) = once.get(&seen.id()) {
            assert_eq!(before.span, seen.span, "a span that comes again is the same");
        }
        once.insert(seen.id(), seen);
    }
    let repeats = all - once.len();
    (once.into_values().collect(), repeats)
}

fn all(answer: &Value) -> Vec<Seen> {
    let traces = answer["data"].as_array().unwrap().iter();
    traces.flat_map(|trace| trace["spans"].as_array().unwrap()).map(seen).collect()
}

fn seen(span: &Value) -> Seen {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text in {span}")).to_owned();
    let micros = |key: &str| span[key].as_u64().unwrap_or_else(|| panic!("no {key} in {span}"));
    let tags = span["tags"].as_array().unwrap();
    let tag = |key: &str| tags.iter().find(|tag| tag["key"] == key).map(|tag| &tag["value"]);
    let parents = span["references"].as_array().unwrap();
    let parent = parents.iter().find(|one| one["refType"] == "CHILD_OF" && one["traceID"] == span["traceID"]);
    let code = if tag("otel.status_code").is_some_and(|code| code == "ERROR") { 2 } else { 0 };
    let begin = micros("startTime") * 1000;
    let read = Span {
        trace_id: bytes(&text(&span["traceID"])),
        span_id: bytes(&text(&span["spanID"])),
        parent_span_id: parent.map(|one| bytes(&text(&one["spanID"]))).unwrap_or_default(),
        name: text(&span["operationName"]),
        start_time_unix_nano: begin,
        end_time_unix_nano: begin + micros("duration") * 1000,
        attributes: tags.iter().map(attribute).collect(),
        status: Some(Status { code, ..Status::default() }),
        ..Span::default()
    };
    let own = tag("otel.scope.name").is_some_and(|name| name == "glassbox") && tag("gen_ai.operation.name").is_some();
    Seen { own, span: read }
}

fn attribute(tag: &Value) -> KeyValue {
    let value = &tag["value"];
    let read = match tag["type"].as_str().unwrap() {
        "bool" => value.as_bool().map(any_value::Value::BoolValue),
        "int64" => value.as_i64().map(any_value::Value::IntValue),
        "float64" => value.as_f64().map(any_value::Value::DoubleValue),
        _ => value.as_str().map(|text| any_value::Value::StringValue(text.to_owned())),
    };
    let read = read.unwrap_or_else(|| panic!("not of its type: {tag}"));
    KeyValue {
        key: tag["key"].as_str().unwrap().to_owned(),
        value: Some(AnyValue { value: Some(read) }),
        ..KeyValue::default()
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
