//! How room is made in the history: what a provider said of its length, the summary of what is to
//! be left out, and the leaving out.

use super::State;
use crate::{
    core::{
        Fact, Sensitive,
        fact::{ModelCall, ModelCallEnd, ModelOutcome},
    },
    machine::{
        compaction::{Old, compact},
        tokens::estimate_messages,
    },
};

/// What is known on the way to more room.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    too_long: Option<TooLong>,
    summary: Option<Summary>,
}

/// A provider said that the call of this step is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TooLong {
    /// And nothing was done about it yet.
    Said,
    /// And it was made shorter.
    Shortened,
}

/// What became of the call that asked for a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    /// What the model says of what is oldest.
    Given {
        /// How much of it.
        old: Old,
        /// The text.
        text: String,
    },
    /// Nothing: the call ended in a fault, or the model said nothing.
    Failed,
}

impl Room {
    /// Takes in that a provider said so; true for the first time in a step, after which the call
    /// is made shorter and tried once more.
    pub(super) fn is_first_time_too_long(&mut self) -> bool {
        let first = self.too_long.is_none();
        self.too_long.get_or_insert(TooLong::Said);
        first
    }

    /// The call of this step has its reply.
    pub(super) const fn replied(&mut self) {
        self.too_long = None;
    }

    pub(super) fn end_summary(&mut self, call: &ModelCall, end: &ModelCallEnd) {
        let text = end.reply.as_ref().map(|reply| reply.text.trim()).filter(|text| !text.is_empty());
        self.summary = match (end.outcome, text) {
            (ModelOutcome::Cancelled | ModelOutcome::Lost, _) => return,
            (ModelOutcome::Ok, Some(text)) => Some(Summary::Given { old: Old::of(call), text: text.to_owned() }),
            (ModelOutcome::Ok, None) | (ModelOutcome::Fault(_), _) => Some(Summary::Failed),
        };
    }

    /// Another model is asked from here on, which may give the summary that failed.
    pub(super) fn try_again(&mut self) {
        self.summary = self.summary.take().filter(|summary| *summary != Summary::Failed);
    }

    fn made(&mut self) {
        self.summary = None;
        if self.too_long.is_some() {
            self.too_long = Some(TooLong::Shortened);
        }
    }
}

impl State {
    /// Whether the next call has to be shorter than the last, which was too long for its provider.
    pub fn must_shrink(&self) -> bool {
        self.room.too_long == Some(TooLong::Said)
    }

    /// What became of the call for a summary, until room is made.
    pub const fn summary(&self) -> Option<&Summary> {
        self.room.summary.as_ref()
    }

    /// Leaves out what the fact says; what the provider counted goes down by as much as the
    /// estimate.
    pub(super) fn compact(&mut self, fact: &Fact) {
        let Fact::ContextCompacted { calls, pairs, steps, summary, .. } = fact else { return };
        let text = summary.as_ref().map(|text: &Sensitive<String>| text.expose().as_str());
        self.room.made();
        compact(&mut self.history, calls, *steps, text);
        // A summary that steps are part of tells of the sessions before them too.
        if *steps > 0 {
            self.carried.clear();
        } else {
            self.carried.leave_out(*pairs, text);
        }
        let left = estimate_messages(&self.history) + self.carried.tokens();
        let saved = self.history_tokens.saturating_sub(left);
        self.history_tokens -= saved;
        if let Some(counted) = &mut self.counted {
            counted.input = counted.input.saturating_sub(saved);
            counted.history_tokens = counted.history_tokens.saturating_sub(saved);
        }
    }
}
