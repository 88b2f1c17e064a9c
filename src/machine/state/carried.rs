//! What of the earlier sessions of its conversation a session is still shown. It must never hold
//! their texts: those stand in the prompt.

use crate::{
    core::{Message, fact::Follows},
    machine::{follow::Pair, prompt::Prompt, summary, tokens::estimate_messages},
};

/// The pairs that a session took over, and what became of them since.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// Tokens of each, oldest first, those that are gone included.
    tokens: Vec<u64>,
    /// The oldest, which are left out.
    gone: usize,
    /// What stands in their place.
    summary: Option<Pair>,
}

impl Carried {
    pub(super) fn of(follows: Option<&Follows>) -> Self {
        let pairs = follows.map_or(&[][..], |follows| &follows.carried);
        Self { tokens: pairs.iter().map(|pair| pair.tokens).collect(), ..Self::default() }
    }

    /// Pairs that are still shown.
    pub fn pairs(&self) -> u32 {
        u32::try_from(self.tokens.len() - self.gone).unwrap_or(u32::MAX)
    }

    /// As the model is shown them.
    pub fn messages<'a>(&'a self, prompt: &'a Prompt) -> impl Iterator<Item = &'a Message> {
        self.oldest(prompt, self.pairs())
    }

    /// So many of the oldest, the summary of still older ones before them.
    pub fn oldest<'a>(&'a self, prompt: &'a Prompt, pairs: u32) -> impl Iterator<Item = &'a Message> {
        let pairs = prompt.carried.iter().take(self.tokens.len()).skip(self.gone).take(pairs as usize);
        self.summary.iter().chain(pairs).flatten()
    }

    /// Estimated tokens of what is shown.
    pub(in crate::machine) fn tokens(&self) -> u64 {
        self.tokens_of_summary() + self.tokens_of(self.pairs())
    }

    /// Estimated tokens of so many of the oldest, without what stands before them.
    pub(in crate::machine) fn tokens_of(&self, pairs: u32) -> u64 {
        self.tokens[self.gone..].iter().take(pairs as usize).sum()
    }

    /// Estimated tokens of what stands in the place of those that are gone.
    pub(in crate::machine) fn tokens_of_summary(&self) -> u64 {
        self.summary.as_ref().map_or(0, |pair| estimate_messages(pair))
    }

    /// Leaves out so many of the oldest; a summary stands in their place and in that of the one
    /// before.
    pub(super) fn leave_out(&mut self, pairs: u32, text: Option<&str>) {
        self.gone = self.gone.saturating_add(pairs as usize).min(self.tokens.len());
        if let Some(text) = text {
            self.summary = Some(summary::of_conversation(text));
        }
    }

    /// Leaves out all: what is said of it stands elsewhere.
    pub(super) fn clear(&mut self) {
        self.gone = self.tokens.len();
        self.summary = None;
    }
}
