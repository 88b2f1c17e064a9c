//! Tests of `signal::spans`: hand-made cases, each with its right value.

mod calls;
mod roots;

use opentelemetry::{SpanId as OtelSpanId, Value, trace::SpanKind};
use serde_json::{Map, json};

use super::*;
use crate::core::{
    Arguments, BlobHash, EndReason, FaultKind, Limits, ModelReply, Money, Prices, Principal, SessionStatus, StreamId,
    ToolOutcome, Usage,
    fact::{
        AttemptEnd, CallPurpose, CountedBy, JOURNAL_VERSION, Language, ModelCall, ModelCallEnd, ModelInfo,
        ModelOutcome, Observation, PromptRef, SessionEnd, SpanContent, SpanLink, ToolCallBegin, ToolCallEnd,
        TraceStart,
    },
    id::ProcessId,
    spec::Effect,
};

const SECOND: u64 = 1_000_000_000;

fn session() -> SessionId {
    SessionId::from_bytes([1; 16])
}

fn span_id(n: u8) -> SpanId {
    SpanId::from_bytes([n; 8])
}

fn trace() -> TraceStart {
    TraceStart {
        trace_id: session().trace_id(),
        root: span_id(1),
        sampled: true,
        content: SpanContent::Off,
        parent: None,
        link: None,
    }
}

fn model() -> ModelInfo {
    ModelInfo {
        name: "main".into(),
        request_model: "claude-x".into(),
        provider: "anthropic".into(),
        context_window: 200_000,
        max_output_tokens: 4096,
        // 1, 2, 0.1 and 1 dollar for a million tokens.
        prices: Some(Prices {
            input: Money::from_nanos(1_000_000_000),
            output: Money::from_nanos(2_000_000_000),
            cache_read: Money::from_nanos(100_000_000),
            cache_write: Money::from_nanos(1_000_000_000),
        }),
    }
}

fn started(trace: TraceStart) -> Fact {
    let hash = BlobHash::from_bytes([0; 32]);
    Fact::SessionStarted(Box::new(SessionStarted {
        version: JOURNAL_VERSION,
        agent: "bank".into(),
        task: "secret task".into(),
        task_type: "spending".into(),
        principal: Principal {
            id: "C-001".into(),
            scopes: Vec::new(),
            roles: Vec::new(),
            attributes: std::collections::BTreeMap::new(),
        },
        conversation_id: Some("conv-7".into()),
        follows: None,
        model: model(),
        limits: Limits::default(),
        language: Language::En,
        prompt: PromptRef { name: "bank".into(), version: Some("3".into()), hash },
        tools_hash: hash,
        output_schema_hash: None,
        config_hash: hash,
        trace,
        metadata: Map::new(),
    }))
}

fn model_started(op: SpanId) -> Fact {
    let call = ModelCall {
        step: 2,
        purpose: CallPurpose::Step,
        model: model(),
        estimated_input_tokens: 90,
        counted_by: CountedBy::Estimate,
        max_tokens: 1000,
        body_hash: BlobHash::from_bytes([0; 32]),
        summarized_steps: 0,
        summarized_pairs: 0,
    };
    Fact::ModelCallStarted { op, call: std::sync::Arc::new(call) }
}

fn model_finished(op: SpanId, outcome: ModelOutcome, usage: Usage) -> Fact {
    let reply = (outcome == ModelOutcome::Ok).then(|| ModelReply {
        text: "secret answer".into(),
        calls: Vec::new(),
        usage,
        model: "claude-x-2".into(),
        finish_reason: "end_turn".into(),
    });
    let end = ModelCallEnd { outcome, reply, usage, error: Some("secret error".into()), attempts: 2 };
    Fact::ModelCallFinished { op, end: Box::new(end) }
}

fn tool_started(op: SpanId, tool: &str, known: bool) -> Fact {
    let call = ToolCallBegin {
        step: 1,
        call_id: "call_1".into(),
        tool: tool.into(),
        known,
        arguments: Arguments::Json(json!({"secret": 1})),
    };
    Fact::ToolCallStarted { op, call: Box::new(call) }
}

fn tool_finished(op: SpanId, outcome: ToolOutcome, attempts: u32) -> Fact {
    let observation =
        Observation { content: "secret result".into(), is_error: outcome.is_error(), tokens: 12, whole: None };
    let end = ToolCallEnd {
        call_id: "call_1".into(),
        outcome,
        observation,
        arguments_valid: Some(true),
        error: Some("secret error".into()),
        attempts,
        cached: false,
    };
    Fact::ToolCallFinished { op, end: Box::new(end) }
}

fn tool_attempt(call: SpanId, attempt: u32, outcome: ToolOutcome) -> [Fact; 2] {
    [
        Fact::ToolAttemptStarted { call, attempt, effect: Effect::Read, wait_ms: 0, mcp: None },
        Fact::ToolAttemptFinished { call, attempt, end: AttemptEnd::new(outcome, None) },
    ]
}

fn finished(status: SessionStatus, reason: Option<EndReason>) -> Fact {
    Fact::SessionFinished(Box::new(SessionEnd {
        status,
        reason,
        answer: Some("secret answer".into()),
        partial: None,
        explanation: None,
        degraded: false,
        steps: 2,
        usage: Usage { input: 300, output: 40, ..Usage::default() },
        cost: Some(Money::from_nanos(86_000)),
        tools_called: vec!["lookup".into()],
        context_peak: 0.1,
        active_ms: 9000,
    }))
}

