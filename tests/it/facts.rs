//! One sample of every fact, for whoever must not forget one.

use glassbox::{
    Effect, FaultKind, Principal, Sensitive,
    core::{
        Arguments, BlobHash, EndReason, Fact, Limits, ModelReply, Money, SessionId, SessionStatus, SpanId, Timestamp,
        ToolCall, ToolDefinition, ToolOutcome, TraceId, Usage,
        circuit::{CircuitCause, CircuitChange, CircuitId, CircuitState},
        fact::{
            AttemptEnd, CallPurpose, CarriedPair, ConfirmationEnd, ConfirmationRequest, CountedBy, Decision,
            DefinitionChange, EraseCause, FallbackCause, Follows, HandoverCause, HandoverChange, JOURNAL_VERSION,
            Language, Limit, McpPeer, McpWay, ModelCall, ModelCallEnd, ModelInfo, ModelOutcome, Observation, PromptRef,
            RateLimit, SessionEnd, SessionStarted, SpanContent, SpanLink, SuspendCause, ToolCallBegin, ToolCallEnd,
            TraceStart,
        },
        handover::{HandoverId, HandoverStatus},
    },
};
use serde_json::json;

/// The number of kinds of fact; [`place`] does not compile without a new one.
const KINDS: usize = 30;

/// How a session of this id, principal and start begins.
pub(crate) fn session_started(id: SessionId, principal: &str, agent: &str) -> Fact {
    Fact::SessionStarted(Box::new(SessionStarted {
        version: JOURNAL_VERSION,
        agent: agent.to_owned(),
        task: "Сколько я потратил на такси в сентябре?".into(),
        task_type: "question".to_owned(),
        principal: Principal {
            id: principal.to_owned(),
            scopes: vec!["accounts:read".to_owned()],
            roles: vec!["user".to_owned()],
            attributes: [("customer_id".to_owned(), "C-001".to_owned())].into(),
        },
        conversation_id: Some("conversation-7".to_owned()),
        follows: Some(Box::new(Follows {
            session: SessionId::from_bytes([8; 16]),
            root: SpanLink { trace_id: TraceId::from_bytes([8; 16]), span_id: span(8) },
            carried: vec![CarriedPair {
                session: SessionId::from_bytes([8; 16]),
                task: hash(10),
                answer: hash(11),
                tokens: 42,
            }],
            left_out: 7,
            doubtful: vec!["pay".to_owned()],
        })),
        model: model(),
        limits: Limits::default(),
        language: Language::Ru,
        prompt: PromptRef { name: agent.to_owned(), version: Some("3".to_owned()), hash: hash(1) },
        tools_hash: hash(2),
        output_schema_hash: Some(hash(9)),
        config_hash: hash(3),
        trace: TraceStart {
            trace_id: id.trace_id(),
            root: SpanId::of_fact(id, 0),
            sampled: true,
            content: SpanContent::Masked,
            parent: None,
            link: Some(SpanLink { trace_id: TraceId::from_bytes([9; 16]), span_id: span(9) }),
        },
        metadata: json!({"z": 1, "a": {"nested": [0.1, null, "\u{1f695}"]}}).as_object().cloned().expect("an object"),
    }))
}

/// How a session ends.
pub(crate) fn session_finished(status: SessionStatus, reason: Option<EndReason>) -> Fact {
    Fact::SessionFinished(Box::new(SessionEnd {
        status,
        reason,
        answer: None,
        partial: Some("Такси: 2 поездки".into()),
        explanation: Some("шаг 2 из 15".to_owned()),
        degraded: true,
        steps: 2,
        usage: Usage { input: 900, output: 80, cache_read: 5, cache_write: 6, reasoning: 7, estimated: true },
        cost: Some(Money::from_nanos(1_590_000)),
        tools_called: vec!["get_transactions".to_owned()],
        context_peak: 0.123_456_789,
        active_ms: 1_234,
    }))
}

/// The end of a model call.
pub(crate) fn model_call_finished(outcome: ModelOutcome) -> Fact {
    let end = ModelCallEnd { outcome, reply: None, usage: Usage::default(), error: None, attempts: 1 };
    Fact::ModelCallFinished { op: span(1), end: Box::new(end) }
}

/// The beginning of a model call of this step.
pub(crate) fn model_call_started(step: u32) -> Fact {
    let call = ModelCall {
        step,
        purpose: CallPurpose::Step,
        model: model(),
        estimated_input_tokens: 700,
        counted_by: CountedBy::Tokenizer,
        max_tokens: 4_096,
        body_hash: hash(4),
        summarized_steps: 3,
        summarized_pairs: 5,
    };
    Fact::ModelCallStarted { op: span(1), call: std::sync::Arc::new(call) }
}

