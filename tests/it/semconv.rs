//! The spans speak the words of the OpenTelemetry GenAI conventions, held against a copy of
//! their registry.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;

use glassbox::{
    core::{
        Arguments, BlobHash, EndReason, Entry, Fact, FaultKind, Limits, ModelReply, Principal, SessionId,
        SessionStatus, SpanId, StreamId, Timestamp, ToolOutcome, Usage,
        fact::{
            CallPurpose, CountedBy, Language, ModelCall, ModelCallEnd, ModelInfo, ModelOutcome, Observation, PromptRef,
            SessionEnd, SessionStarted, ToolCallBegin, ToolCallEnd, TraceStart,
        },
        message::ToolCall,
    },
    signal::spans::SpanFold,
};
use opentelemetry::{Array, Value};
use opentelemetry_sdk::trace::SpanData;
use serde_json::Value as Json;

const REGISTRY: &str = include_str!("../data/semconv-genai/registry.yaml");
const SPANS: &str = include_str!("../data/semconv-genai/spans.yaml");

fn model() -> ModelInfo {
    ModelInfo {
        name: "main".into(),
        request_model: "claude-x".into(),
        provider: "anthropic".into(),
        context_window: 1000,
        max_output_tokens: 100,
        prices: None,
    }
}

fn started(session: SessionId) -> Fact {
    let hash = BlobHash::from_bytes([0; 32]);
    Fact::SessionStarted(Box::new(SessionStarted {
        version: 1,
        agent: "bank".into(),
        task: "task".into(),
        task_type: "spending".into(),
        principal: Principal { id: "C-001".into(), scopes: vec![], roles: vec![], attributes: BTreeMap::new() },
        conversation_id: Some("conv".into()),
        follows: None,
        model: model(),
        limits: Limits::default(),
        language: Language::Ru,
        prompt: PromptRef { name: "bank".into(), version: None, hash },
        tools_hash: hash,
        output_schema_hash: None,
        config_hash: hash,
        trace: TraceStart {
            trace_id: session.trace_id(),
            root: SpanId::of_fact(session, 0),
            sampled: true,
            parent: None,
            link: None,
        },
        metadata: serde_json::Map::new(),
    }))
}

fn model_call(session: SessionId, outcome: ModelOutcome) -> [Fact; 2] {
    let op = SpanId::of_fact(session, 1);
    let usage = Usage { input: 9, output: 5, cache_read: 3, cache_write: 2, reasoning: 1, estimated: false };
    let call = ToolCall { id: "call".into(), name: "lookup".into(), arguments: Arguments::empty() };
    let reply = ModelReply {
        text: String::new(),
        calls: vec![call],
        usage,
        model: "claude-x-1".into(),
        finish_reason: "tool_use".into(),
    };
    let begin = ModelCall {
        step: 1,
        purpose: CallPurpose::Step,
        model: model(),
        estimated_input_tokens: 8,
        counted_by: CountedBy::Estimate,
        max_tokens: 100,
        body_hash: BlobHash::from_bytes([0; 32]),
        summarized_steps: 0,
        summarized_pairs: 0,
    };
    let end = ModelCallEnd { outcome, reply: Some(reply), usage, error: None, attempts: 1 };
    [Fact::ModelCallStarted { op, call: Box::new(begin) }, Fact::ModelCallFinished { op, end: Box::new(end) }]
}

fn tool_call(session: SessionId, outcome: ToolOutcome) -> [Fact; 2] {
    let op = SpanId::of_fact(session, 3);
    let begin = ToolCallBegin {
        step: 1,
        call_id: "call".into(),
        tool: "lookup".into(),
        known: true,
        arguments: Arguments::empty(),
    };
    let observation = Observation { content: "5000".into(), is_error: outcome.is_error(), tokens: 1, whole: None };
    let end = ToolCallEnd {
        call_id: "call".into(),
        outcome,
        observation,
        arguments_valid: Some(true),
        error: None,
        attempts: 1,
        cached: false,
    };
    [Fact::ToolCallStarted { op, call: Box::new(begin) }, Fact::ToolCallFinished { op, end: Box::new(end) }]
}

fn finished(status: SessionStatus, reason: Option<EndReason>) -> Fact {
    Fact::SessionFinished(Box::new(SessionEnd {
        status,
        reason,
        answer: None,
        partial: None,
        explanation: None,
        degraded: false,
        steps: 1,
        usage: Usage::default(),
        cost: None,
        tools_called: vec![],
        context_peak: 0.0,
        active_ms: 5,
    }))
}

/// A session with one model call and one tool call, all well.
pub(crate) fn session_facts(session: SessionId) -> Vec<Fact> {
    let mut facts = vec![started(session)];
    facts.extend(model_call(session, ModelOutcome::Ok));
    facts.extend(tool_call(session, ToolOutcome::Ok));
    facts.push(finished(SessionStatus::Done, None));
    facts
}

