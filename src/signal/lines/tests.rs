//! A journal by hand, its lines by hand, and the published schema.

mod again;

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use prometheus::IntCounter;
use serde_json::{Value, json};

use super::{Lines, Output, render_document, render_schema};
use crate::{
    core::{
        BlobHash, EndReason, Entry, FaultKind, Sensitive, SessionStatus, StreamId, Timestamp, ToolDefinition,
        ToolOutcome,
        circuit::{CircuitCause, CircuitChange, CircuitId, CircuitState},
        fact::{
            Decision, DefinitionChange, Fact, FallbackCause, HandoverCause, Limit, ModelOutcome, RateLimit,
            SuspendCause,
        },
        id::ProcessId,
    },
    signal::{
        KeyedHash,
        samples::{Journal, check_document, session_end},
    },
};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hash() -> KeyedHash {
    KeyedHash::from_key(b"0123456789abcdef").expect("16 bytes")
}

fn dropped() -> IntCounter {
    IntCounter::new("dropped_total", "Lines lost.").expect("a name")
}

/// The lines that facts give, as text, after a process took up the session as `adopted` says.
fn lines_of(adopted: &[Entry], entries: &[Entry]) -> String {
    let (buffer, dropped) = (Buffer::default(), dropped());
    let lines = Lines::new(Output::Writer(Box::new(buffer.clone())), hash(), dropped.clone()).expect("lines");
    lines.adopt(adopted, adopted.len() as u64);
    let entries: Vec<Arc<Entry>> = entries.iter().cloned().map(Arc::new).collect();
    lines.sink().publish(&entries);
    assert!(lines.stop(Duration::from_secs(60)));
    assert_eq!(dropped.get(), 0);
    String::from_utf8(buffer.0.lock().expect("no panic").clone()).expect("UTF-8")
}