/// An operator's switch of a tool's breaker.
pub(crate) fn circuit_changed(tool: &str, to: CircuitState, until: Option<Timestamp>) -> Fact {
    Fact::CircuitChanged(Box::new(CircuitChange {
        circuit: CircuitId::tool(tool),
        from: CircuitState::HalfOpen,
        to,
        cause: CircuitCause::ForcedOpen,
        forced: true,
        until,
        by: sensitive("оператор"),
    }))
}

/// One sample of every fact, the beginning of a session first.
pub(crate) fn samples(id: SessionId) -> Vec<Fact> {
    let mut facts = vec![session_started(id, "C-001", "bank")];
    facts.extend(model_facts());
    facts.extend(tool_facts());
    facts.extend([
        confirmation_requested("call_1", Timestamp::from_nanos(5_000)),
        Fact::ConfirmationDecided {
            op: span(3),
            end: ConfirmationEnd {
                decision: Decision::Denied, by: "C-002".into(), comment: sensitive("не надо")
            },
        },
        Fact::SessionSuspended { cause: SuspendCause::Journal },
        Fact::SessionResumed { process: "proc_00".to_owned() },
        Fact::CancelRequested { by: "signal".into() },
        Fact::ContextCompacted {
            calls: vec!["call_1_1".to_owned()],
            pairs: 4,
            steps: 2,
            summary: sensitive("такси: 2 поездки"),
            tokens_before: 160_000,
            tokens_after: 9_000,
        },
        Fact::AnswerChecked { problems: Sensitive::new(vec!["/сумма: missing".to_owned()]) },
        Fact::LimitReached { limit: Limit::TokenBudget, value: 50_000 },
        Fact::HandedOver {
            cause: HandoverCause::UnknownOutcome,
            detail: "перевод мог уйти".into(),
            tool: Some("pay".to_owned()),
        },
        Fact::ModelFallback {
            step: 1,
            from: "scripted".to_owned(),
            to: "backup".to_owned(),
            cause: FallbackCause::Fault(FaultKind::Overloaded),
        },
        Fact::PrimaryChanged { model: "scripted".to_owned(), down: true },
        Fact::ModelChecked {
            model: "backup".to_owned(),
            request_model: "backup-1".to_owned(),
            tools_hash: hash(2),
            ok: false,
        },
        Fact::ProcessStarted { version: "0.1.0".to_owned(), surface: "serve".to_owned() },
        Fact::ProcessStopped { suspended: 3 },
        Fact::ToolDefinitionChanged(Box::new(DefinitionChange {
            server: "files".to_owned(),
            tool: "read.file".to_owned(),
            called: Some("files_read_file".to_owned()),
            old: Some(hash(5)),
            new: hash(6),
            blocked: true,
            definition: ToolDefinition {
                name: "read.file".to_owned(),
                description: "Читает файл.".to_owned(),
                input_schema: json!({"type": "object"}),
            },
        })),
        Fact::HandoverChanged(Box::new(HandoverChange {
            handover: HandoverId { session: id, seq: 12 },
            to: HandoverStatus::Claimed,
            by: "оператор".into(),
        })),
        Fact::SessionsErased { count: 40, cause: EraseCause::Retention },
        Fact::ConfigReloaded { refused: Some("line 3, agents.bank.model: no such model".into()) },
        Fact::RateLimited { limit: RateLimit::ToolPrincipal, tool: Some("pay".to_owned()), wait_ms: 12_345, times: 3 },
        circuit_changed("pay", CircuitState::Open, Some(Timestamp::from_nanos(1_771_410_825_000_000_001))),
        session_finished(SessionStatus::BudgetExceeded, Some(EndReason::TokenBudget)),
    ]);
    facts
}

/// A call that waits for a person until then.
pub(crate) fn confirmation_requested(call_id: &str, expires: Timestamp) -> Fact {
    Fact::ConfirmationRequested {
        op: span(3),
        request: Box::new(ConfirmationRequest {
            step: 1,
            call_id: call_id.to_owned(),
            tool: "transfer".to_owned(),
            arguments: json!({"to": "Айгерим", "amount": 0.1, "z": 5e-324}),
            arguments_hash: hash(6),
            definition_hash: hash(7),
            principal: Principal {
                id: "C-001".to_owned(),
                scopes: Vec::new(),
                roles: Vec::new(),
                attributes: [].into(),
            },
            expires,
        }),
    }
}

fn model_facts() -> [Fact; 4] {
    let calls = vec![ToolCall {
        id: "call_1".to_owned(),
        name: "get_transactions".to_owned(),
        arguments: Arguments::Json(json!({"month": "2026-09", "amount": -0.5, "big": 9_007_199_254_740_991_i64})),
    }];
    let reply = ModelReply {
        text: "line\nbreak \"quoted\" \u{0}".to_owned(),
        calls,
        usage: Usage { input: 700, output: 40, ..Usage::default() },
        model: "scripted-1".to_owned(),
        finish_reason: "tool_use".to_owned(),
    };
    [
        model_call_started(1),
        Fact::ModelAttemptStarted { call: span(1), attempt: 1, model: "scripted".to_owned(), wait_ms: 0 },
        Fact::ModelAttemptFinished {
            call: span(1),
            attempt: 1,
            end: AttemptEnd::new(ModelOutcome::Fault(FaultKind::Overloaded), sensitive("529")),
        },
        Fact::ModelCallFinished {
            op: span(1),
            end: Box::new(ModelCallEnd {
                outcome: ModelOutcome::Ok,
                usage: reply.usage,
                reply: Some(reply),
                error: None,
                attempts: 2,
            }),
        },
    ]
}

