//! What others may read of a state.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use super::{Carried, Confirmation, Open, State};
use crate::{
    core::{
        FaultKind, Limits, Message, Money, SessionStatus, SpanId, Timestamp, ToolCall, Usage,
        fact::{CallPurpose, Language, Limit, ModelInfo},
    },
    machine::{prompt::Prompt, repeats::Repeats},
};

impl State {
    /// Where it stands; nothing before its first fact.
    pub const fn status(&self) -> Option<SessionStatus> {
        self.status
    }

    /// Its limits.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The model that it began with.
    pub const fn model(&self) -> &ModelInfo {
        &self.model
    }

    /// The language of what a customer reads.
    pub const fn language(&self) -> Language {
        self.language
    }

    /// What is shown of earlier sessions of the conversation, before the history.
    pub const fn carried(&self) -> &Carried {
        &self.carried
    }

    /// What the model has read and said in this session, without the system prompt.
    pub fn history(&self) -> &[Message] {
        &self.history
    }

    /// Ids of tool calls so far.
    pub const fn call_ids(&self) -> &HashSet<String> {
        &self.call_ids
    }

    /// The number of the next step: the same again while the last has no reply.
    pub const fn next_step(&self) -> u32 {
        self.answered_steps + 1
    }

    /// Steps that have their reply.
    pub const fn steps(&self) -> u32 {
        self.answered_steps
    }

    /// Calls of the last reply that have no result yet, in call order.
    pub fn unanswered_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.pending.iter().filter(|pending| pending.result.is_none()).map(|pending| &pending.call)
    }

    /// What a person was asked of this call.
    pub fn confirmation(&self, call_id: &str) -> Option<&Confirmation> {
        self.confirmations.get(call_id)
    }

    /// Calls that wait for a person.
    pub fn waiting(&self) -> impl Iterator<Item = &Confirmation> {
        self.confirmations.waiting()
    }

    /// Whether a call of this tool may or may not have happened: the next needs a person.
    pub fn is_doubtful(&self, tool: &str) -> bool {
        self.confirmations.is_doubtful(tool)
    }

    /// All such tools, in the order of their names.
    pub fn doubtful(&self) -> impl Iterator<Item = &String> {
        self.confirmations.doubtful()
    }

    /// The answer, once the model gave it and, where it is held to a schema, once it fits.
    pub fn answer(&self) -> Option<&str> {
        self.answer.accepted()
    }

    /// An answer that is to be held against the schema of the session.
    pub fn unchecked_answer(&self) -> Option<&str> {
        self.answer.unchecked()
    }

    /// Whether the answer is held to a schema.
    pub const fn holds_answer(&self) -> bool {
        self.answer.held()
    }

    /// Whether the model is to be asked for an answer that fits, after one that did not.
    pub const fn needs_repair(&self) -> bool {
        self.answer.needs_repair()
    }

    /// Whether the second answer did not fit either.
    pub const fn answer_failed(&self) -> bool {
        self.answer.failed()
    }

    /// Replies with neither text nor calls.
    pub const fn empty_replies(&self) -> u32 {
        self.empty_replies
    }

    /// The fault that the last model call ended in, if no other took its place.
    pub fn model_failure(&self) -> Option<FaultKind> {
        self.model_failure.map(|(_, kind)| kind)
    }

    /// The same, of a step's own call: without its reply the session cannot go on.
    pub fn model_fault(&self) -> Option<FaultKind> {
        self.model_failure
            .filter(|(purpose, _)| !matches!(purpose, CallPurpose::WrapUp | CallPurpose::Summary))
            .map(|(_, kind)| kind)
    }

    /// The fallback that the next call was sent to.
    pub const fn sent_to(&self) -> Option<&String> {
        self.sent_to.as_ref()
    }

    /// Whether the wrap-up call was answered.
    pub const fn wrapped_up(&self) -> bool {
        self.wrap_up.is_some()
    }

    /// What is known: the wrap-up's text, else an answer that was cut off, else the last words of
    /// the model, else the last result.
    pub fn partial(&self) -> Option<&str> {
        let wrap_up = self.wrap_up.as_ref().and_then(Option::as_deref);
        wrap_up.or_else(|| self.answer.begun()).or_else(|| self.last_words()).or(self.last_result.as_deref())
    }

    fn last_words(&self) -> Option<&str> {
        self.history.iter().rev().find_map(|message| match message {
            Message::Assistant { content, .. } if !content.trim().is_empty() => Some(content.as_str()),
            Message::Assistant { .. } | Message::User { .. } | Message::Tool { .. } => None,
        })
    }

    /// Tokens so far.
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// What the calls so far cost, as far as their models have prices; nothing where none has.
    pub const fn cost(&self) -> Option<Money> {
        self.cost
    }

    /// The fullest that the window was.
    pub const fn context_peak(&self) -> f64 {
        self.context_peak
    }

    /// Configured tools called, in the order of their first call.
    pub fn tools_called(&self) -> &[String] {
        &self.tools_called
    }

    /// A circle that the session goes in.
    pub const fn repeats(&self) -> &Repeats {
        &self.repeats
    }

    /// The limit that a fact says was reached.
    pub const fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// Whether somebody asked for it to stop.
    pub const fn cancelled(&self) -> bool {
        self.cancelled
    }

    /// Times in a row that a process died with it and nothing was done in between.
    pub const fn crashes(&self) -> u32 {
        self.crashes
    }

    /// Operations that have not ended, which a resuming process closes as lost.
    pub const fn open(&self) -> &BTreeMap<SpanId, Open> {
        &self.open
    }

    /// Active time so far in milliseconds.
    pub fn active_ms(&self, now: Timestamp) -> u64 {
        self.clock.active_nanos(now) / 1_000_000
    }

    /// What is left of its active time.
    pub fn time_left(&self, now: Timestamp) -> Duration {
        self.limits.deadline.saturating_sub(Duration::from_millis(self.active_ms(now)))
    }

    /// Whether its answer was given without tools because all were unavailable.
    pub const fn degraded(&self) -> bool {
        self.degraded
    }

    /// Estimated input tokens of the next call: what the provider counted last and what came
    /// since, else everything by its length.
    pub fn estimate_input(&self, prompt: &Prompt) -> u64 {
        match self.counted {
            Some(counted) => counted.input + (self.history_tokens - counted.history_tokens),
            None => prompt.tokens() + self.history_tokens,
        }
    }
}
