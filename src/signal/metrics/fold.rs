//! What each fact counts.
//!
//! It must never read a clock, an argument or a text: a number, a closed word, or nothing.

#![warn(clippy::wildcard_enum_match_arm)]

use std::{sync::Arc, time::Duration};

use super::{
    exemplars::{Choice, Exemplar, Origin, Timing},
    series::{Series, SessionSeries, Verdict},
};
use crate::{
    core::{
        Entry, Fact, FaultKind, SessionId, SpanId, Timestamp, ToolOutcome,
        fact::{ModelCallEnd, ModelOutcome, SessionEnd, SessionStarted, ToolCallEnd},
    },
    signal::memory::{Memory, Open},
};

/// The memory of the metrics.
pub(super) type Sessions = Memory<Known>;

/// What is kept of a session's first fact: the series that its end counts into, and its trace.
pub(super) struct Known {
    series: Arc<SessionSeries>,
    origin: Option<Origin>,
}

/// The counting of one fact.
struct Count<'a> {
    series: &'a Series,
    session: Option<SessionId>,
    open: Option<&'a Open<Known>>,
    at: Timestamp,
    choice: &'a mut Choice,
}

impl Known {
    /// Reads the first fact.
    pub(super) fn new(series: &Series, started: &SessionStarted) -> Self {
        Self { series: series.session(&started.agent, &started.task_type), origin: Origin::of(started) }
    }
}

/// Counts one committed fact.
pub(super) fn count(series: &Series, sessions: &mut Sessions, choice: &mut Choice, entry: &Entry) {
    sessions.open(entry, |started| Known::new(series, started));
    let session = entry.stream.session();
    let open = session.and_then(|session| sessions.get(session));
    Count { series, session, open, at: entry.at, choice: &mut *choice }.fact(&entry.fact);
    choice.note(entry);
    sessions.close(entry);
}

