//! The next step of a session, from its state alone.

use super::{
    budget::{self, Allowance, Count, Measure},
    compaction::{self, Goal, Old},
    ending::end,
    prompt::Prompt,
    route::{self, Asked, Fallback},
    state::{Confirmation, State, Summary},
    summary,
};
use crate::core::{
    EndReason, Fact, FaultKind, Sensitive, SessionStatus, Timestamp, ToolCall,
    fact::{CallPurpose, ConfirmationEnd, CountedBy, Decision, HandoverCause, Limit, ModelInfo},
};

/// Crashes in a row, with nothing done in between, after which a session is not tried again.
const CRASHES: u32 = 3;

/// What to do next. The driver does it, which leads to facts, which lead to the next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the model.
    CallModel {
        /// The step that the call belongs to.
        step: u32,
        /// Why.
        purpose: CallPurpose,
        /// Which of the agent's models.
        asked: Asked,
        /// What it may use.
        allowance: Allowance,
    },
    /// Run these calls of the last reply side by side.
    RunTools(Vec<ToolCall>),
    /// Hold this answer against the schema of the session, and record what is wrong with it.
    CheckAnswer(String),
    /// Let the model count the next call, which is near to a limit, and decide again.
    Count {
        /// The purpose of that call.
        purpose: CallPurpose,
        /// Which of the agent's models.
        asked: Asked,
    },
    /// Ask the model for a summary of what is oldest, which is to be left out of the history.
    Summarize {
        /// How much of it.
        old: Old,
        /// Which of the agent's models.
        asked: Asked,
        /// What the call may use.
        allowance: Allowance,
    },
    /// Record that results or steps are left out of the history, to make room for the next call.
    Compact(Fact),
    /// Record that the next call goes to the fallback; it is fitted to that model then.
    FallBack(Fact),
    /// Stop until a person has decided on the calls that wait; all others have their results.
    AwaitConfirmation,
    /// Record these facts, the last of which ends the session.
    Finish(Vec<Fact>),
    /// Nothing: the session has ended, or never began.
    Stop,
}

/// What the decision must know besides the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings<'a> {
    /// Now.
    pub now: Timestamp,
    /// Whether every tool of the agent is unavailable: the circuit of each is open.
    pub tools_unavailable: bool,
    /// The fallback of the agent, if it has one.
    pub fallback: Option<Fallback<'a>>,
    /// What is known of the length of the next call.
    pub count: Count,
}

/// Decides. The order is the order of precedence: what ends a session for good stands first,
/// an answer that is there wins over every limit, and limits are asked before anything is begun.
pub fn decide(state: &State, prompt: &Prompt, around: Surroundings<'_>) -> Step {
    let now = around.now;
    match state.status() {
        None => return Step::Stop,
        Some(status) if status.is_final() => return Step::Stop,
        Some(_) => {}
    }
    if let Some(answer) = state.unchecked_answer().filter(|_| !state.cancelled()) {
        return Step::CheckAnswer(answer.to_owned());
    }
    if let Some(ending) = ending(state, around) {
        return Step::Finish(ending.facts(state, now));
    }
    if state.needs_repair() {
        return ask(state, prompt, around, state.steps(), CallPurpose::Repair);
    }
    let waits = |call: &&ToolCall| state.confirmation(&call.id).is_some_and(Confirmation::waits);
    let (waiting, calls): (Vec<_>, Vec<_>) = state.unanswered_calls().partition(waits);
    let out_of_steps = state.steps() >= state.limits().max_iterations;
    if out_of_steps {
        return wrap_up(state, prompt, around);
    }
    if !calls.is_empty() {
        return Step::RunTools(calls.into_iter().cloned().collect());
    }
    if !waiting.is_empty() {
        return Step::AwaitConfirmation;
    }
    let purpose = if around.tools_unavailable { CallPurpose::Direct } else { CallPurpose::Step };
    ask(state, prompt, around, state.next_step(), purpose)
}

/// A call of the model, or the end where a limit forbids it.
fn ask(state: &State, prompt: &Prompt, around: Surroundings<'_>, step: u32, purpose: CallPurpose) -> Step {
    call_model(state, prompt, around, step, purpose)
        .unwrap_or_else(|(limit, value)| Step::Finish(Ending::limit(limit, value).facts(state, around.now)))
}

