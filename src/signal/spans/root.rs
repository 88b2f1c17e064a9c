//! A session that is open, and the root span that it becomes. Knows nothing of single attempts.

use std::collections::HashMap;

use opentelemetry::{
    KeyValue,
    trace::{Event, Link, SpanKind, Status},
};
use opentelemetry_sdk::trace::{SpanData, SpanLinks};

use super::{
    Place, Shape,
    attributes::{capped, foreign, integer, string},
    call::OpenCall,
    content::Content,
    event, span, span_context,
};
use crate::{
    core::{
        Entry, SessionId, SessionStatus, SpanId, Timestamp,
        fact::{
            ConfirmationEnd, FallbackCause, ModelCall, ModelCallEnd, SessionEnd, SessionStarted, SpanLink,
            ToolCallBegin, ToolCallEnd, TraceStart,
        },
    },
    signal::names,
};

/// A session between its first and its last fact.
#[derive(Debug)]
pub(super) struct OpenSession {
    started: Timestamp,
    trace: TraceStart,
    /// The root of the session before in its conversation.
    before: Option<SpanLink>,
    name: String,
    conversation: Option<KeyValue>,
    attributes: Vec<KeyValue>,
    events: Vec<Event>,
    /// Boxed: hardly ever is more than one open, in a table with room for several.
    calls: HashMap<SpanId, Box<OpenCall>>,
    /// The last fallback, and in whose place and why it is asked.
    fallback: Option<(String, [KeyValue; 2])>,
    /// Where its spans show what was said.
    content: Option<Box<Content>>,
}

impl OpenSession {
    /// The session that this fact opened.
    pub(super) fn new(
        session: SessionId,
        at: Timestamp,
        start: &SessionStarted,
        content: Option<Box<Content>>,
    ) -> Self {
        let conversation = start.conversation_id.as_deref().map(|id| foreign(names::GEN_AI_CONVERSATION_ID, id));
        let version = start.prompt.version.as_deref().map(|version| string(names::PROMPT_VERSION, version));
        let mut attributes = vec![
            string(names::GEN_AI_OPERATION_NAME, names::operation::INVOKE_AGENT),
            string(names::GEN_AI_PROVIDER_NAME, &start.model.provider),
            string(names::GEN_AI_AGENT_NAME, &start.agent),
            string(names::GEN_AI_REQUEST_MODEL, &start.model.request_model),
            string(names::SESSION_ID, &session.to_string()),
            string(names::TASK_TYPE, &start.task_type),
            string(names::PROMPT_NAME, &start.prompt.name),
        ];
        attributes.extend(conversation.clone());
        attributes.extend(version);
        Self {
            started: at,
            trace: start.trace.clone(),
            before: start.follows.as_ref().map(|follows| follows.root.clone()),
            name: format!("{} {}", names::operation::INVOKE_AGENT, capped(&start.agent)),
            conversation,
            attributes,
            events: Vec::new(),
            calls: HashMap::new(),
            fallback: None,
            content,
        }
    }

    /// Takes in a fact for what the spans to come show.
    pub(super) fn follow(&mut self, entry: &Entry) {
        if let Some(content) = &mut self.content {
            content.follow(&entry.fact, entry.at);
        }
    }

    /// Something that happened to the session itself.
    pub(super) fn note(&mut self, event: Event) {
        self.events.push(event);
    }

    /// The next model call goes to another model, whose span says so.
    pub(super) fn fall_back(&mut self, at: Timestamp, from: &str, to: &str, cause: FallbackCause) {
        let why = [string(names::FALLBACK_FROM, from), string(names::FALLBACK_CAUSE, cause.label())];
        let mut attributes = why.to_vec();
        attributes.push(string(names::FALLBACK_TO, to));
        self.note(event(names::EVENT_MODEL_FALLBACK, at, attributes));
        self.fallback = Some((to.to_owned(), why));
    }

    /// A model call began.
    pub(super) fn begin_model(&mut self, op: SpanId, mut opened: OpenCall, call: &ModelCall) {
        if let Some((_, why)) = self.fallback.as_ref().filter(|(to, _)| *to == call.model.name) {
            opened.stands_in(why);
        }
        if let Some(content) = &mut self.content {
            content.asked(op, call);
        }
        self.begin(op, opened);
    }

