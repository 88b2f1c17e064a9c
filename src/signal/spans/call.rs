//! A model or tool call that is open, and the span that it becomes. Knows nothing of its session.

use opentelemetry::{
    KeyValue,
    trace::{Event, SpanKind, Status},
};
use opentelemetry_sdk::trace::SpanLinks;

use super::{
    Shape,
    attributes::{capped, foreign, integer, string, strings},
    event, mcp,
};
use crate::{
    core::{
        Effect, Prices, SessionId, SpanId, Timestamp, ToolOutcome, Usage,
        fact::{
            ConfirmationEnd, ConfirmationRequest, McpPeer, ModelCall, ModelCallEnd, ModelOutcome, ToolCallBegin,
            ToolCallEnd,
        },
    },
    signal::names,
};

/// A call between its first and its last fact.
#[derive(Debug)]
pub(super) struct OpenCall {
    kind: SpanKind,
    name: String,
    started: Timestamp,
    attributes: Vec<KeyValue>,
    effect: Option<Effect>,
    mcp: Option<Box<McpPeer>>,
    prices: Option<Prices>,
    running: Vec<Attempt>,
    attempts: Vec<Event>,
}

#[derive(Debug)]
struct Attempt {
    number: u32,
    started: Timestamp,
    wait_ms: u64,
    model: Option<KeyValue>,
}

impl OpenCall {
    /// A model call that began.
    pub(super) fn model(session: SessionId, at: Timestamp, call: &ModelCall) -> Self {
        let attributes = vec![
            string(names::GEN_AI_OPERATION_NAME, names::operation::CHAT),
            string(names::GEN_AI_PROVIDER_NAME, &call.model.provider),
            string(names::GEN_AI_REQUEST_MODEL, &call.model.request_model),
            integer(names::GEN_AI_REQUEST_MAX_TOKENS, call.max_tokens),
            string(names::SESSION_ID, &session.to_string()),
            integer(names::STEP, call.step),
            string(names::MODEL_NAME, &call.model.name),
            string(names::MODEL_PURPOSE, call.purpose.label()),
            string(names::COUNTED_BY, call.counted_by.label()),
        ];
        let name = format!("{} {}", names::operation::CHAT, capped(&call.model.request_model));
        Self { prices: call.model.prices, ..Self::new(SpanKind::Client, name, at, attributes) }
    }

    /// A tool call that began. An invented name stays out of the span's name, which tools group by.
    pub(super) fn tool(session: SessionId, at: Timestamp, call: &ToolCallBegin) -> Self {
        let mut attributes = vec![
            string(names::GEN_AI_OPERATION_NAME, names::operation::EXECUTE_TOOL),
            foreign(names::GEN_AI_TOOL_NAME, &call.tool),
            foreign(names::GEN_AI_TOOL_CALL_ID, &call.call_id),
            string(names::SESSION_ID, &session.to_string()),
            integer(names::STEP, call.step),
        ];
        let mut name = names::operation::EXECUTE_TOOL.to_owned();
        if call.known {
            attributes.push(string(names::GEN_AI_TOOL_TYPE, "function"));
            name.push(' ');
            name.push_str(capped(&call.tool));
        }
        Self::new(SpanKind::Internal, name, at, attributes)
    }

    /// A call that began to wait for a person. It is no operation of the conventions.
    pub(super) fn confirmation(session: SessionId, at: Timestamp, request: &ConfirmationRequest) -> Self {
        let attributes = vec![
            string(names::GEN_AI_TOOL_NAME, &request.tool),
            foreign(names::GEN_AI_TOOL_CALL_ID, &request.call_id),
            string(names::SESSION_ID, &session.to_string()),
            integer(names::STEP, request.step),
        ];
        Self::new(SpanKind::Internal, names::AWAIT_CONFIRMATION.to_owned(), at, attributes)
    }

    const fn new(kind: SpanKind, name: String, started: Timestamp, attributes: Vec<KeyValue>) -> Self {
        Self {
            kind,
            name,
            started,
            attributes,
            effect: None,
            mcp: None,
            prices: None,
            running: Vec::new(),
            attempts: Vec::new(),
        }
    }

    /// It is asked in the place of another model.
    pub(super) fn stands_in(&mut self, why: &[KeyValue]) {
        self.attributes.extend_from_slice(why);
    }

    /// What the call changes.
    pub(super) const fn changes(&mut self, effect: Effect) {
        self.effect = Some(effect);
    }

    /// The MCP server that an attempt asks. What was refused before, or was known, asked none.
    pub(super) fn asks(&mut self, mcp: Option<&McpPeer>) {
        self.mcp = mcp.cloned().map(Box::new);
    }

    /// An attempt went out.
    pub(super) fn attempt_started(&mut self, at: Timestamp, number: u32, wait_ms: u64, model: Option<KeyValue>) {
        // One at a time, as a rule.
        self.running.reserve_exact(1);
        self.running.push(Attempt { number, started: at, wait_ms, model });
    }