/// What comes before a call of the model, and the call: which model it is decides about the room
/// that there is, and where the window is the limit, what is old can give way.
///
/// # Errors
/// The limit that forbids it, with the value at which that stands.
fn call_model(
    state: &State,
    prompt: &Prompt,
    around: Surroundings<'_>,
    step: u32,
    purpose: CallPurpose,
) -> Result<Step, (Limit, u64)> {
    if let Some(fact) = route::detour(state, around.fallback, step) {
        return Ok(Step::FallBack(fact));
    }
    let asked = route::asked(state, around.fallback);
    let (model, input) = (asked.1, budget::measure(state, prompt, around.count));
    let shorten =
        |goal| make_room(state, prompt, asked, input.tokens, goal).ok_or((Limit::ContextWindow, input.tokens));
    if state.must_shrink() {
        return shorten(Goal::shrink(state, model, input.tokens));
    }
    // What was asked for is there: the summary, and the room that it makes.
    if let Some(Summary::Given { .. }) = state.summary() {
        return shorten(Goal::fit(state, model));
    }
    if around.count == Count::Possible && budget::is_near(state, model, input.tokens) {
        return Ok(Step::Count { purpose, asked: asked.0 });
    }
    match budget::allow(state, model, input) {
        Ok(allowance) => Ok(Step::CallModel { step, purpose, asked: asked.0, allowance }),
        Err((Limit::ContextWindow, _)) => shorten(Goal::fit(state, model)),
        Err(limit) => Err(limit),
    }
}

/// Makes room: by a summary of earlier sessions, by results alone, or by a summary of steps as well.
/// A summary is asked for first, and put in their place then; one that failed changes nothing.
fn make_room(
    state: &State,
    prompt: &Prompt,
    (asked, model): (Asked, &ModelInfo),
    before: u64,
    goal: Goal,
) -> Option<Step> {
    let sum_up = |old: Option<Old>| {
        let allowance = summary_allowance(state, prompt, model, old?)?;
        Some(Step::Summarize { old: old?, asked, allowance })
    };
    let results = || compaction::results(state, before, goal).map(Step::Compact);
    let bare = || compaction::without_summary(state, before, goal).map(Step::Compact);
    match state.summary() {
        Some(Summary::Failed) => results().or_else(bare),
        Some(Summary::Given { old, text }) => {
            let made = compaction::with_summary(state, *old, text, before, goal).map(Step::Compact);
            made.or_else(results).or_else(bare)
        }
        None => sum_up(compaction::pairs(state, before, goal))
            .or_else(results)
            .or_else(|| sum_up(compaction::oldest(state, before, goal)))
            .or_else(bare),
    }
}

/// What the call for a summary may use, if it fits.
fn summary_allowance(state: &State, prompt: &Prompt, model: &ModelInfo, old: Old) -> Option<Allowance> {
    let tokens = summary::estimate(&summary::request(state, prompt, old, 0));
    let allowance = budget::allow(state, model, Measure { tokens, by: CountedBy::Estimate }).ok()?;
    let room = summary::room(model.context_window);
    // Room for the thoughts of a model that thinks before it writes.
    let max_tokens = allowance.max_tokens.min(room.saturating_mul(2));
    (max_tokens >= room / 4).then_some(Allowance { max_tokens, ..allowance })
}

/// One call without tools, if it was not made yet and fits, at the fallback too where the primary
/// failed; then the end.
fn wrap_up(state: &State, prompt: &Prompt, around: Surroundings<'_>) -> Step {
    let step = state.steps();
    let failed = state.model_failure().is_some() && route::detour(state, around.fallback, step).is_none();
    if !state.wrapped_up()
        && !failed
        && let Ok(next) = call_model(state, prompt, around, step, CallPurpose::WrapUp)
    {
        return next;
    }
    let value = u64::from(state.limits().max_iterations);
    Step::Finish(Ending::limit(Limit::MaxIterations, value).facts(state, around.now))
}