impl Count<'_> {
    fn fact(&mut self, fact: &Fact) {
        let (series, open) = (self.series, self.open);
        match fact {
            Fact::ModelAttemptStarted { call, .. } => {
                let Some(call) = open.and_then(|open| open.model_call(*call)) else { return };
                if let Some(ModelOutcome::Fault(kind)) = call.retry_after() {
                    increment(series.model(Some(&call.asked)).retries.get(&kind));
                }
            }
            Fact::ModelAttemptFinished { call, end, .. } => {
                if end.outcome == ModelOutcome::Fault(FaultKind::Auth) {
                    let call = open.and_then(|open| open.model_call(*call));
                    series.model(call.map(|call| call.asked.as_str())).auth_failures.inc();
                }
            }
            Fact::ModelCallFinished { op, end } => self.model_call(*op, end),
            Fact::ToolAttemptFinished { call, end, .. } => {
                let call = open.and_then(|open| open.tool_call(*call));
                increment(series.tool(call.and_then(|call| call.tool.as_deref())).attempts.get(&end.outcome));
            }
            Fact::ToolCallFinished { op, end } => self.tool_call(*op, end),
            Fact::RateLimited { limit, times, .. } => series.rate_limited(*limit, *times),
            Fact::CircuitChanged(change) => {
                series.circuit(change);
                series.fallbacks.circuit(change);
            }
            Fact::PrimaryChanged { model, down } => series.fallbacks.primary(model, *down),
            Fact::ModelFallback { from, cause, .. } => series.fallbacks.count(from, *cause),
            Fact::LimitReached { limit, .. } => series.limit(*limit),
            Fact::SessionsErased { count, cause } => series.erased(*cause, *count),
            Fact::ToolDefinitionChanged(change) => series.definitions.count(change),
            Fact::ProcessStarted { .. } => series.config(Some(self.at)),
            Fact::ConfigReloaded { refused } => series.config(refused.is_none().then_some(self.at)),
            Fact::SessionFinished(end) => self.session(end),
            Fact::SessionStarted(_)
            | Fact::SessionSuspended { .. }
            | Fact::SessionResumed { .. }
            | Fact::CancelRequested { .. }
            | Fact::ModelCallStarted { .. }
            | Fact::ToolCallStarted { .. }
            | Fact::ToolAttemptStarted { .. }
            | Fact::ConfirmationRequested { .. }
            | Fact::ConfirmationDecided { .. }
            | Fact::ContextCompacted { .. }
            | Fact::AnswerChecked { .. }
            | Fact::HandedOver { .. }
            | Fact::HandoverChanged(_)
            | Fact::ModelChecked { .. }
            | Fact::ProcessStopped { .. } => {}
        }
    }

    fn model_call(&mut self, op: SpanId, end: &ModelCallEnd) {
        let call = self.open.and_then(|open| open.model_call(op));
        let model = self.series.model(call.map(|call| call.asked.as_str()));
        increment(model.calls.get(&end.outcome));
        if let (Some(call), Some(duration)) = (call, model.duration.get(&end.outcome))
            && call.attempts > 0
        {
            self.time(duration, Some(op), self.at.since(call.started));
        }
        if let Some(cost) = call.and_then(|call| call.call.model.cost(&end.usage)) {
            model.cost.inc_by(cost.usd());
        }
        if end.usage.total() > 0 {
            model.input.observe(as_number(end.usage.input));
            model.output.observe(as_number(end.usage.output));
        }
    }

    fn tool_call(&mut self, op: SpanId, end: &ToolCallEnd) {
        let call = self.open.and_then(|open| open.tool_call(op));
        let tool = self.series.tool(call.and_then(|call| call.tool.as_deref()));
        increment(tool.calls.get(&end.outcome));
        if let Some(call) = call
            && call.attempts > 0
            && end.outcome != ToolOutcome::Lost
        {
            self.time(&tool.duration, Some(op), self.at.since(call.started));
        }
        if let Some(verdict) = verdict(end) {
            self.series.model(self.open.and_then(|open| open.last_model.as_deref())).request(verdict);
        }
    }

    fn session(&mut self, end: &SessionEnd) {
        let known = self.open.and_then(|open| open.identity.as_ref());
        let session = match known {
            Some(known) => Arc::clone(&known.series),
            None => self.series.session(crate::signal::UNKNOWN, crate::signal::UNKNOWN),
        };
        increment(session.finished.get(&end.status));
        session.degraded.inc_by(u64::from(end.degraded));
        session.steps.observe(f64::from(end.steps));
        session.context.observe(end.context_peak);
        self.time(&session.active, None, Duration::from_millis(end.active_ms));
        if let Some(started) = self.open.and_then(|open| open.started) {
            self.time(&session.duration, None, self.at.since(started));
        }
    }

    /// Observes how long a span took; the root's where none is named.
    fn time(&mut self, timing: &Timing, span: Option<SpanId>, took: Duration) {
        let value = took.as_secs_f64();
        timing.observe(value);
        let origin = self.open.and_then(|open| open.identity.as_ref()).and_then(|known| known.origin);
        if let (Some(session), Some(Origin { trace, root })) = (self.session, origin) {
            let exemplar = Exemplar { trace, span: span.unwrap_or(root), value, at: self.at };
            self.choice.offer(session, timing, exemplar);
        }
    }
}

/// What a call says of the model that asked for it; nothing where it ended unchecked, as a lost
/// one does, which is asked again.
fn verdict(end: &ToolCallEnd) -> Option<Verdict> {
    match (end.outcome, end.arguments_valid) {
        (ToolOutcome::UnknownTool, _) => Some(Verdict::UnknownTool),
        (ToolOutcome::InvalidArguments, _) | (_, Some(false)) => Some(Verdict::InvalidArguments),
        (_, Some(true)) => Some(Verdict::Valid),
        (_, None) => None,
    }
}

/// Every member of a closed set has its counter; a status that ends nothing has none.
fn increment(counter: Option<&prometheus::IntCounter>) {
    if let Some(counter) = counter {
        counter.inc();
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sum in a histogram is a float anyway")]
const fn as_number(count: u64) -> f64 {
    count as f64
}
