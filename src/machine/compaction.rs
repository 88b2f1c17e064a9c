//! Makes room in the context window. Old results of tools are left out first, then whole steps,
//! both oldest first; a model's summary stands in the place of the steps. A call and its result
//! stay together, the task and the last step stay whole.

use std::ops::Range;

use super::{
    budget::share,
    state::State,
    summary,
    tokens::{estimate_message, estimate_messages},
};
use crate::core::{Fact, Message, Sensitive, fact::ModelInfo, message::estimate_tokens};

/// Share of the threshold that a compaction goes down to, so that the next step does not need
/// the next one.
const TARGET: f64 = 0.75;

/// How much room is needed.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    window: u64,
    ratio: f64,
    /// Tokens that are not to be exceeded in any case.
    most: u64,
}

impl Goal {
    /// The next call has to fit.
    pub const fn fit(state: &State, model: &ModelInfo) -> Self {
        Self { window: model.context_window, ratio: state.limits().context_ratio, most: u64::MAX }
    }

    /// The provider says that a call of `before` tokens is too long, whatever we think of its
    /// window: a quarter of it has to go at the least.
    pub const fn shrink(state: &State, model: &ModelInfo, before: u64) -> Self {
        Self { most: before - before.div_ceil(4), ..Self::fit(state, model) }
    }

    fn is_enough(&self, after: u64) -> bool {
        after <= self.most && share(after, self.window) < self.ratio
    }

    fn is_plenty(&self, after: u64) -> bool {
        after <= self.most && share(after, self.window) < self.ratio * TARGET
    }
}

/// The fact that makes room by leaving out results, if that is enough; a compaction that is not
/// enough is not begun. `before` is the input of the next call.
pub fn results(state: &State, before: u64, goal: Goal) -> Option<Fact> {
    let (mut after, mut calls) = (before, Vec::new());
    for (call_id, content) in old_results(state.history()) {
        if goal.is_plenty(after) {
            break;
        }
        let saved = estimate_tokens(content).saturating_sub(estimate_tokens(&left_out(content)));
        if saved > 0 {
            after = after.saturating_sub(saved);
            calls.push(call_id.to_owned());
        }
    }
    let enough = !calls.is_empty() && goal.is_enough(after);
    enough.then_some(Fact::ContextCompacted {
        calls,
        steps: 0,
        summary: None,
        tokens_before: before,
        tokens_after: after,
    })
}

/// How many of the oldest steps have to give way to a summary, if that is enough.
pub fn steps(state: &State, before: u64, goal: Goal) -> Option<u32> {
    let summary = summary::room(goal.window) + estimate_message(&summary::message(""));
    let mut enough = None;
    for (number, range) in (1..).map_while(|number| Some((number, old_steps(state.history(), number)?))) {
        let after = before.saturating_sub(estimate_messages(&state.history()[range])).saturating_add(summary);
        if after >= before || !goal.is_enough(after) {
            continue;
        }
        if goal.is_plenty(after) {
            return Some(number);
        }
        enough = Some(number);
    }
    enough
}

/// The fact that puts a summary in the place of the oldest steps; nothing where that is not
/// enough, or says nothing.
pub fn with_summary(state: &State, number: u32, text: &str, before: u64, goal: Goal) -> Option<Fact> {
    let range = old_steps(state.history(), number)?;
    let text = summary::fit(text, goal.window);
    let after = before
        .saturating_sub(estimate_messages(&state.history()[range]))
        .saturating_add(estimate_message(&summary::message(text)));
    let enough = !text.is_empty() && after < before && goal.is_enough(after);
    enough.then(|| Fact::ContextCompacted {
        calls: Vec::new(),
        steps: number,
        summary: Some(Sensitive::from(text)),
        tokens_before: before,
        tokens_after: after,
    })
}

/// The history after such a fact.
pub(super) fn compact(history: &mut Vec<Message>, calls: &[String], steps: u32, summary: Option<&str>) {
    for message in history.iter_mut() {
        if let Message::Tool { call_id, content, .. } = message
            && calls.contains(call_id)
        {
            *content = left_out(content);
        }
    }
    if let (Some(range), Some(text)) = (old_steps(history, steps), summary) {
        history.splice(range, [summary::message(text)]);
    }
}

/// Where the oldest steps stand, the summary of still older ones among them: all of it behind the
/// task and before the last step. Nothing for no step, and where there are not so many.
pub(super) fn old_steps(history: &[Message], number: u32) -> Option<Range<usize>> {
    let number = usize::try_from(number).ok().filter(|number| *number > 0)?;
    let begin = 1;
    let end = history.iter().enumerate().filter(|(_, message)| asks(message)).nth(number)?.0;
    (matches!(history.first(), Some(Message::User { .. })) && begin < end).then_some(begin..end)
}

/// Whether a step begins here.
const fn asks(message: &Message) -> bool {
    matches!(message, Message::Assistant { calls, .. } if !calls.is_empty())
}

/// Results before the last step, oldest first.
fn old_results(history: &[Message]) -> impl Iterator<Item = (&str, &str)> {
    let last_step = history.iter().rposition(asks).unwrap_or(0);
    history[..last_step].iter().filter_map(|message| match message {
        Message::Tool { call_id, content, .. } => Some((call_id.as_str(), content.as_str())),
        Message::User { .. } | Message::Assistant { .. } => None,
    })
}

/// What stands in the place of a result; the same for the same result, and never longer than a
/// line, so that leaving it out again changes nothing.
fn left_out(content: &str) -> String {
    const MARK: &str = "[result left out to make room";
    if content.starts_with(MARK) {
        return content.to_owned();
    }
    format!("{MARK}: {} bytes; call the tool again if it is needed]", content.len())
}
