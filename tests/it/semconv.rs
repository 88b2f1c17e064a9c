//! The spans speak the words of the OpenTelemetry GenAI conventions, held against a copy of
//! their registry.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod mcp;

use std::collections::{BTreeMap, BTreeSet};

use glassbox::{
    core::{
        Arguments, BlobHash, EndReason, Entry, Fact, FaultKind, Limits, ModelReply, Principal, SessionId,
        SessionStatus, SpanId, StreamId, Timestamp, ToolOutcome, Usage,
        fact::{
            CallPurpose, CountedBy, Language, ModelCall, ModelCallEnd, ModelInfo, ModelOutcome, Observation, PromptRef,
            SessionEnd, SessionStarted, SpanContent, ToolCallBegin, ToolCallEnd, TraceStart,
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
            content: SpanContent::Full,
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
    [
        Fact::ModelCallStarted { op, call: std::sync::Arc::new(begin) },
        Fact::ModelCallFinished { op, end: Box::new(end) },
    ]
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

/// What the registry says of an attribute.
struct Attribute {
    kind: String,
    /// The members of a set that may be added to; empty where it is none.
    members: Vec<String>,
}

/// The attributes of a registry. A set is a string.
fn registry(text: &str) -> BTreeMap<String, Attribute> {
    let registry: Json = serde_saphyr::from_str(text).unwrap();
    let attributes = registry["attributes"].as_array().expect("a list of attributes");
    let attribute = |one: &Json| {
        let kind = one["type"].as_str().unwrap_or("string").to_owned();
        let members = one["type"]["members"].as_array().into_iter().flatten();
        let members = members.filter_map(|member| member["value"].as_str()).map(str::to_owned).collect();
        (one["key"].as_str().unwrap().to_owned(), Attribute { kind, members })
    };
    let mut all: BTreeMap<_, _> = attributes.iter().map(attribute).collect();
    // Stable, and so in the general registry: https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/
    all.insert("error.type".into(), Attribute { kind: "string".into(), members: Vec::new() });
    all
}

/// Members that we add to a set, which the conventions allow, and why.
const OWN_MEMBERS: &[(&str, &str, &str)] =
    &[("gen_ai.provider.name", "scripted", "answers come from a file, from no provider that has a name")];

/// What the conventions recommend and a span of ours lacks, with the reason.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("chat", "server.address", "the journal does not hold endpoints, and spans come from it alone"),
    ("chat", "gen_ai.request.temperature", "not sent: providers use their own"),
    ("chat", "gen_ai.request.top_p", "not sent: providers use their own"),
    ("chat", "gen_ai.request.stop_sequences", "only ReAct models send one, always the same"),
    ("chat", "gen_ai.request.frequency_penalty", "not sent: providers use their own"),
    ("chat", "gen_ai.request.presence_penalty", "not sent: providers use their own"),
    ("chat", "gen_ai.response.id", "not kept: two processes must give the same span from the same journal"),
    ("chat", "gen_ai.response.time_to_first_chunk", "no fact: text while it comes passes the journal by"),
    ("chat", "gen_ai.usage.cache_read.input_tokens", "there where a provider tells of it; scripted models do not"),
    ("chat", "gen_ai.usage.cache_creation.input_tokens", "there where a provider tells of it; scripted models do not"),
    ("chat", "gen_ai.usage.reasoning.output_tokens", "there where a provider tells of it; scripted models do not"),
    ("invoke_agent", "gen_ai.usage.input_tokens", "on the calls: sums over spans must count no token twice"),
    ("invoke_agent", "gen_ai.usage.output_tokens", "on the calls: sums over spans must count no token twice"),
    ("invoke_agent", "gen_ai.usage.cache_read.input_tokens", "on the calls"),
    ("invoke_agent", "gen_ai.usage.cache_creation.input_tokens", "on the calls"),
    ("invoke_agent", "gen_ai.request.max_tokens", "another for each call, and on each of them"),
    ("invoke_agent", "gen_ai.request.temperature", "not sent: providers use their own"),
    ("invoke_agent", "gen_ai.request.top_p", "not sent: providers use their own"),
    ("invoke_agent", "gen_ai.request.stop_sequences", "as on the calls"),
    ("invoke_agent", "gen_ai.request.frequency_penalty", "not sent: providers use their own"),
    ("invoke_agent", "gen_ai.request.presence_penalty", "not sent: providers use their own"),
    ("invoke_agent", "gen_ai.response.finish_reasons", "one for each call, and on each of them"),
    ("execute_tool", "gen_ai.tool.description", "long, and the same for each call: GET /v1/tools has it"),
];

/// Operations of ours, and the type of span that each is.
const OPERATIONS: [(&str, &str); 3] = [
    ("invoke_agent", "gen_ai.invoke_agent.internal"),
    ("chat", "gen_ai.inference.client"),
    ("execute_tool", "gen_ai.execute_tool.internal"),
];

fn operation(span: &SpanData) -> &str {
    span.name.split(' ').next().unwrap_or_default()
}

/// Every span of every scenario: chats, tools, errors, confirmations, fallbacks, lost calls; with
/// and without content.
async fn scenario_spans() -> Vec<SpanData> {
    let mut spans = spans();
    for (_, entries, prompt) in crate::scenarios::prompted_journals().await {
        for mode in SpanContent::ALL {
            spans.extend(crate::content::shown(&entries, mode, &prompt));
        }
    }
    spans
}

/// The attributes of a span type at this level, groups of attributes included.
fn at_level(span_type: &str, level: &str) -> Vec<String> {
    let file: Json = serde_saphyr::from_str(SPANS).unwrap();
    let groups = file["attribute_groups"].as_array().unwrap();
    let span = file["spans"].as_array().unwrap().iter().find(|span| span["type"] == span_type).expect("the span type");
    let mut names = Vec::new();
    collect(&span["attributes"], groups, level, &mut names);
    names
}

fn collect(attributes: &Json, groups: &[Json], level: &str, names: &mut Vec<String>) {
    for attribute in attributes.as_array().into_iter().flatten() {
        if let Some(group) = attribute["ref_group"].as_str() {
            let group = groups.iter().find(|one| one["id"] == group).expect("the group");
            collect(&group["attributes"], groups, level, names);
        } else if attribute["requirement_level"] == level || attribute["requirement_level"].get(level).is_some() {
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

#[tokio::test(start_paused = true)]
async fn every_name_is_in_the_registry_with_its_type_and_every_member_in_its_set() {
    let known = registry(REGISTRY);
    let (mut seen, mut own) = (0, BTreeSet::new());
    for attribute in scenario_spans().await.iter().flat_map(|span| &span.attributes) {
        let name = attribute.key.as_str();
        if name.starts_with("glassbox.") {
            continue;
        }
        let said = known.get(name).unwrap_or_else(|| panic!("{name} is not in the registry"));
        // What may have a structure is a string of JSON: attributes of spans have none.
        let said_kind = if said.kind == "any" { "string" } else { &said.kind };
        assert_eq!(said_kind, kind(&attribute.value), "{name}");
        let value = attribute.value.as_str().into_owned();
        if !said.members.is_empty() && !said.members.contains(&value) {
            let listed = OWN_MEMBERS.iter().position(|(key, member, _)| *key == name && *member == value);
            own.insert(listed.unwrap_or_else(|| panic!("{name} has no member {value}")));
        }
        seen += 1;
    }
    assert!(seen > 1000, "{seen} attributes of the conventions");
    assert_eq!(own.len(), OWN_MEMBERS.len(), "each member of our own is used");
}

#[tokio::test(start_paused = true)]
async fn what_the_conventions_require_and_recommend_is_there_or_has_its_reason() {
    let spans = scenario_spans().await;
    for (name, span_type) in OPERATIONS {
        let of_sort: Vec<_> = spans.iter().filter(|span| operation(span) == name).collect();
        assert!(of_sort.len() > 20, "{name}: {} spans", of_sort.len());
        let has = |span: &SpanData, key: &str| span.attributes.iter().any(|attribute| attribute.key.as_str() == key);
        let required = at_level(span_type, "required");
        assert!(required.contains(&"gen_ai.operation.name".to_owned()), "{span_type}: {required:?}");
        for span in &of_sort {
            let missing: Vec<_> = required.iter().filter(|key| !has(span, key)).collect();
            assert!(missing.is_empty(), "{} lacks {missing:?}", span.name);
        }
        for key in at_level(span_type, "opt_in") {
            assert!(of_sort.iter().any(|span| has(span, &key)), "{name} {key}");
        }
        let recommended = at_level(span_type, "recommended");
        assert!(!recommended.is_empty(), "{span_type}");
        for key in &recommended {
            let reason = LEFT_OUT.iter().find(|(of, left_out, _)| *of == name && left_out == key);
            // By the scenarios: those by hand have every count of tokens that there is.
            let there = of_sort.iter().skip(2).any(|span| has(span, key));
            assert_ne!(there, reason.is_some(), "{name} {key}: {reason:?}");
        }
        let stale = LEFT_OUT.iter().filter(|(of, key, _)| *of == name && !recommended.iter().any(|one| one == key));
        assert_eq!(stale.count(), 0, "{name}: what nobody recommends needs no reason");
    }
}

/// Whoever adds up tokens over all spans of a trace gets those of the session, once.
#[tokio::test(start_paused = true)]
async fn each_token_is_counted_on_one_span() {
    let mut counted = 0;
    for (name, entries) in crate::scenarios::journals().await {
        let mut fold = SpanFold::new();
        let spans: Vec<_> = entries.iter().filter_map(|entry| fold.apply(entry)).collect();
        let sum = |keys: [&str; 2]| -> i64 {
            let attributes = spans.iter().flat_map(|span| &span.attributes);
            let tokens = attributes.filter(|attribute| keys.contains(&attribute.key.as_str()));
            tokens.map(|attribute| if let Value::I64(tokens) = attribute.value { tokens } else { panic!() }).sum()
        };
        let on_calls = sum(["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"]);
        let Some(Fact::SessionFinished(end)) = entries.last().map(|entry| &entry.fact) else { continue };
        assert_eq!(on_calls, i64::try_from(end.usage.total()).unwrap(), "{name}");
        assert_eq!(sum(["glassbox.session.input_tokens", "glassbox.session.output_tokens"]), on_calls, "{name}");
        counted += on_calls;
    }
    assert!(counted > 1000, "{counted} tokens");
}

/// Each operation that began has ended, whatever happened to whoever waited for it.
#[tokio::test(start_paused = true)]
async fn no_span_stays_open() {
    for (name, entries) in crate::scenarios::journals().await {
        let mut fold = SpanFold::new();
        let ended = entries.iter().filter(|entry| fold.apply(entry).is_some()).count();
        let opens = |entry: &&Entry| {
            matches!(
                entry.fact,
                Fact::SessionStarted(_)
                    | Fact::ModelCallStarted { .. }
                    | Fact::ToolCallStarted { .. }
                    | Fact::ConfirmationRequested { .. }
            )
        };
        assert_eq!(entries.iter().filter(opens).count(), ended, "{name}");
        assert_eq!(fold.open_sessions(), 0, "{name}");
    }
}

#[test]
fn an_error_type_stands_where_the_status_is_error_and_nowhere_else() {
    for span in spans() {
        let named = span.attributes.iter().any(|attribute| attribute.key.as_str() == "error.type");
        assert_eq!(named, matches!(span.status, opentelemetry::trace::Status::Error { .. }), "{}", span.name);
    }
}

#[tokio::test(start_paused = true)]
async fn no_attribute_is_set_twice() {
    for span in scenario_spans().await {
        let mut keys: Vec<_> = span.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        keys.sort_unstable();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all, "{}", span.name);
    }
}
