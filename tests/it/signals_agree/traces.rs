//! Lines, journal and spans tell of the same operations, under the same ids, at the same times.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::evidence::{Evidence, Row, Seen, number, text};

/// Which line tells of which fact; the retries are lines of their own sort.
pub const TOLD: &[(&str, &str)] = &[
    ("session_started", "agent_session_started"),
    ("model_call_finished", "model_called"),
    ("tool_call_finished", "tool_called"),
    ("model_fallback", "model_fallback"),
    ("rate_limited", "rate_limited"),
    ("circuit_changed", "circuit_changed"),
    ("tool_definition_changed", "tool_definition_changed"),
    ("limit_reached", "limit_reached"),
    ("handed_over", "handed_over"),
    ("session_suspended", "session_suspended"),
    ("session_resumed", "session_resumed"),
    ("session_finished", "agent_session_finished"),
];

/// Every told fact has its one line at its own place and time, and no line tells of anything else.
pub fn lines_tell_of_the_journal(evidence: &Evidence) {
    let mut told: BTreeMap<(&str, u64), &Value> = BTreeMap::new();
    for line in &evidence.lines {
        let stream = if line["process_id"].is_null() { "session_id" } else { "process_id" };
        let place = (text(line, stream), number(line, "seq"));
        assert!(told.insert(place, line).is_none(), "two lines for {place:?}");
    }
    for row in &evidence.journal {
        let line = told.remove(&(row.stream.as_str(), row.seq));
        let event = TOLD.iter().find(|(fact, _)| *fact == row.name).map(|(_, event)| *event);
        match (event, line) {
            (Some(event), Some(line)) => {
                assert_eq!(text(line, "event"), event, "{line}");
                assert_eq!(timestamp_ms(line), row.at / 1_000_000, "{line}");
                same_numbers(line, row);
            }
            (Some(event), None) => panic!("no line {event} for {row:?}"),
            (None, Some(line)) => {
                let retry = ["model_retry", "tool_retry"].contains(&text(line, "event"));
                assert!(retry && number(&row.body, "attempt") > 1, "{line} for {row:?}");
            }
            (None, None) => {}
        }
    }
    assert!(told.is_empty(), "lines without a fact: {told:#?}");
}

fn same_numbers(line: &Value, row: &Row) {
    let end = &row.body["end"];
    match row.name.as_str() {
        "model_call_finished" => {
            assert_eq!(line["outcome"], end["outcome"]);
            assert_eq!(number(line, "attempts"), number(end, "attempts"));
        }
        "tool_call_finished" => {
            assert_eq!(line["outcome"], end["outcome"]);
            assert_eq!(line["is_error"], end["observation"]["is_error"]);
            assert_eq!(line["result_tokens"], end["observation"]["tokens"]);
        }
        "session_finished" => {
            assert_eq!(line["status"], row.body["status"]);
            assert_eq!(line["reason"], row.body["reason"]);
            assert_eq!(number(line, "total_steps"), number(&row.body, "steps"));
            assert_eq!(number(line, "total_input_tokens"), number(&row.body["usage"], "input"));
            assert_eq!(line["tools_called"], row.body["tools_called"]);
        }
        _ => {}
    }
}

fn timestamp_ms(line: &Value) -> u64 {
    let at: jiff::Timestamp = text(line, "timestamp").parse().expect("RFC 3339");
    u64::try_from(at.as_millisecond()).expect("after 1970")
}

/// One trace a session, one root in it, calls under the root, times inside their parents; a
/// session that has not ended has no root yet.
pub fn spans_tell_of_the_lines(evidence: &Evidence) {
    let mut traces: BTreeMap<String, Vec<&Seen>> = BTreeMap::new();
    for span in &evidence.spans {
        traces.entry(span.trace()).or_default().push(span);
    }
    let ids: BTreeSet<_> = evidence.spans.iter().map(Seen::id).collect();
    assert_eq!(ids.len(), evidence.spans.len(), "every span arrives once, under an id of its own");
    let mut lines: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for line in evidence.lines.iter().filter(|line| line["process_id"].is_null()) {
        lines.entry(text(line, "session_id")).or_default().push(line);
    }
    for (session, lines) in lines {
        let trace = text(lines[0], "trace_id");
        assert_eq!(session.strip_prefix("sess_"), Some(trace), "no caller's trace was joined");
        let spans = traces.remove(trace).unwrap_or_default();
        trace_tells(session, &lines, &spans);
    }
    assert!(traces.is_empty(), "traces of no session: {:?}", traces.keys());
}

