//! Makes room in the context window. Pairs of earlier sessions go first, then old results of
//! tools, then both pairs and whole steps, oldest first; a model's summary stands in the place of
//! pairs and steps. A call and its result stay together, and so do a task and its answer; the
//! session's own task and its last step stay whole.

use std::ops::Range;

use super::{
    budget::share,
    state::State,
    summary,
    tokens::{estimate_message, estimate_messages},
};
use crate::core::{
    Fact, Message, Sensitive,
    fact::{ModelCall, ModelInfo},
    message::estimate_tokens,
};

/// Share of the threshold that a compaction goes down to, so that the next step does not need
/// the next one.
const TARGET: f64 = 0.75;

/// How much of what is oldest: pairs of earlier sessions, and behind all of those, steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Old {
    /// Pairs that the session took over and is still shown.
    pub pairs: u32,
    /// Steps; where there are any, all pairs are among what is oldest.
    pub steps: u32,
}

impl Old {
    /// What the summary is about that this call asks for.
    pub const fn of(call: &ModelCall) -> Self {
        Self { pairs: call.summarized_pairs, steps: call.summarized_steps }
    }

    /// Estimated tokens of it, older summaries included; nothing where there is not so much.
    fn tokens(self, state: &State) -> Option<u64> {
        let (carried, history) = (state.carried(), state.history());
        if self.steps == 0 {
            return Some(carried.tokens_of_summary() + carried.tokens_of(self.pairs));
        }
        Some(carried.tokens() + estimate_messages(&history[old_steps(history, self.steps)?]))
    }

    /// The next call with room for a summary in its place; nothing where there is not so much.
    fn replaced(self, state: &State, before: u64, goal: Goal) -> Option<u64> {
        let summary = summary::room(goal.window) + self.tokens_in_its_place("");
        Some(before.saturating_sub(self.tokens(state)?).saturating_add(summary))
    }

    /// Estimated tokens of a summary in its place.
    fn tokens_in_its_place(self, text: &str) -> u64 {
        if self.steps == 0 {
            estimate_messages(&summary::of_conversation(text))
        } else {
            estimate_message(&summary::message(text))
        }
    }
}

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
        pairs: 0,
        steps: 0,
        summary: None,
        tokens_before: before,
        tokens_after: after,
    })
}

/// How many of the oldest pairs have to give way to a summary, if that is plenty: else what can be
/// left out without a call, or more at once, is worth more.
pub fn pairs(state: &State, before: u64, goal: Goal) -> Option<Old> {
    let enough = |old: &Old| old.replaced(state, before, goal).is_some_and(|after| goal.is_plenty(after));
    only_pairs(state).find(enough)
}

/// How much of all that is old has to give way to a summary, if that is enough: the first that is
/// plenty, else the most that is enough.
pub fn oldest(state: &State, before: u64, goal: Goal) -> Option<Old> {
    let pairs = state.carried().pairs();
    let mut enough = None;
    for old in only_pairs(state).chain((1..).map(|steps| Old { pairs, steps })) {
        let Some(after) = old.replaced(state, before, goal) else { break };
        if after >= before || !goal.is_enough(after) {
            continue;
        }
        if goal.is_plenty(after) {
            return Some(old);
        }
        enough = Some(old);
    }
    enough
}

fn only_pairs(state: &State) -> impl Iterator<Item = Old> + use<> {
    (1..=state.carried().pairs()).map(|pairs| Old { pairs, steps: 0 })
}

/// The fact that puts a summary in the place of what is oldest; nothing where that is not enough,
/// or says nothing.
pub fn with_summary(state: &State, old: Old, text: &str, before: u64, goal: Goal) -> Option<Fact> {
    let text = summary::fit(text, goal.window);
    let after = before.saturating_sub(old.tokens(state)?).saturating_add(old.tokens_in_its_place(text));
    let enough = !text.is_empty() && after < before && goal.is_enough(after);
    enough.then(|| Fact::ContextCompacted {
        calls: Vec::new(),
        pairs: old.pairs,
        steps: old.steps,
        summary: Some(Sensitive::from(text)),
        tokens_before: before,
        tokens_after: after,
    })
}

/// The fact that leaves out pairs with nothing in their place, if that is enough: where no summary
/// is to be had, the task at hand is worth more than what was said before it.
pub fn without_summary(state: &State, before: u64, goal: Goal) -> Option<Fact> {
    let after = |pairs| before.saturating_sub(state.carried().tokens_of(pairs));
    let choice = (1..=state.carried().pairs()).map(|pairs| (pairs, after(pairs)));
    let mut enough = choice.filter(|(_, after)| goal.is_enough(*after));
    let (pairs, after) = enough.clone().find(|(_, after)| goal.is_plenty(*after)).or_else(|| enough.next_back())?;
    Some(Fact::ContextCompacted {
        calls: Vec::new(),
        pairs,
        steps: 0,
        summary: None,
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
