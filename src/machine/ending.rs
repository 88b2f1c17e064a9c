//! The last fact of a session, with its totals.

use super::{
    explanation::{explanation, without_tools},
    state::State,
};
use crate::core::{EndReason, Sensitive, SessionStatus, Timestamp, fact::SessionEnd};

/// The end of a session that stands like this.
pub fn end(state: &State, status: SessionStatus, reason: Option<EndReason>, now: Timestamp) -> SessionEnd {
    let done = status == SessionStatus::Done;
    let (steps, max) = (state.steps(), state.limits().max_iterations);
    SessionEnd {
        status,
        reason,
        answer: state.answer().filter(|_| done).map(|text| answer(state, text)),
        partial: state.partial().filter(|_| !done).map(Sensitive::from),
        explanation: explanation(state.language(), status, reason, steps, max),
        degraded: done && state.degraded(),
        steps,
        usage: *state.usage(),
        cost: state.cost(),
        tools_called: state.tools_called().to_vec(),
        context_peak: state.context_peak(),
        active_ms: state.active_ms(now),
    }
}

/// The answer, with a mark if it was given without tools; one of a set form has no room for it.
fn answer(state: &State, text: &str) -> Sensitive<String> {
    let marked = state.degraded() && !state.holds_answer();
    let mark = marked.then(|| without_tools(state.language()));
    Sensitive::new(mark.map_or_else(|| text.to_owned(), |mark| format!("{mark}\n\n{text}")))
}
