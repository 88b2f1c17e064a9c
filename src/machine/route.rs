//! Which of an agent's two models the next call asks: its own, the primary, or the fallback.
//!
//! A call that failed at the primary, or that need not be tried there, is sent on by a fact; it
//! stays with the fallback until a reply comes, in whichever process. The next call begins at the
//! primary again.

use super::state::State;
use crate::core::{
    Fact,
    fact::{FallbackCause, ModelInfo},
};

/// One of an agent's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Its own.
    Primary,
    /// The one that stands in.
    Fallback,
}

/// The fallback of an agent, and what only the process knows of its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback<'a> {
    /// The model that stands in.
    pub model: &'a ModelInfo,
    /// Why calls go straight to it now; nothing while the primary may be asked.
    pub detour: Option<FallbackCause>,
}

/// The model that the next call asks, as its facts stand.
pub fn asked<'a>(state: &'a State, fallback: Option<Fallback<'a>>) -> (Asked, &'a ModelInfo) {
    match fallback.filter(|fallback| is_on(state, *fallback)) {
        Some(fallback) => (Asked::Fallback, fallback.model),
        None => (Asked::Primary, state.model()),
    }
}

/// The fact that sends the next call, of this step, to the fallback, if it has to go there and
/// was not sent there before.
pub fn detour(state: &State, fallback: Option<Fallback<'_>>, step: u32) -> Option<Fact> {
    let fallback = fallback.filter(|fallback| !is_on(state, *fallback))?;
    let cause = match state.model_failure() {
        Some(kind) => Some(FallbackCause::Fault(kind)).filter(|_| kind.falls_back()),
        None => fallback.detour,
    }?;
    let (from, to) = (state.model().name.clone(), fallback.model.name.clone());
    Some(Fact::ModelFallback { step, from, to, cause })
}

/// Whether the call was sent to this fallback; another process may have another.
fn is_on(state: &State, fallback: Fallback<'_>) -> bool {
    state.sent_to() == Some(&fallback.model.name)
}
