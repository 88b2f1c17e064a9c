//! Opt-in content of spans: prompts, messages, arguments and results, as the attributes that the
//! GenAI conventions have for them.
//!
//! All of it is rebuilt from the journal and the texts that it names, so that a span that is sent
//! again is the same span. What is held is bounded: beside the state of a session, which the
//! limits of its context bound, no more than [`MAX_SESSION_BYTES`] and a root. Where content is
//! off nothing of this exists.

mod mask;
mod messages;
mod pen;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, sync::Arc};

use opentelemetry::{Array, KeyValue, StringValue, Value};

use self::pen::Made;
use super::attributes::string;
use crate::{
    core::{
        Arguments, Fact, Message, SessionStatus, SpanId, Timestamp, ToolOutcome,
        fact::{ModelCall, ModelCallEnd, SessionEnd, SessionStarted, SpanContent, ToolCallBegin, ToolCallEnd},
    },
    machine::{Old, Prompt, State, prompt::request},
    signal::names,
};

/// Bytes of one content attribute at the most.
pub const MAX_CONTENT_BYTES: usize = 32 << 10;

/// Bytes of content on all calls of one session at the most; the root has its own.
pub const MAX_SESSION_BYTES: usize = 1 << 20;

/// With less room than this an attribute is left out.
const LEAST: usize = 256;

/// Finds the prompt that a session began with; nothing where its texts cannot be had.
pub type Prompts = Arc<dyn Fn(&SessionStarted) -> Option<Prompt> + Send + Sync>;

/// How much of what was said is shown, and where the kept texts come from.
#[derive(Clone)]
pub struct Contents {
    /// The most that is shown; a session that began with less shows less.
    pub mode: SpanContent,
    /// The kept texts.
    pub prompts: Prompts,
}

/// What is shown of one open session.
#[derive(Debug)]
pub(super) struct Content {
    mode: SpanContent,
    /// The same fold as the session's own: what a model is asked follows from it.
    state: State,
    prompt: Prompt,
    /// Bytes that further calls may show.
    left: usize,
    root: Shown,
    calls: HashMap<SpanId, Shown>,
}

/// The content of one span.
#[derive(Debug, Default)]
struct Shown {
    attributes: Vec<KeyValue>,
    /// The keys of what is not whole.
    truncated: Vec<StringValue>,
}

impl Contents {
    /// What is shown of a session; nothing where it shows nothing.
    pub(super) fn open(&self, start: &SessionStarted) -> Option<Box<Content>> {
        let mode = self.mode.min(start.trace.content);
        if mode == SpanContent::Off {
            return None;
        }
        let prompt = (self.prompts)(start)?;
        let mut root = Shown::default();
        root.attributes.push(string(names::CONTENT_MODE, mode.label()));
        let task = [Message::User { content: start.task.expose().clone() }];
        let made = messages::input(mode, MAX_CONTENT_BYTES, &task);
        root.take(names::GEN_AI_INPUT_MESSAGES, made);
        let (state, calls) = (State::default(), HashMap::new());
        Some(Box::new(Content { mode, state, prompt, left: MAX_SESSION_BYTES, root, calls }))
    }
}

impl Content {
    /// A model is asked: rebuilds what it was sent.
    pub(super) fn asked(&mut self, op: SpanId, call: &ModelCall) {
        let request = request(&self.state, &self.prompt, call.purpose, call.max_tokens, Old::of(call));
        let mode = self.mode;
        if !request.system.is_empty() {
            let make = |room| messages::instructions(mode, room, &request.system);
            self.show(op, names::GEN_AI_SYSTEM_INSTRUCTIONS, make);
        }
        if !request.tools.is_empty() {
            let make = |room| messages::tool_names(mode, room, &request.tools);
            self.show(op, names::GEN_AI_TOOL_DEFINITIONS, make);
        }
        self.show(op, names::GEN_AI_INPUT_MESSAGES, |room| messages::input(mode, room, &request.messages));
    }