fn parse(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A session in which everything happens that gives a line.
fn eventful() -> Journal {
    let mut journal = Journal::new(1);
    journal.started("bank", "spending");
    let model = journal.model_started(1, "main");
    journal.model_attempt(model, 1, "main", ModelOutcome::Fault(FaultKind::Overloaded));
    journal.model_attempt(model, 2, "main", ModelOutcome::Ok);
    journal.after(Duration::from_millis(1200)).model_finished(model, ModelOutcome::Ok, (12_000, 3000));
    let good = journal.tool_started(1, "search", true);
    let invented = journal.tool_started(1, "call_ivan_petrov", false);
    journal.tool_attempt(good, 1, ToolOutcome::Failed);
    journal.tool_attempt(good, 2, ToolOutcome::Ok);
    journal.after(Duration::from_millis(342)).tool_finished(good, ToolOutcome::Ok, Some(true), 2);
    journal.tool_finished(invented, ToolOutcome::UnknownTool, None, 0);
    journal.push(Fact::CancelRequested { by: "C-001".into() });
    journal.push(Fact::RateLimited { limit: RateLimit::Tool, tool: Some("search".into()), wait_ms: 12_000, times: 1 });
    let calls = vec!["call_1_1".to_owned()];
    journal.push(Fact::ContextCompacted {
        calls,
        pairs: 0,
        steps: 0,
        summary: None,
        tokens_before: 932,
        tokens_after: 552,
    });
    journal.push(Fact::AnswerChecked { problems: Sensitive::new(vec!["/phone: +7 701 123 45 67".into()]) });
    journal.push(Fact::LimitReached { limit: Limit::RepeatedFailure, value: 3 });
    let detail = "call Ivan at +7 701 123 45 67".into();
    journal.push(Fact::HandedOver { cause: HandoverCause::SessionEnded, detail, tool: None });
    let end = session_end(SessionStatus::Error, Some(EndReason::RepeatedFailure));
    journal.after(Duration::from_millis(58)).push(Fact::SessionFinished(Box::new(end)));
    journal
}

/// An operator's switch, in the journal of a process.
fn switched() -> Entry {
    let change = CircuitChange {
        circuit: CircuitId::tool("search"),
        from: CircuitState::Closed,
        to: CircuitState::Open,
        cause: CircuitCause::ForcedOpen,
        forced: true,
        until: Some(Timestamp::from_nanos(1_771_410_825_000_000_000)),
        by: Some("C-001".into()),
    };
    Entry {
        stream: StreamId::System(ProcessId::from_bytes([2; 16])),
        seq: 7,
        at: Timestamp::from_nanos(1_771_410_225_000_000_000),
        fact: Fact::CircuitChanged(Box::new(change)),
    }
}

/// A server that defines a tool otherwise than it did.
fn redefined(called: Option<&str>) -> Entry {
    let change = DefinitionChange {
        server: "files".into(),
        tool: "Ivan's secret".into(),
        called: called.map(str::to_owned),
        old: Some(BlobHash::from_bytes([0xab; 32])),
        new: BlobHash::from_bytes([0xcd; 32]),
        blocked: true,
        definition: ToolDefinition {
            name: "Ivan's secret".into(),
            description: "Call Ivan.".into(),
            input_schema: json!({}),
        },
    };
    Entry { seq: 8, fact: Fact::ToolDefinitionChanged(Box::new(change)), ..switched() }
}

/// The hash of `C-001` under the key of [`hash`], by openssl.
const USER: &str = "hmac-sha256:9f9f5111:2317e845d4e7f6c7b8436dc522efdaf20d54dc372d022e587812047150d98208";
/// The hash of the sample task under the key of [`hash`], by openssl.
const TASK: &str = "hmac-sha256:9f9f5111:b0b3fb835d516e90edba34ea7701be68e37a80055ecfbbfebcdab009036fd386";

#[test]
fn the_seed_events_carry_the_seed_fields() {
    let journal = eventful();
    let lines = parse(&lines_of(&[], &journal.entries));
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().expect("a name")).collect();
    assert_eq!(
        events,
        [
            "agent_session_started",
            "model_retry",
            "model_called",
            "tool_retry",
            "tool_called",
            "tool_called",
            "rate_limited",
            "context_compacted",
            "answer_checked",
            "limit_reached",
            "handed_over",
            "agent_session_finished"
        ]
    );
    let session = journal.session.to_string();
    let Fact::SessionStarted(started) = &journal.entries[0].fact else { panic!("the first fact") };
    let (trace, root) = (started.trace.trace_id.to_string(), started.trace.root.to_string());
    assert_eq!(
        lines[0],
        json!({
            "event": "agent_session_started", "session_id": session, "task_hash": TASK, "task_type": "spending",
            "model": "main", "max_iterations": 15, "token_budget": 50000, "previous_session_id": null,
            "timestamp": "2026-02-18T10:23:45.000Z",
            "trace_id": trace, "span_id": root, "seq": 0, "agent": "bank", "user_hash": USER,
        })
    );
    let Fact::ToolCallStarted { op, .. } = &journal.entries[7].fact else { panic!("the eighth fact") };
    assert_eq!(
        lines[4],
        json!({
            "event": "tool_called", "session_id": session, "step": 1, "tool_name": "search",
            "arguments_schema_valid": true, "outcome": "ok", "latency_ms": 342, "is_error": false,
            "result_tokens": 187, "attempts": 2, "cached": false, "timestamp": "2026-02-18T10:23:46.542Z",
            "trace_id": trace, "span_id": op.to_string(), "seq": 13, "agent": "bank", "user_hash": USER,
        })
    );
    assert_eq!(
        lines[11],
        json!({
            "event": "agent_session_finished", "session_id": session, "task_type": "spending", "status": "error",
            "reason": "repeated_failure", "degraded": false, "total_steps": 1, "total_input_tokens": 12400,
            "total_output_tokens": 3200, "cost_usd": 0.0852, "total_latency_ms": 1600, "tools_called": ["search"],
            "timestamp": "2026-02-18T10:23:46.600Z", "trace_id": trace, "span_id": root, "seq": 21,
            "agent": "bank", "user_hash": USER,
        })
    );
}