fn trace_tells(session: &str, lines: &[&Value], spans: &[&Seen]) {
    let mut own: HashMap<String, &Seen> = spans.iter().filter(|span| span.own).map(|span| (span.id(), *span)).collect();
    let root_id = text(lines[0], "span_id");
    let root = own.remove(root_id);
    let finished = lines.iter().find(|line| text(line, "event") == "agent_session_finished");
    match (root, finished) {
        (Some(root), Some(line)) => root_tells(root, line),
        (None, None) => {}
        (Some(_), None) => panic!("{session} has a root before its end"),
        (None, Some(_)) => panic!("{session} ended and has no root"),
    }
    let mut by_id: HashMap<String, &Seen> = HashMap::new();
    for line in lines.iter().filter(|line| ["model_called", "tool_called"].contains(&text(line, "event"))) {
        let id = text(line, "span_id");
        let span = own.remove(id).unwrap_or_else(|| panic!("no span for {line}"));
        assert_eq!(span.parent(), root_id, "{line}");
        if let Some(root) = root {
            inside(span, root);
        }
        call_tells(span, line);
        by_id.insert(id.to_owned(), span);
    }
    assert!(own.is_empty(), "{session} has spans that no line knows: {:?}", own.keys());
    for span in spans.iter().filter(|span| !span.own) {
        let parent = by_id.get(&span.parent()).unwrap_or_else(|| panic!("{} hangs in the air", span.span.name));
        assert_eq!(parent.attribute("gen_ai.operation.name"), Some("execute_tool".into()), "{}", span.span.name);
        inside(span, parent);
    }
}

fn inside(span: &Seen, parent: &Seen) {
    let (inner, outer) = (&span.span, &parent.span);
    assert!(inner.start_time_unix_nano <= inner.end_time_unix_nano, "{} ends before it begins", inner.name);
    assert!(inner.start_time_unix_nano >= outer.start_time_unix_nano, "{} begins before {}", inner.name, outer.name);
    assert!(inner.end_time_unix_nano <= outer.end_time_unix_nano, "{} ends after {}", inner.name, outer.name);
}

fn root_tells(root: &Seen, line: &Value) {
    assert_eq!(root.span.name, format!("invoke_agent {}", text(line, "agent")));
    assert_eq!(root.parent(), "", "a root has no parent");
    assert_eq!(root.attribute("glassbox.status"), Some(line["status"].clone()));
    assert_eq!(root.attribute("glassbox.reason").unwrap_or(Value::Null), line["reason"]);
    assert_eq!(root.attribute("glassbox.session.steps"), Some(line["total_steps"].clone()));
    assert_eq!(root.attribute("glassbox.session.input_tokens"), Some(line["total_input_tokens"].clone()));
    assert_eq!(root.attribute("glassbox.session.output_tokens"), Some(line["total_output_tokens"].clone()));
    assert_eq!(root.attribute("glassbox.session.cost_usd").unwrap_or_default(), line["cost_usd"]);
    assert_eq!(root.failed(), line["status"] == "error", "{line}");
    assert_eq!(took_ms(root), number(line, "total_latency_ms"), "{line}");
}

fn call_tells(span: &Seen, line: &Value) {
    let outcome = text(line, "outcome");
    let word = if line["event"] == "model_called" { "model" } else { "tool" };
    assert_eq!(span.attribute(&format!("glassbox.{word}.outcome")), Some(outcome.into()), "{line}");
    assert_eq!(span.attribute("glassbox.step"), Some(line["step"].clone()), "{line}");
    assert_eq!(took_ms(span), number(line, "latency_ms"), "{line}");
    assert_eq!(span.failed(), !["ok", "cancelled"].contains(&outcome), "{line}");
    let retries = number(line, "attempts").saturating_sub(1);
    assert_eq!(span.attribute("glassbox.retries"), Some(retries.into()), "{line}");
    if word == "model" {
        if outcome == "ok" {
            assert_eq!(span.attribute("gen_ai.usage.input_tokens"), Some(line["input_tokens"].clone()));
            assert_eq!(span.attribute("gen_ai.usage.output_tokens"), Some(line["output_tokens"].clone()));
            assert_eq!(span.attribute("glassbox.cost_usd").unwrap_or_default(), line["cost_usd"]);
        }
        assert!(span.span.name.starts_with("chat "), "{}", span.span.name);
    } else {
        let name = text(line, "tool_name");
        let wanted = if name == "unknown" { "execute_tool".to_owned() } else { format!("execute_tool {name}") };
        assert_eq!(span.span.name, wanted);
        assert_eq!(
            span.attribute("glassbox.tool.arguments_valid").unwrap_or(Value::Null),
            line["arguments_schema_valid"]
        );
    }
}

fn took_ms(span: &Seen) -> u64 {
    (span.span.end_time_unix_nano - span.span.start_time_unix_nano) / 1_000_000
}