    /// An attempt ended.
    pub(super) fn attempt_finished(&mut self, at: Timestamp, number: u32, outcome: &'static str) {
        let Some(index) = self.running.iter().position(|attempt| attempt.number == number) else { return };
        let attempt = self.running.remove(index);
        let took = at.since(attempt.started).as_millis();
        let mut attributes = vec![
            integer(names::ATTEMPT_NUMBER, attempt.number),
            string(names::ATTEMPT_OUTCOME, outcome),
            integer(names::ATTEMPT_DURATION_MS, took),
        ];
        if attempt.wait_ms > 0 {
            attributes.push(integer(names::ATTEMPT_WAIT_MS, attempt.wait_ms));
        }
        attributes.extend(attempt.model);
        self.attempts.push(event(names::EVENT_ATTEMPT, at, attributes));
    }

    /// The span of a model call that ended.
    pub(super) fn close_model(
        mut self,
        op: SpanId,
        at: Timestamp,
        end: &ModelCallEnd,
        conversation: Option<KeyValue>,
    ) -> Shape {
        let outcome = end.outcome.label();
        let failed = match end.outcome {
            ModelOutcome::Ok | ModelOutcome::Cancelled => false,
            ModelOutcome::Lost | ModelOutcome::Fault(_) => true,
        };
        self.cut_attempts(at, outcome);
        self.attributes.extend(conversation);
        self.attributes.push(string(names::MODEL_OUTCOME, outcome));
        self.attributes.push(integer(names::RETRIES, end.attempts.saturating_sub(1)));
        if let Some(reply) = &end.reply {
            self.attributes.push(foreign(names::GEN_AI_RESPONSE_MODEL, &reply.model));
            self.attributes.push(strings(names::GEN_AI_RESPONSE_FINISH_REASONS, &reply.finish_reason));
        }
        if end.outcome == ModelOutcome::Ok || end.usage.total() > 0 {
            self.attributes.extend(usage(&end.usage));
            let cost = self.prices.map(|prices| prices.cost(&end.usage));
            self.attributes.extend(cost.map(|cost| KeyValue::new(names::COST_USD, cost.usd())));
        }
        let events = std::mem::take(&mut self.attempts);
        self.shape(op, at, events, failed.then_some(outcome))
    }

    /// The span of a tool call that ended.
    pub(super) fn close_tool(mut self, op: SpanId, at: Timestamp, end: &ToolCallEnd) -> Shape {
        let outcome = end.outcome.label();
        // Whoever stopped the session meant to; nothing went wrong with the tool.
        let failed = end.outcome.is_error() && end.outcome != ToolOutcome::Cancelled;
        self.cut_attempts(at, outcome);
        self.attributes.push(string(names::TOOL_OUTCOME, outcome));
        self.attributes.push(integer(names::RETRIES, end.attempts.saturating_sub(1)));
        self.attributes.push(integer(names::TOOL_RESULT_TOKENS, end.observation.tokens));
        self.attributes.extend(end.arguments_valid.map(|valid| KeyValue::new(names::TOOL_ARGUMENTS_VALID, valid)));
        self.attributes.extend(end.cached.then(|| KeyValue::new(names::TOOL_CACHED, true)));
        self.attributes.extend(self.effect.map(|effect| string(names::TOOL_EFFECT, effect.label())));
        self.attributes.extend(self.mcp.as_deref().into_iter().flat_map(mcp::attributes));
        // One attempt says nothing that the span does not say itself.
        let events = if self.attempts.len() > 1 { std::mem::take(&mut self.attempts) } else { Vec::new() };
        self.shape(op, at, events, failed.then_some(outcome))
    }

    /// The span of a wait that ended; whatever was decided, the waiting itself did not fail.
    pub(super) fn close_confirmation(mut self, op: SpanId, at: Timestamp, end: &ConfirmationEnd) -> Shape {
        self.attributes.push(string(names::CONFIRMATION_DECISION, end.decision.label()));
        self.shape(op, at, Vec::new(), None)
    }

    /// Attempts that were still running when their call ended share its outcome.
    fn cut_attempts(&mut self, at: Timestamp, outcome: &'static str) {
        while let Some(attempt) = self.running.first() {
            self.attempt_finished(at, attempt.number, outcome);
        }
    }

    fn shape(mut self, id: SpanId, to: Timestamp, events: Vec<Event>, error: Option<&'static str>) -> Shape {
        self.attributes.extend(error.map(|error| string(names::ERROR_TYPE, error)));
        Shape {
            id,
            parent: None,
            parent_is_remote: false,
            kind: self.kind,
            name: self.name,
            from: self.started,
            to,
            attributes: self.attributes,
            events,
            links: SpanLinks::default(),
            status: error.map_or(Status::Unset, Status::error),
        }
    }
}

fn usage(usage: &Usage) -> Vec<KeyValue> {
    let mut attributes = vec![
        integer(names::GEN_AI_USAGE_INPUT_TOKENS, usage.input),
        integer(names::GEN_AI_USAGE_OUTPUT_TOKENS, usage.output),
    ];
    let parts = [
        (names::GEN_AI_USAGE_CACHE_READ, usage.cache_read),
        (names::GEN_AI_USAGE_CACHE_CREATION, usage.cache_write),
        (names::GEN_AI_USAGE_REASONING, usage.reasoning),
    ];
    attributes.extend(parts.into_iter().filter(|part| part.1 > 0).map(|(key, tokens)| integer(key, tokens)));
    if usage.estimated {
        attributes.push(KeyValue::new(names::USAGE_ESTIMATED, true));
    }
    attributes
}