/// Its journal, one fact a millisecond.
pub(crate) fn journal() -> Vec<Entry> {
    entries(SessionId::from_bytes([7; 16]), session_facts(SessionId::from_bytes([7; 16])))
}

fn entries(session: SessionId, facts: Vec<Fact>) -> Vec<Entry> {
    let stream = StreamId::Session(session);
    (0..)
        .zip(facts)
        .map(|(seq, fact)| Entry { stream, seq, at: Timestamp::from_nanos((seq + 1) * 1_000_000), fact })
        .collect()
}

fn failing_session() -> Vec<Entry> {
    let session = SessionId::from_bytes([8; 16]);
    let mut facts = vec![started(session)];
    facts.extend(model_call(session, ModelOutcome::Fault(FaultKind::Server)));
    facts.extend(tool_call(session, ToolOutcome::Failed));
    facts.push(finished(SessionStatus::Error, Some(EndReason::ModelUnavailable)));
    entries(session, facts)
}

fn spans() -> Vec<SpanData> {
    let mut fold = SpanFold::new();
    let entries = [journal(), failing_session()].concat();
    entries.iter().filter_map(|entry| fold.apply(entry)).collect()
}

/// Attribute names of the registry with their types; a closed set is a string.
fn registry() -> BTreeMap<String, String> {
    let registry: Json = serde_saphyr::from_str(REGISTRY).unwrap();
    let attributes = registry["attributes"].as_array().expect("a list of attributes");
    let kind = |attribute: &Json| attribute["type"].as_str().unwrap_or("string").to_owned();
    attributes.iter().map(|one| (one["key"].as_str().unwrap().to_owned(), kind(one))).collect()
}

/// The required attributes of a span type, groups of attributes included.
fn required(span_type: &str) -> Vec<String> {
    let file: Json = serde_saphyr::from_str(SPANS).unwrap();
    let groups = file["attribute_groups"].as_array().unwrap();
    let span = file["spans"].as_array().unwrap().iter().find(|span| span["type"] == span_type).expect("the span type");
    let mut names = Vec::new();
    collect(&span["attributes"], groups, &mut names);
    names
}

fn collect(attributes: &Json, groups: &[Json], names: &mut Vec<String>) {
    for attribute in attributes.as_array().into_iter().flatten() {
        if let Some(group) = attribute["ref_group"].as_str() {
            let group = groups.iter().find(|one| one["id"] == group).expect("the group");
            collect(&group["attributes"], groups, names);
        } else if attribute["requirement_level"] == "required" {
            names.push(attribute["ref"].as_str().unwrap().to_owned());
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::I64(_) => "int",
        Value::F64(_) => "double",
        Value::String(_) => "string",
        Value::Array(Array::String(_)) => "string[]",
        other => panic!("no type of ours: {other:?}"),
    }
}

#[test]
fn every_name_is_in_the_registry_with_its_type() {
    let mut known = registry();
    // Stable, and so in the general registry: https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/
    known.insert("error.type".into(), "string".into());
    let mut seen = 0;
    for attribute in spans().iter().flat_map(|span| &span.attributes) {
        let name = attribute.key.as_str();
        if name.starts_with("glassbox.") {
            continue;
        }
        assert_eq!(known.get(name).map(String::as_str), Some(kind(&attribute.value)), "{name}");
        seen += 1;
    }
    assert!(seen > 30, "{seen} attributes of the conventions");
}

#[test]
fn what_the_conventions_require_is_there() {
    let spans = spans();
    for (name, span_type) in [
        ("invoke_agent bank", "gen_ai.invoke_agent.internal"),
        ("chat claude-x", "gen_ai.inference.client"),
        ("execute_tool lookup", "gen_ai.execute_tool.internal"),
    ] {
        let required = required(span_type);
        assert!(required.contains(&"gen_ai.operation.name".to_owned()), "{span_type}: {required:?}");
        let mut found = 0;
        for span in spans.iter().filter(|span| span.name == name) {
            found += 1;
            for key in &required {
                assert!(span.attributes.iter().any(|attribute| attribute.key.as_str() == key), "{name} lacks {key}");
            }
        }
        assert_eq!(found, 2, "{name}: one that is well, one that failed");
    }
}

#[test]
fn an_error_type_stands_where_the_status_is_error_and_nowhere_else() {
    for span in spans() {
        let named = span.attributes.iter().any(|attribute| attribute.key.as_str() == "error.type");
        assert_eq!(named, matches!(span.status, opentelemetry::trace::Status::Error { .. }), "{}", span.name);
    }
}

#[test]
fn no_attribute_is_set_twice() {
    for span in spans() {
        let mut keys: Vec<_> = span.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        keys.sort_unstable();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all, "{}", span.name);
    }
}