#[test]
fn further_events_say_what_was_tried() {
    let lines = parse(&lines_of(&[], &eventful().entries));
    let fields = |line: &Value, names: &[&str]| names.iter().map(|name| line[*name].clone()).collect::<Value>();
    assert_eq!(fields(&lines[1], &["step", "model", "attempt", "reason"]), json!([1, "main", 2, "overloaded"]));
    assert_eq!(
        fields(&lines[2], &["step", "purpose", "model", "outcome", "latency_ms", "input_tokens", "output_tokens"]),
        json!([1, "step", "main", "ok", 1200, 12000, 3000])
    );
    // 12,000 tokens at 3 and 3,000 at 15 millionths of a dollar.
    assert_eq!(lines[2]["cost_usd"], 0.081);
    assert_eq!(lines[2]["finish_reason"], "tool_use");
    assert_eq!(fields(&lines[3], &["step", "tool_name", "attempt", "reason"]), json!([1, "search", 2, "failed"]));
    assert_eq!(
        fields(&lines[5], &["tool_name", "outcome", "is_error", "arguments_schema_valid"]),
        json!(["unknown", "unknown_tool", true, null])
    );
    assert_eq!(fields(&lines[6], &["limit", "tool_name", "wait_ms"]), json!(["tool", "search", 12_000]));
    assert_eq!(fields(&lines[7], &["results", "steps", "tokens_before", "tokens_after"]), json!([1, 0, 932, 552]));
    assert_eq!(lines[8]["problems"], 1);
    assert_eq!(fields(&lines[9], &["limit", "value"]), json!(["repeated_failure", 3]));
    assert_eq!(lines[10]["cause"], "session_ended");
}