    /// A tool call began.
    pub(super) fn begin_tool(&mut self, op: SpanId, opened: OpenCall, call: &ToolCallBegin) {
        if let Some(content) = &mut self.content {
            content.called(op, call);
        }
        self.begin(op, opened);
    }

    /// A call began.
    pub(super) fn begin(&mut self, op: SpanId, call: OpenCall) {
        self.calls.insert(op, Box::new(call));
    }

    /// An open call; none where its beginning was not seen.
    pub(super) fn call(&mut self, op: SpanId) -> Option<&mut OpenCall> {
        Some(self.calls.get_mut(&op)?)
    }

    /// A model call ended.
    pub(super) fn end_model(&mut self, op: SpanId, at: Timestamp, end: &ModelCallEnd) -> Option<SpanData> {
        let mut shape = self.calls.remove(&op)?.close_model(op, at, end, self.conversation.clone());
        if let Some(content) = &mut self.content {
            shape.attributes.extend(content.replied(op, end));
        }
        Some(span(self.place(), Shape { parent: Some(self.trace.root), ..shape }))
    }

    /// A tool call ended.
    pub(super) fn end_tool(&mut self, op: SpanId, at: Timestamp, end: &ToolCallEnd) -> Option<SpanData> {
        let mut shape = self.calls.remove(&op)?.close_tool(op, at, end);
        if let Some(content) = &mut self.content {
            shape.attributes.extend(content.returned(op, end));
        }
        Some(span(self.place(), Shape { parent: Some(self.trace.root), ..shape }))
    }

    /// The waiting for a person ended.
    pub(super) fn end_confirmation(&mut self, op: SpanId, at: Timestamp, end: &ConfirmationEnd) -> Option<SpanData> {
        let shape = self.calls.remove(&op)?.close_confirmation(op, at, end);
        Some(span(self.place(), Shape { parent: Some(self.trace.root), ..shape }))
    }

    /// The session ended.
    pub(super) fn close(mut self, at: Timestamp, end: &SessionEnd) -> SpanData {
        self.attributes.extend(totals(end));
        let status = if end.status == SessionStatus::Error {
            let cause = end.reason.map_or(end.status.label(), |reason| reason.label());
            self.attributes.push(string(names::ERROR_TYPE, cause));
            Status::error(cause)
        } else {
            Status::Unset
        };
        self.attributes.extend(self.content.take().map(|content| content.ended(end)).unwrap_or_default());
        let shape = Shape {
            id: self.trace.root,
            parent: self.trace.parent,
            parent_is_remote: self.trace.parent.is_some(),
            kind: SpanKind::Internal,
            links: self.links(),
            name: self.name.clone(),
            from: self.started,
            to: at,
            attributes: std::mem::take(&mut self.attributes),
            events: std::mem::take(&mut self.events),
            status,
        };
        span(self.place(), shape)
    }

    const fn place(&self) -> Place {
        Place { trace: self.trace.trace_id, sampled: self.trace.sampled }
    }

    fn links(&self) -> SpanLinks {
        let mut links = SpanLinks::default();
        for link in self.trace.link.iter().chain(&self.before) {
            // Whether the other trace is sampled is not in the journal, so no flag is claimed.
            let place = Place { trace: link.trace_id, sampled: false };
            links.links.push(Link::new(span_context(place, link.span_id, true), Vec::new(), 0));
        }
        links
    }
}

fn totals(end: &SessionEnd) -> Vec<KeyValue> {
    let mut attributes = vec![
        string(names::STATUS, end.status.label()),
        KeyValue::new(names::DEGRADED, end.degraded),
        integer(names::SESSION_STEPS, end.steps),
        integer(names::SESSION_INPUT_TOKENS, end.usage.input),
        integer(names::SESSION_OUTPUT_TOKENS, end.usage.output),
        integer(names::SESSION_ACTIVE_MS, end.active_ms),
    ];
    attributes.extend(end.cost.map(|cost| KeyValue::new(names::SESSION_COST_USD, cost.usd())));
    attributes.extend(end.reason.map(|reason| string(names::REASON, reason.label())));
    attributes
}
