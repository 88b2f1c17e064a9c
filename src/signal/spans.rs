//! The fold from facts to OpenTelemetry spans.
//!
//! Ids, times and attributes come from the journal alone, so the same journal gives the same
//! spans in any process, and a span that died in a queue can be sent again as it was. So this
//! module must never read a clock, a random number, or anything about the process it runs in.
//! Texts of people (task, arguments, results) enter a span in `content` alone, which is off unless
//! somebody asked for it; messages of faults never do.

#![warn(clippy::wildcard_enum_match_arm)]

mod attributes;
mod call;
mod content;
mod mcp;
mod root;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Context, InstrumentationScope, KeyValue, TraceFlags,
    trace::{Event, SpanContext, SpanKind, Status, TraceContextExt as _, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use self::{attributes::string, call::OpenCall, root::OpenSession};
pub use self::{
    attributes::{MAX_ATTRIBUTE_BYTES, clean},
    content::{Contents, MAX_CONTENT_BYTES, MAX_SESSION_BYTES, Prompts},
};
use super::names;
use crate::core::{
    Entry, Fact, SessionId, SpanId, Timestamp, TraceId,
    fact::{HandoverCause, Limit, RateLimit, SessionStarted, SuspendCause},
    port::TraceContext,
};

/// Events of one span at the most; what comes later is only counted.
const MAX_EVENTS: usize = 128;

/// Sessions and calls that are open, and the spans that they become when they close.
///
/// A session whose first fact it has not seen, or whose trace is not sampled, gives no spans.
#[derive(Debug, Default)]
pub struct SpanFold {
    /// Boxed: a table has more room than entries.
    sessions: HashMap<SessionId, Box<OpenSession>>,
    /// Where spans show what was said.
    contents: Option<Contents>,
}

/// What all spans of one session share.
#[derive(Debug, Clone, Copy)]
struct Place {
    trace: TraceId,
    sampled: bool,
}

/// The parts of a span that differ from sort to sort.
#[derive(Debug)]
struct Shape {
    id: SpanId,
    parent: Option<SpanId>,
    parent_is_remote: bool,
    kind: SpanKind,
    name: String,
    from: Timestamp,
    to: Timestamp,
    attributes: Vec<KeyValue>,
    events: Vec<Event>,
    links: SpanLinks,
    status: Status,
}

impl SpanFold {
    /// An empty fold, whose spans show nothing of what was said.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty fold, whose spans show that of what was said.
    pub fn showing(contents: Contents) -> Self {
        Self { contents: Some(contents), ..Self::default() }
    }

    /// Takes the next fact; gives the span that it closes, if it closes one.
    pub fn apply(&mut self, entry: &Entry) -> Option<SpanData> {
        let session = entry.stream.session()?;
        let closed = self.take(session, entry);
        if self.contents.is_some()
            && let Some(open) = self.sessions.get_mut(&session)
        {
            open.follow(entry);
        }
        closed
    }

    /// Long because every fact has its line here.
    fn take(&mut self, session: SessionId, entry: &Entry) -> Option<SpanData> {
        let at = entry.at;
        if let Fact::SessionStarted(start) = &entry.fact {
            self.open(session, at, start);
            return None;
        }
        let open = self.sessions.get_mut(&session)?;
        match &entry.fact {
            Fact::SessionStarted(_)
            | Fact::CircuitChanged(_)
            | Fact::ToolDefinitionChanged(_)
            | Fact::PrimaryChanged { .. }
            | Fact::ModelChecked { .. }
            | Fact::ProcessStarted { .. }
            | Fact::ProcessStopped { .. }
            | Fact::ConfigReloaded { .. }
            | Fact::HandoverChanged(_)
            | Fact::SessionsErased { .. } => {}
            Fact::RateLimited { limit, .. } => open.note(rate_limited(at, *limit)),
            Fact::SessionSuspended { cause } => open.note(suspended(at, *cause)),
            Fact::SessionResumed { .. } => open.note(event(names::EVENT_RESUMED, at, Vec::new())),
            Fact::CancelRequested { .. } => open.note(event(names::EVENT_CANCEL_REQUESTED, at, Vec::new())),
            Fact::ContextCompacted { .. } => open.note(compacted(at, &entry.fact)),
            Fact::AnswerChecked { problems } => open.note(answer_checked(at, problems.expose().len())),
            Fact::LimitReached { limit, value } => open.note(limit_reached(at, *limit, *value)),
            Fact::HandedOver { cause, .. } => open.note(handed_over(at, *cause)),
            Fact::ModelFallback { from, to, cause, .. } => open.fall_back(at, from, to, *cause),
            Fact::ModelCallStarted { op, call } => open.begin_model(*op, OpenCall::model(session, at, call), call),
            Fact::ModelAttemptStarted { call, attempt, model, wait_ms } => {
                open.call(*call)?.attempt_started(at, *attempt, *wait_ms, Some(string(names::ATTEMPT_MODEL, model)));
            }
            Fact::ModelAttemptFinished { call, attempt, end } => {
                open.call(*call)?.attempt_finished(at, *attempt, end.outcome.label());
            }
            Fact::ModelCallFinished { op, end } => return open.end_model(*op, at, end),
            Fact::ToolCallStarted { op, call } => open.begin_tool(*op, OpenCall::tool(session, at, call), call),
            Fact::ToolAttemptStarted { call, attempt, effect, wait_ms, mcp } => {
                let call = open.call(*call)?;
                call.changes(*effect);
                call.asks(mcp.as_deref());
                call.attempt_started(at, *attempt, *wait_ms, None);
            }
            Fact::ToolAttemptFinished { call, attempt, end } => {
                open.call(*call)?.attempt_finished(at, *attempt, end.outcome.label());
            }
            Fact::ToolCallFinished { op, end } => return open.end_tool(*op, at, end),
            Fact::ConfirmationRequested { op, request } => {
                open.begin(*op, OpenCall::confirmation(session, at, request));
            }
            Fact::ConfirmationDecided { op, end } => return open.end_confirmation(*op, at, end),
            Fact::SessionFinished(end) => return self.sessions.remove(&session).map(|open| open.close(at, end)),
        }
        None
    }

    /// Drops what is held of a session that another process goes on with.
    pub fn forget(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// Sessions that are open.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    fn open(&mut self, session: SessionId, at: Timestamp, start: &SessionStarted) {
        if start.trace.sampled {
            let content = self.contents.as_ref().and_then(|contents| contents.open(start));
            self.sessions.insert(session, Box::new(OpenSession::new(session, at, start, content)));
        }
    }
}

/// The OpenTelemetry context of work inside an operation: spans that are opened while it is
/// attached become children of the operation's span.
pub fn context(trace: &TraceContext) -> Context {
    let place = Place { trace: trace.trace_id, sampled: trace.sampled };
    Context::new().with_remote_span_context(span_context(place, trace.span_id, true))
}

fn span_context(place: Place, span: SpanId, remote: bool) -> SpanContext {
    SpanContext::new(
        opentelemetry::TraceId::from_bytes(place.trace.to_bytes()),
        opentelemetry::SpanId::from_bytes(span.to_bytes()),
        if place.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() },
        remote,
        TraceState::default(),
    )
}

