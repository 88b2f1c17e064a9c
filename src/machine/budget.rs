//! Whether the next model call fits: the context window and the token budget, before the call.

use super::{prompt::Prompt, state::State};
use crate::core::fact::{Limit, ModelInfo};

/// A call that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Our estimate of the input.
    pub estimated_input: u64,
    /// Output tokens that budget, window and model leave.
    pub max_tokens: u64,
}

/// What the next call may use, if it asks this model.
///
/// # Errors
/// The limit that forbids it, with the estimate that does not fit.
pub fn allow(state: &State, prompt: &Prompt, model: &ModelInfo) -> Result<Allowance, (Limit, u64)> {
    let estimated_input = state.estimate_input(prompt);
    let limits = state.limits();
    let window = model.context_window;
    if share(estimated_input, window) >= limits.context_ratio {
        return Err((Limit::ContextWindow, estimated_input));
    }
    let left = limits.token_budget.saturating_sub(state.usage().total());
    if estimated_input >= left {
        return Err((Limit::TokenBudget, state.usage().total()));
    }
    let max_tokens = model.max_output_tokens.min(left - estimated_input).min(window - estimated_input);
    Ok(Allowance { estimated_input, max_tokens })
}

/// How full the window is, 0 to 1 and more.
pub fn share(tokens: u64, window: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    let ratio = tokens as f64 / window.max(1) as f64;
    ratio
}