fn tool_facts() -> [Fact; 4] {
    let way = McpWay::Http { host: "127.0.0.1".to_owned(), port: 8080 };
    let mcp = Some(Box::new(McpPeer { protocol: Some("2025-11-25".to_owned()), way }));
    [
        Fact::ToolCallStarted {
            op: span(2),
            call: Box::new(ToolCallBegin {
                step: 1,
                call_id: "call_1".to_owned(),
                tool: "get_transactions".to_owned(),
                known: true,
                arguments: Arguments::Raw("{\"month\":".to_owned()),
            }),
        },
        Fact::ToolAttemptStarted { call: span(2), attempt: 1, effect: Effect::Unsafe, wait_ms: 0, mcp },
        Fact::ToolAttemptFinished {
            call: span(2),
            attempt: 1,
            end: AttemptEnd::new(ToolOutcome::Timeout, sensitive("no answer in 15 s")),
        },
        Fact::ToolCallFinished {
            op: span(2),
            end: Box::new(ToolCallEnd {
                call_id: "call_1".to_owned(),
                outcome: ToolOutcome::UnknownOutcome,
                observation: Observation {
                    content: "неизвестно".to_owned(),
                    is_error: true,
                    tokens: 5,
                    whole: Some(hash(5)),
                },
                arguments_valid: Some(true),
                error: sensitive("no answer in 15 s"),
                attempts: 1,
                cached: false,
            }),
        },
    ]
}

fn model() -> ModelInfo {
    ModelInfo {
        name: "scripted".to_owned(),
        request_model: "scripted-1".to_owned(),
        provider: "scripted".to_owned(),
        context_window: 200_000,
        max_output_tokens: 4_096,
        prices: None,
    }
}

fn sensitive(text: &str) -> Option<Sensitive<String>> {
    Some(text.into())
}

/// A hash that is easy to tell.
pub(crate) fn hash(byte: u8) -> BlobHash {
    BlobHash::from_bytes([byte; 32])
}

fn span(byte: u8) -> SpanId {
    SpanId::from_bytes([byte; 8])
}

/// A number for each kind of fact, all of them named.
const fn place(fact: &Fact) -> usize {
    match fact {
        Fact::SessionStarted(_) => 0,
        Fact::SessionSuspended { .. } => 1,
        Fact::SessionResumed { .. } => 2,
        Fact::CancelRequested { .. } => 3,
        Fact::ModelCallStarted { .. } => 4,
        Fact::ModelAttemptStarted { .. } => 5,
        Fact::ModelAttemptFinished { .. } => 6,
        Fact::ModelCallFinished { .. } => 7,
        Fact::ToolCallStarted { .. } => 8,
        Fact::ToolAttemptStarted { .. } => 9,
        Fact::ToolAttemptFinished { .. } => 10,
        Fact::ToolCallFinished { .. } => 11,
        Fact::LimitReached { .. } => 12,
        Fact::HandedOver { .. } => 13,
        Fact::SessionFinished(_) => 14,
        Fact::ProcessStarted { .. } => 15,
        Fact::ProcessStopped { .. } => 16,
        Fact::RateLimited { .. } => 17,
        Fact::CircuitChanged(_) => 18,
        Fact::ConfirmationRequested { .. } => 20,
        Fact::ConfirmationDecided { .. } => 21,
        Fact::SessionsErased { .. } => 19,
        Fact::ContextCompacted { .. } => 22,
        Fact::ModelFallback { .. } => 23,
        Fact::PrimaryChanged { .. } => 24,
        Fact::ModelChecked { .. } => 25,
        Fact::AnswerChecked { .. } => 26,
        Fact::ToolDefinitionChanged(_) => 27,
        Fact::ConfigReloaded { .. } => 28,
        Fact::HandoverChanged(_) => 29,
    }
}

#[test]
fn there_is_one_sample_of_every_fact() {
    let mut places: Vec<_> = samples(SessionId::from_bytes([1; 16])).iter().map(place).collect();
    places.sort_unstable();
    assert_eq!(places, Vec::from_iter(0..KINDS));
}

#[test]
fn every_fact_is_named_as_it_is_written() {
    for fact in samples(SessionId::from_bytes([1; 16])) {
        let json = serde_json::to_value(&fact).expect("plain data");
        let tags: Vec<_> = json.as_object().expect("an object with one key").keys().collect();
        assert_eq!(tags, [fact.name()]);
    }
}