/// A journal with one fact a second, from second 100.
fn journal(facts: impl IntoIterator<Item = Fact>) -> Vec<Entry> {
    facts
        .into_iter()
        .enumerate()
        .map(|(place, fact)| Entry {
            stream: StreamId::Session(session()),
            seq: place as u64,
            at: Timestamp::from_nanos((100 + place as u64) * SECOND),
            fact,
        })
        .collect()
}

fn fold(facts: impl IntoIterator<Item = Fact>) -> Vec<SpanData> {
    let mut fold = SpanFold::new();
    journal(facts).iter().filter_map(|entry| fold.apply(entry)).collect()
}

fn seconds(n: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(n)
}

fn get<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.key.as_str() == key).map(|attribute| &attribute.value)
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    get(attributes, key).map(|value| value.as_str().into_owned())
}

fn int(attributes: &[KeyValue], key: &str) -> Option<i64> {
    match get(attributes, key) {
        Some(Value::I64(number)) => Some(*number),
        _ => None,
    }
}

fn whole_session() -> Vec<Fact> {
    let mut facts = vec![started(trace()), model_started(span_id(2))];
    facts.push(Fact::ModelAttemptStarted { call: span_id(2), attempt: 1, model: "main".into(), wait_ms: 0 });
    facts.push(Fact::ModelAttemptFinished {
        call: span_id(2),
        attempt: 1,
        end: AttemptEnd::new(ModelOutcome::Fault(FaultKind::Overloaded), Some("secret error".into())),
    });
    facts.push(Fact::ModelAttemptStarted { call: span_id(2), attempt: 2, model: "spare".into(), wait_ms: 0 });
    facts.push(Fact::ModelAttemptFinished {
        call: span_id(2),
        attempt: 2,
        end: AttemptEnd::new(ModelOutcome::Ok, None),
    });
    let usage = Usage { input: 100, output: 20, cache_read: 60, ..Usage::default() };
    facts.push(model_finished(span_id(2), ModelOutcome::Ok, usage));
    facts.push(tool_started(span_id(3), "lookup", true));
    facts.extend(tool_attempt(span_id(3), 1, ToolOutcome::Ok));
    facts.push(tool_finished(span_id(3), ToolOutcome::Ok, 1));
    facts.push(finished(SessionStatus::Done, None));
    facts
}

#[test]
fn a_session_gives_its_root_and_its_calls_right_under_it() {
    let spans = fold(whole_session());
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(names, ["chat claude-x", "execute_tool lookup", "invoke_agent bank"]);
    for span in &spans {
        assert_eq!(span.span_context.trace_id().to_string(), "01".repeat(16));
        assert!(span.span_context.is_sampled() && !span.span_context.is_remote());
        assert_eq!(text(&span.attributes, "glassbox.session.id"), Some(format!("sess_{}", "01".repeat(16))));
        assert_eq!(span.status, Status::Unset);
        assert_eq!(get(&span.attributes, "error.type"), None);
    }
    let [chat, tool, root] = spans.as_slice() else { panic!("three spans") };
    assert_eq!(chat.span_context.span_id(), OtelSpanId::from_bytes([2; 8]));
    assert_eq!(tool.span_context.span_id(), OtelSpanId::from_bytes([3; 8]));
    assert_eq!(root.span_context.span_id(), OtelSpanId::from_bytes([1; 8]));
    assert_eq!(chat.parent_span_id, OtelSpanId::from_bytes([1; 8]));
    assert_eq!(tool.parent_span_id, OtelSpanId::from_bytes([1; 8]));
    assert_eq!(root.parent_span_id, OtelSpanId::INVALID);
    assert_eq!((chat.start_time, chat.end_time), (seconds(101), seconds(106)));
    assert_eq!((tool.start_time, tool.end_time), (seconds(107), seconds(110)));
    assert_eq!((root.start_time, root.end_time), (seconds(100), seconds(111)));
    let kinds: Vec<_> = spans.iter().map(|span| span.span_kind.clone()).collect();
    assert_eq!(kinds, [SpanKind::Client, SpanKind::Internal, SpanKind::Internal]);
}

#[test]
fn the_same_journal_gives_the_same_spans() {
    assert_eq!(fold(whole_session()), fold(whole_session()));
}

#[test]
fn no_text_of_people_enters_a_span() {
    let text = format!("{:?}", fold(whole_session()));
    assert!(!text.contains("secret") && !text.contains("C-001"), "{text}");
}

#[test]
fn a_fold_from_any_place_on_skips_what_it_did_not_see_begin() {
    let whole = journal(whole_session());
    for from in 1..whole.len() {
        let mut fold = SpanFold::new();
        assert_eq!(whole[from..].iter().filter_map(|entry| fold.apply(entry)).count(), 0, "from {from}");
        assert_eq!(fold.open_sessions(), 0);
    }
    let mut fold = SpanFold::new();
    fold.apply(&whole[0]);
    assert_eq!(whole[5..].iter().filter_map(|entry| fold.apply(entry)).count(), 2, "the tool call and the root");
    assert_eq!(fold.open_sessions(), 0, "a finished session is dropped");
}

#[test]
fn the_system_journal_gives_no_span() {
    let fact = Fact::ProcessStarted { version: "1".into(), surface: "run".into() };
    let stream = StreamId::System(ProcessId::from_bytes([1; 16]));
    assert_eq!(SpanFold::new().apply(&Entry { stream, seq: 0, at: Timestamp::from_nanos(0), fact }), None);
}
