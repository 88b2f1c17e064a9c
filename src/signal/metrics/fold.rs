//! What each fact counts.
//!
//! It must never read a clock, an argument or a text: a number, a closed word, or nothing.

#![warn(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use super::series::{Series, SessionSeries, Verdict};
use crate::{
    core::{
        Entry, Fact, FaultKind, SpanId, Timestamp, ToolOutcome,
        fact::{ModelCallEnd, ModelOutcome, SessionEnd, ToolCallEnd},
    },
    signal::memory::{Memory, Open},
};

/// The memory of the metrics: of each session, the series that its end counts into.
pub(super) type Sessions = Memory<Arc<SessionSeries>>;

/// Counts one committed fact.
pub(super) fn count(series: &Series, sessions: &mut Sessions, entry: &Entry) {
    sessions.open(entry, |started| series.session(&started.agent, &started.task_type));
    let open = entry.stream.session().and_then(|session| sessions.get(session));
    count_fact(series, open, entry);
    sessions.close(entry);
}

fn count_fact(series: &Series, open: Option<&Open<Arc<SessionSeries>>>, entry: &Entry) {
    match &entry.fact {
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
        Fact::ModelCallFinished { op, end } => count_model_call(series, open, *op, end, entry.at),
        Fact::ToolAttemptFinished { call, end, .. } => {
            let call = open.and_then(|open| open.tool_call(*call));
            increment(series.tool(call.and_then(|call| call.tool.as_deref())).attempts.get(&end.outcome));
        }
        Fact::ToolCallFinished { op, end } => count_tool_call(series, open, *op, end, entry.at),
        Fact::RateLimited { limit, times, .. } => series.rate_limited(*limit, *times),
        Fact::CircuitChanged(change) => {
            series.circuit(change);
            series.fallbacks.circuit(change);
        }
        Fact::PrimaryChanged { model, down } => series.fallbacks.primary(model, *down),
        Fact::ModelFallback { from, cause, .. } => series.fallbacks.count(from, *cause),
        Fact::LimitReached { limit, .. } => series.limit(*limit),
        Fact::SessionsErased { count, cause } => series.erased(*cause, *count),
        Fact::SessionFinished(end) => count_session(series, open, end, entry.at),
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
        | Fact::ToolDefinitionChanged(_)
        | Fact::ModelChecked { .. }
        | Fact::ProcessStarted { .. }
        | Fact::ProcessStopped { .. } => {}
    }
}

fn count_model_call(
    series: &Series,
    open: Option<&Open<Arc<SessionSeries>>>,
    op: SpanId,
    end: &ModelCallEnd,
    at: Timestamp,
) {
    let call = open.and_then(|open| open.model_call(op));
    let model = series.model(call.map(|call| call.asked.as_str()));
    increment(model.calls.get(&end.outcome));
    if let (Some(call), Some(duration)) = (call, model.duration.get(&end.outcome))
        && call.attempts > 0
    {
        duration.observe(at.since(call.started).as_secs_f64());
    }
    if let Some(cost) = call.and_then(|call| call.call.model.cost(&end.usage)) {
        model.cost.inc_by(cost.usd());
    }
    if end.usage.total() > 0 {
        model.input.observe(as_number(end.usage.input));
        model.output.observe(as_number(end.usage.output));
    }
}

fn count_tool_call(
    series: &Series,
    open: Option<&Open<Arc<SessionSeries>>>,
    op: SpanId,
    end: &ToolCallEnd,
    at: Timestamp,
) {
    let call = open.and_then(|open| open.tool_call(op));
    let tool = series.tool(call.and_then(|call| call.tool.as_deref()));
    increment(tool.calls.get(&end.outcome));
    if let Some(call) = call
        && call.attempts > 0
        && end.outcome != ToolOutcome::Lost
    {
        tool.duration.observe(at.since(call.started).as_secs_f64());
    }
    if let Some(verdict) = verdict(end) {
        series.model(open.and_then(|open| open.last_model.as_deref())).request(verdict);
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

fn count_session(series: &Series, open: Option<&Open<Arc<SessionSeries>>>, end: &SessionEnd, at: Timestamp) {
    let unknown;
    let session = if let Some(session) = open.and_then(|open| open.identity.as_ref()) {
        session
    } else {
        unknown = series.session(crate::signal::UNKNOWN, crate::signal::UNKNOWN);
        &unknown
    };
    increment(session.finished.get(&end.status));
    session.degraded.inc_by(u64::from(end.degraded));
    session.steps.observe(f64::from(end.steps));
    session.context.observe(end.context_peak);
    session.active.observe(std::time::Duration::from_millis(end.active_ms).as_secs_f64());
    if let Some(started) = open.and_then(|open| open.started) {
        session.duration.observe(at.since(started).as_secs_f64());
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
