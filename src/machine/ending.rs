//! The last fact of a session, with its totals.

use super::{explanation::explanation, state::State};
use crate::core::{EndReason, Sensitive, SessionStatus, Timestamp, fact::SessionEnd};

/// The end of a session that stands like this.
pub fn end(state: &State, status: SessionStatus, reason: Option<EndReason>, now: Timestamp) -> SessionEnd {
    let done = status == SessionStatus::Done;
    let (steps, max) = (state.steps(), state.limits().max_iterations);
    SessionEnd {
        status,
        reason,
        answer: state.answer().filter(|_| done).map(Sensitive::from),
        partial: state.partial().filter(|_| !done).map(Sensitive::from),
        explanation: explanation(state.language(), status, reason, steps, max),
        degraded: false,
        steps,
        usage: *state.usage(),
        tools_called: state.tools_called().to_vec(),
        context_peak: state.context_peak(),
        active_ms: state.active_ms(now),
    }
}