    /// It answered, or did not; gives what the span shows.
    pub(super) fn replied(&mut self, op: SpanId, end: &ModelCallEnd) -> Vec<KeyValue> {
        let mode = self.mode;
        if let Some(reply) = &end.reply {
            self.show(op, names::GEN_AI_OUTPUT_MESSAGES, |room| messages::output(mode, room, reply));
        }
        self.done(op)
    }

    /// A tool is called.
    pub(super) fn called(&mut self, op: SpanId, call: &ToolCallBegin) {
        let mode = self.mode;
        self.show(op, names::GEN_AI_TOOL_CALL_ARGUMENTS, |room| match &call.arguments {
            Arguments::Json(value) => pen::value(room, &mask::value(mode, value)),
            Arguments::Raw(text) => pen::text(room, &mask::text(mode, text)),
        });
    }

    /// It came back; gives what the span shows. Only a success has a result, as the conventions
    /// have it: what else a model reads stands in its next messages.
    pub(super) fn returned(&mut self, op: SpanId, end: &ToolCallEnd) -> Vec<KeyValue> {
        let mode = self.mode;
        if end.outcome == ToolOutcome::Ok {
            let result = &end.observation.content;
            self.show(op, names::GEN_AI_TOOL_CALL_RESULT, |room| pen::text(room, &mask::text(mode, result)));
        }
        self.done(op)
    }

    /// The session ended; gives what its root shows.
    pub(super) fn ended(mut self, end: &SessionEnd) -> Vec<KeyValue> {
        let (mode, room) = (self.mode, MAX_CONTENT_BYTES);
        if !self.prompt.system.is_empty() {
            let made = messages::instructions(mode, room, &self.prompt.system);
            self.root.take(names::GEN_AI_SYSTEM_INSTRUCTIONS, made);
        }
        if !self.prompt.tools.is_empty() {
            let made = messages::definitions(mode, room, &self.prompt.tools);
            self.root.take(names::GEN_AI_TOOL_DEFINITIONS, made);
        }
        if let Some(answer) = end.answer.as_ref().or(end.partial.as_ref()) {
            let made = messages::answer(mode, room, answer.expose(), why(end.status));
            self.root.take(names::GEN_AI_OUTPUT_MESSAGES, made);
        }
        self.root.done()
    }

    /// Takes in a fact, after what it shows was made of the state before it.
    pub(super) fn follow(&mut self, fact: &Fact, at: Timestamp) {
        self.state.apply(fact, at);
    }

    /// Shows one thing on the span of a call, as long as its session has room.
    fn show(&mut self, op: SpanId, key: &'static str, make: impl FnOnce(usize) -> Made) {
        let shown = self.calls.entry(op).or_default();
        let room = self.left.min(MAX_CONTENT_BYTES);
        if room < LEAST {
            shown.truncated.push(key.into());
            return;
        }
        let made = make(room);
        self.left -= made.text.len().min(self.left);
        shown.take(key, made);
    }

    fn done(&mut self, op: SpanId) -> Vec<KeyValue> {
        self.calls.remove(&op).map(Shown::done).unwrap_or_default()
    }
}

impl Shown {
    fn take(&mut self, key: &'static str, made: Made) {
        if !made.whole {
            self.truncated.push(key.into());
        }
        self.attributes.push(KeyValue::new(key, made.text));
    }

    fn done(mut self) -> Vec<KeyValue> {
        if !self.truncated.is_empty() {
            let keys = Value::Array(Array::String(self.truncated));
            self.attributes.push(KeyValue::new(names::CONTENT_TRUNCATED, keys));
        }
        self.attributes
    }
}

/// Why a session's answer is what it is, in the words that the conventions have for a model's.
const fn why(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Done => "stop",
        SessionStatus::MaxIterations | SessionStatus::BudgetExceeded => "length",
        SessionStatus::Error => "error",
        SessionStatus::Cancelled
        | SessionStatus::Running
        | SessionStatus::Suspended
        | SessionStatus::AwaitingConfirmation => status.label(),
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents").field("mode", &self.mode).finish_non_exhaustive()
    }
}
