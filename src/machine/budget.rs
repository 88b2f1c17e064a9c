//! Whether the next model call fits: the context window, the token budget and the money, before
//! the call.

use super::{prompt::Prompt, state::State};
use crate::core::{
    Money,
    fact::{CountedBy, Limit, ModelInfo},
};

/// A call that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Its input.
    pub input: Measure,
    /// Output tokens that budgets, window and model leave.
    pub max_tokens: u64,
}

/// How long the input of a call is, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Tokens.
    pub tokens: u64,
    /// Who counted them.
    pub by: CountedBy,
}

/// Whether the next call can be counted before it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// Nobody can, or whoever could has just failed to.
    #[default]
    Unavailable,
    /// The model can, and was not asked yet.
    Possible,
    /// It was.
    Known(Measure),
}

/// How long the next call is: as it was counted, else by what the provider counted last and by
/// the length of what came since.
pub fn measure(state: &State, prompt: &Prompt, count: Count) -> Measure {
    match count {
        Count::Known(measure) => measure,
        Count::Unavailable | Count::Possible => {
            Measure { tokens: state.estimate_input(prompt), by: CountedBy::Estimate }
        }
    }
}

/// Whether a call of so many tokens is so near to a limit that counting it is worth its time:
/// half of the threshold of the window, or of what is left of tokens or money.
pub fn is_near(state: &State, model: &ModelInfo, tokens: u64) -> bool {
    let (limits, twice) = (state.limits(), tokens.saturating_mul(2));
    let paid = || {
        limits
            .cost_limit
            .zip(model.prices)
            .is_some_and(|(limit, prices)| prices.of_input(twice) >= left_of(state, limit))
    };
    share(twice, model.context_window) >= limits.context_ratio || twice >= tokens_left(state) || paid()
}

/// What the next call of this model may use.
///
/// # Errors
/// The limit that forbids it, with the value at which that stands.
pub fn allow(state: &State, model: &ModelInfo, input: Measure) -> Result<Allowance, (Limit, u64)> {
    let window = model.context_window;
    if share(input.tokens, window) >= state.limits().context_ratio {
        return Err((Limit::ContextWindow, input.tokens));
    }
    let left = tokens_left(state);
    if input.tokens >= left {
        return Err((Limit::TokenBudget, state.usage().total()));
    }
    let paid = paid_output(state, model, input.tokens)?;
    let max_tokens = model.max_output_tokens.min(left - input.tokens).min(window - input.tokens).min(paid);
    Ok(Allowance { input, max_tokens })
}

/// Output tokens that the money leaves, once the input is paid. Where money is limited, a model
/// without prices cannot be asked: nobody knows what it takes.
fn paid_output(state: &State, model: &ModelInfo, input: u64) -> Result<u64, (Limit, u64)> {
    let Some(limit) = state.limits().cost_limit else { return Ok(u64::MAX) };
    let used_up = (Limit::CostLimit, state.cost().unwrap_or_default().nanos());
    let prices = model.prices.ok_or(used_up)?;
    let (left, input) = (left_of(state, limit), prices.of_input(input));
    if input >= left {
        return Err(used_up);
    }
    match prices.output_for(left.minus(input)) {
        0 => Err(used_up),
        tokens => Ok(tokens),
    }
}

const fn tokens_left(state: &State) -> u64 {
    state.limits().token_budget.saturating_sub(state.usage().total())
}

fn left_of(state: &State, limit: Money) -> Money {
    limit.minus(state.cost().unwrap_or_default())
}

/// How full the window is, 0 to 1 and more.
pub const fn share(tokens: u64, window: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    let ratio = tokens as f64 / if window == 0 { 1 } else { window } as f64;
    ratio
}
