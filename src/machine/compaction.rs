//! Makes room in the context window: old results of tools are left out, oldest first. A call and
//! its result stay together, the task and the last step stay whole.

use super::{budget::share, prompt::Prompt, state::State};
use crate::core::{Fact, Message, fact::ModelInfo, message::estimate_tokens};

/// Share of the threshold that a compaction goes down to, so that the next step does not need
/// the next one.
const TARGET: f64 = 0.75;

/// The fact that makes room for the next call of this model, if leaving out results is enough; a compaction
/// that is not enough is not begun.
pub fn plan(state: &State, prompt: &Prompt, model: &ModelInfo) -> Option<Fact> {
    let (before, window, ratio) = (state.estimate_input(prompt), model.context_window, state.limits().context_ratio);
    let (mut after, mut calls) = (before, Vec::new());
    for (call_id, content) in old_results(state.history()) {
        if share(after, window) < ratio * TARGET {
            break;
        }
        let saved = estimate_tokens(content).saturating_sub(estimate_tokens(&left_out(content)));
        if saved > 0 {
            after = after.saturating_sub(saved);
            calls.push(call_id.to_owned());
        }
    }
    let enough = !calls.is_empty() && share(after, window) < ratio;
    enough.then_some(Fact::ContextCompacted { calls, tokens_before: before, tokens_after: after })
}

/// Results before the last step, oldest first.
fn old_results(history: &[Message]) -> impl Iterator<Item = (&str, &str)> {
    let asks = |message: &Message| matches!(message, Message::Assistant { calls, .. } if !calls.is_empty());
    let last_step = history.iter().rposition(asks).unwrap_or(0);
    history[..last_step].iter().filter_map(|message| match message {
        Message::Tool { call_id, content, .. } => Some((call_id.as_str(), content.as_str())),
        Message::User { .. } | Message::Assistant { .. } => None,
    })
}

/// What stands in the place of a result; the same for the same result, and never longer than a
/// line, so that leaving it out again changes nothing.
pub(super) fn left_out(content: &str) -> String {
    const MARK: &str = "[result left out to make room";
    if content.starts_with(MARK) {
        return content.to_owned();
    }
    format!("{MARK}: {} bytes; call the tool again if it is needed]", content.len())
}