/// The one function that knows the fields of [`SpanData`].
fn span(place: Place, shape: Shape) -> SpanData {
    let mut events = SpanEvents::default();
    events.dropped_count = u32::try_from(shape.events.len().saturating_sub(MAX_EVENTS)).unwrap_or(u32::MAX);
    events.events = shape.events;
    events.events.truncate(MAX_EVENTS);
    SpanData {
        span_context: span_context(place, shape.id, false),
        parent_span_id: shape
            .parent
            .map_or(opentelemetry::SpanId::INVALID, |id| opentelemetry::SpanId::from_bytes(id.to_bytes())),
        parent_span_is_remote: shape.parent_is_remote,
        span_kind: shape.kind,
        name: shape.name.into(),
        start_time: time(shape.from),
        end_time: time(shape.to),
        attributes: shape.attributes,
        dropped_attributes_count: 0,
        events,
        links: shape.links,
        status: shape.status,
        // No version: a span that a newer version sends again must be the same span.
        instrumentation_scope: InstrumentationScope::builder(names::SCOPE).build(),
    }
}

fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(at.as_nanos())
}

fn event(name: &'static str, at: Timestamp, attributes: Vec<KeyValue>) -> Event {
    Event::new(name, time(at), attributes, 0)
}

fn suspended(at: Timestamp, cause: SuspendCause) -> Event {
    event(names::EVENT_SUSPENDED, at, vec![string(names::CAUSE, cause.label())])
}

fn compacted(at: Timestamp, fact: &Fact) -> Event {
    let mut numbers = Vec::new();
    if let Fact::ContextCompacted { calls, pairs, steps, tokens_before, tokens_after, .. } = fact {
        numbers.push(attributes::integer(names::COMPACTED_RESULTS, calls.len()));
        numbers.push(attributes::integer(names::COMPACTED_PAIRS, *pairs));
        numbers.push(attributes::integer(names::COMPACTED_STEPS, *steps));
        numbers.push(attributes::integer(names::TOKENS_BEFORE, *tokens_before));
        numbers.push(attributes::integer(names::TOKENS_AFTER, *tokens_after));
    }
    event(names::EVENT_COMPACTED, at, numbers)
}

/// How much is wrong with an answer, not what: that may repeat the answer.
fn answer_checked(at: Timestamp, problems: usize) -> Event {
    let problems = attributes::integer(names::PROBLEMS, u64::try_from(problems).unwrap_or(u64::MAX));
    event(names::EVENT_ANSWER_CHECKED, at, vec![problems])
}

fn limit_reached(at: Timestamp, limit: Limit, value: u64) -> Event {
    let which = string(names::LIMIT, limit.label());
    event(names::EVENT_LIMIT_REACHED, at, vec![which, attributes::integer(names::LIMIT_VALUE, value)])
}

fn rate_limited(at: Timestamp, limit: RateLimit) -> Event {
    event(names::EVENT_RATE_LIMITED, at, vec![string(names::LIMIT, limit.label())])
}

fn handed_over(at: Timestamp, cause: HandoverCause) -> Event {
    event(names::EVENT_HANDED_OVER, at, vec![string(names::CAUSE, cause.label())])
}