#[test]
fn no_text_of_people_models_or_services_gets_into_a_line() {
    let text = lines_of(&[], &eventful().entries);
    for secret in ["701 123", "Ivan", "ivan", "C-001", "secret"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

/// A session cut in a tool call, and how another process ends it.
fn resumed() -> (Vec<Entry>, Vec<Entry>) {
    let mut journal = Journal::new(2);
    journal.started("bank", "cards");
    let asked = journal.asked(3, "transfer");
    let cut = journal.tool_started(3, "pay", true);
    let begun = journal.entries.len();
    journal.push(Fact::SessionResumed { process: "p2".into() });
    journal.after(Duration::from_secs(5)).tool_finished(cut, ToolOutcome::Lost, None, 0);
    journal.push(Fact::SessionSuspended { cause: SuspendCause::Drain });
    journal.decided(asked, Decision::Approved);
    let again = journal.asked(4, "transfer");
    journal.after(Duration::from_secs(60)).decided(again, Decision::Expired);
    let cause = FallbackCause::PrimaryDown;
    journal.push(Fact::ModelFallback { step: 4, from: "main".into(), to: "backup".into(), cause });
    let model = journal.model_started(4, "backup");
    journal.model_finished(model, ModelOutcome::Cancelled, (0, 0));
    journal.push(Fact::SessionFinished(Box::new(session_end(SessionStatus::Cancelled, None))));
    let after = journal.entries.split_off(begun);
    (journal.entries, after)
}

#[test]
fn a_session_begun_elsewhere_has_its_lines() {
    let (before, after) = resumed();
    let adopted = parse(&lines_of(&before, &after));
    assert_eq!(adopted[0]["event"], "session_resumed");
    assert_eq!(adopted[1]["tool_name"], "pay");
    assert_eq!(adopted[1]["step"], 3);
    assert_eq!(adopted[1]["latency_ms"], 5000);
    assert_eq!(adopted[1]["user_hash"], USER);

    let strange = parse(&lines_of(&[], &after));
    assert_eq!(strange[1]["tool_name"], "unknown");
    assert_eq!(strange[1]["step"], Value::Null);
    assert_eq!(strange[1]["agent"], "unknown");
    assert_eq!(strange[1]["user_hash"], Value::Null);
    // Ids follow from the session, so they hold even here.
    assert_eq!(strange[0]["span_id"], adopted[0]["span_id"]);
    assert_eq!(strange[0]["trace_id"], adopted[0]["trace_id"]);
}

#[test]
fn a_confirmation_is_told_without_what_was_asked() {
    let mut journal = Journal::new(4);
    journal.started("bank", "cards");
    let op = journal.asked(2, "transfer");
    journal.after(Duration::from_secs(60)).decided(op, Decision::Denied);
    let text = lines_of(&[], &journal.entries);
    let lines = parse(&text);
    assert_eq!(lines[1]["event"], "confirmation_requested");
    assert_eq!((&lines[1]["step"], &lines[1]["tool_name"]), (&json!(2), &json!("transfer")));
    assert_eq!(lines[1]["expires_at"], "2026-02-18T11:23:45.000Z");
    assert_eq!(lines[1]["span_id"], op.to_string());
    assert_eq!(lines[2]["event"], "confirmation_decided");
    assert_eq!((&lines[2]["decision"], &lines[2]["waited_ms"]), (&json!("denied"), &json!(60_000)));
    assert_eq!(lines[2]["decided_by_hash"], USER, "the customer decided");
    for secret in ["secret", "C-001", "Ivan", "call_1"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn a_fallback_is_told_with_both_models_and_the_cause() {
    let (before, after) = resumed();
    let lines = parse(&lines_of(&before, &after));
    let told = lines.iter().find(|line| line["event"] == "model_fallback").expect("a line");
    let fields = ["step", "model", "fallback", "cause"].map(|name| told[name].clone());
    assert_eq!(fields, [json!(4), json!("main"), json!("backup"), json!("primary_down")]);
    assert_eq!(told["span_id"], lines[0]["span_id"], "the root's");
}

#[test]
fn a_circuit_that_moves_belongs_to_no_session_and_names_nobody() {
    let line = parse(&lines_of(&[], &[switched()])).remove(0);
    let expected = json!({
        "event": "circuit_changed",
        "process_id": "proc_02020202020202020202020202020202",
        "kind": "tool",
        "name": "search",
        "from": "closed",
        "to": "open",
        "cause": "forced_open",
        "forced": true,
        "until": "2026-02-18T10:33:45.000Z",
        "by_hash": USER,
        "timestamp": "2026-02-18T10:23:45.000Z",
        "seq": 7,
    });
    assert_eq!(line, expected);
}

#[test]
fn a_changed_definition_is_told_by_its_hashes_and_in_no_word_of_the_server() {
    let line = parse(&lines_of(&[], &[redefined(Some("files_Ivan_s_secret"))])).remove(0);
    let expected = json!({
        "event": "tool_definition_changed",
        "process_id": "proc_02020202020202020202020202020202",
        "server": "files",
        "tool_name": "files_Ivan_s_secret",
        "verdict": "blocked",
        "old_hash": format!("sha256:{}", "ab".repeat(32)),
        "new_hash": format!("sha256:{}", "cd".repeat(32)),
        "timestamp": "2026-02-18T10:23:45.000Z",
        "seq": 8,
    });
    assert_eq!(line, expected);
    assert_eq!(parse(&lines_of(&[], &[redefined(None)]))[0]["tool_name"], "unknown", "of an older journal");
}

#[test]
fn every_line_fits_the_published_schema() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/events.schema.json");
    let text = std::fs::read_to_string(path).expect("the schema is published");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema");
    let (before, after) = resumed();
    let text = [
        lines_of(&[], &eventful().entries),
        lines_of(&before, &after),
        lines_of(&[], &after),
        lines_of(&[], &[switched(), redefined(None)]),
    ]
    .concat();
    let lines = parse(&text);
    for line in &lines {
        let errors: Vec<_> = validator.iter_errors(line).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{line}");
        let mut wider = line.clone();
        wider["task"] = json!("a free text");
        assert!(!validator.is_valid(&wider), "no further field is allowed: {line}");
    }
    let seen: std::collections::BTreeSet<_> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    let named: std::collections::BTreeSet<_> = super::catalogue::EVENTS.iter().map(|event| event.name).collect();
    assert_eq!(seen, named, "each event is tried here");
}

#[test]
fn a_file_is_appended_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events.jsonl");
    std::fs::write(&path, "{}\n").expect("written");
    let lines = Lines::new(Output::File(path.clone()), hash(), dropped()).expect("lines");
    let entries: Vec<Arc<Entry>> = eventful().entries.into_iter().map(Arc::new).collect();
    lines.sink().publish(&entries);
    assert!(lines.stop(Duration::from_secs(60)));
    assert_eq!(std::fs::read_to_string(&path).expect("text").lines().count(), 13);
    let nowhere = Output::File(folder.path().join("no/events.jsonl"));
    let error = Lines::new(nowhere, hash(), dropped()).expect_err("no folder");
    assert!(error.to_string().starts_with("cannot open ") && error.to_string().ends_with(" for event lines"));
}

#[test]
fn the_pages_of_events_are_printed_from_the_catalogue() {
    check_document("docs/events.md", &render_document());
}

#[test]
fn the_schema_of_events_is_printed_from_the_catalogue() {
    check_document("docs/events.schema.json", &render_schema());
}