/// How a session ends.
struct Ending {
    status: SessionStatus,
    reason: Option<EndReason>,
    limit: Option<(Limit, u64)>,
}

/// The end that the state already holds, if any.
fn ending(state: &State, around: Surroundings<'_>) -> Option<Ending> {
    if state.cancelled() {
        return Some(Ending::plain(SessionStatus::Cancelled));
    }
    if state.answer().is_some() {
        return Some(Ending::plain(SessionStatus::Done));
    }
    if state.crashes() >= CRASHES {
        return Some(Ending::reason(EndReason::CrashLoop));
    }
    if let Some(kind) = state.model_fault()
        && route::detour(state, around.fallback, state.next_step()).is_none()
    {
        return Some(Ending::reason(fault_reason(kind)));
    }
    if state.answer_failed() {
        return Some(Ending::reason(EndReason::OutputInvalid));
    }
    let active = state.active_ms(around.now);
    if u128::from(active) >= state.limits().deadline.as_millis() || state.limit() == Some(Limit::Deadline) {
        return Some(Ending::limit(Limit::Deadline, active));
    }
    if state.empty_replies() >= 2 {
        return Some(Ending::reason(EndReason::EmptyReply));
    }
    if state.unanswered_calls().next().is_none()
        && let Some((limit, count)) = state.repeats().limit()
    {
        return Some(Ending::limit(limit, u64::from(count)));
    }
    None
}

const fn fault_reason(kind: FaultKind) -> EndReason {
    match kind {
        FaultKind::Auth => EndReason::ModelAuth,
        FaultKind::Declined => EndReason::ModelDeclined,
        FaultKind::ContextTooLong => EndReason::ContextWindow,
        FaultKind::Timeout
        | FaultKind::Connection
        | FaultKind::Transport
        | FaultKind::RateLimited
        | FaultKind::Overloaded
        | FaultKind::Server
        | FaultKind::Refused
        | FaultKind::Malformed
        | FaultKind::ToolError
        | FaultKind::Panic
        | FaultKind::Internal
        | FaultKind::CircuitOpen => EndReason::ModelUnavailable,
    }
}

impl Ending {
    const fn plain(status: SessionStatus) -> Self {
        Self { status, reason: None, limit: None }
    }

    const fn reason(reason: EndReason) -> Self {
        Self { status: reason.status(), reason: Some(reason), limit: None }
    }

    const fn limit(limit: Limit, value: u64) -> Self {
        let reason = match limit {
            Limit::MaxIterations => None,
            Limit::TokenBudget => Some(EndReason::TokenBudget),
            Limit::CostLimit => Some(EndReason::CostLimit),
            Limit::ContextWindow => Some(EndReason::ContextWindow),
            Limit::Deadline => Some(EndReason::Deadline),
            Limit::RepeatedFailure => Some(EndReason::RepeatedFailure),
            Limit::NoProgress => Some(EndReason::NoProgress),
        };
        let status = match reason {
            Some(reason) => reason.status(),
            None => SessionStatus::MaxIterations,
        };
        Self { status, reason, limit: Some((limit, value)) }
    }

    /// The facts that end the session, committed together: what nobody need decide any more, the
    /// limit, the hand-over that every customer is promised, the end.
    fn facts(self, state: &State, now: Timestamp) -> Vec<Fact> {
        let withdrawn = |asked: &Confirmation| Fact::ConfirmationDecided {
            op: asked.op,
            end: ConfirmationEnd::of_itself(Decision::Withdrawn),
        };
        let mut facts: Vec<_> = state.waiting().map(withdrawn).collect();
        if let Some((limit, value)) = self.limit
            && state.limit().is_none()
        {
            facts.push(Fact::LimitReached { limit, value });
        }
        if !matches!(self.status, SessionStatus::Done | SessionStatus::Cancelled) {
            let why = self.reason.map_or(self.status.label(), EndReason::label);
            let detail = Sensitive::new(format!("the session ended as {} ({why})", self.status));
            facts.push(Fact::HandedOver { cause: HandoverCause::SessionEnded, detail, tool: None });
        }
        facts.push(Fact::SessionFinished(Box::new(end(state, self.status, self.reason, now))));
        facts
    }
}
