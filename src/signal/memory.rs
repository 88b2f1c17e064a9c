//! What a fold remembers of the sessions that are open here: who they are, and which calls have
//! begun. Metrics and lines each keep one.
//!
//! A fact that ends something says little of what it ends, so its beginning is kept until then
//! and not longer. It must never know what is counted or written.

#![warn(clippy::wildcard_enum_match_arm)]

use std::{collections::HashMap, sync::Arc};

use crate::core::{
    Entry, Fact, SessionId, SpanId, Timestamp,
    fact::{ModelCall, ModelOutcome, SessionStarted, SuspendCause, ToolCallBegin},
    outcome::ToolOutcome,
};

/// The open sessions; `I` is what a fold keeps of a session's first fact.
#[derive(Debug)]
pub(super) struct Memory<I> {
    /// Boxed, here and below: a table has more room than entries.
    sessions: HashMap<SessionId, Box<Open<I>>>,
}

/// One open session.
#[derive(Debug)]
pub(super) struct Open<I> {
    /// What its first fact said; nothing if that was neither seen nor adopted here.
    pub(super) identity: Option<I>,
    /// When it began.
    pub(super) started: Option<Timestamp>,
    /// The model whose call ended last, which asked for the tools that run now.
    pub(super) last_model: Option<String>,
    models: HashMap<SpanId, Box<OpenModelCall>>,
    tools: HashMap<SpanId, Box<OpenToolCall>>,
    confirmations: HashMap<SpanId, OpenConfirmation>,
}

/// A call that waits for a person. Its arguments are not kept.
#[derive(Debug)]
pub(super) struct OpenConfirmation {
    pub(super) step: u32,
    /// The tool, which is a configured one.
    pub(super) tool: String,
    pub(super) started: Timestamp,
}

/// A model call that has begun.
#[derive(Debug)]
pub(super) struct OpenModelCall {
    pub(super) call: Arc<ModelCall>,
    pub(super) started: Timestamp,
    /// The configured model asked last.
    pub(super) asked: String,
    /// Attempts begun.
    pub(super) attempts: u32,
    /// The attempt that ended last: whom it asked, and how it ended.
    last: Option<(String, ModelOutcome)>,
}

/// A tool call that has begun. Its arguments are not kept.
#[derive(Debug)]
pub(super) struct OpenToolCall {
    pub(super) step: u32,
    /// The tool, if there is one of that name.
    pub(super) tool: Option<String>,
    pub(super) started: Timestamp,
    /// Attempts begun.
    pub(super) attempts: u32,
    last: Option<ToolOutcome>,
}

impl<I> Memory<I> {
    /// Remembers nothing yet.
    pub(super) fn new() -> Self {
        Self { sessions: HashMap::new() }
    }

    /// Sessions that are open here.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// An open session.
    pub(super) fn get(&self, session: SessionId) -> Option<&Open<I>> {
        self.sessions.get(&session).map(|open| &**open)
    }

    /// Takes up a session whose journal another process life began, up to where it stands.
    pub(super) fn adopt(&mut self, entries: &[Entry], identify: impl Fn(&SessionStarted) -> I) {
        if let Some(session) = entries.first().and_then(|entry| entry.stream.session()) {
            self.sessions.remove(&session);
        }
        for entry in entries {
            self.open(entry, &identify);
            self.close_past(entry);
        }
    }

    /// Forgets what a fact closed whose session went on after it.
    pub(super) fn close_past(&mut self, entry: &Entry) {
        if !matches!(entry.fact, Fact::SessionSuspended { .. }) {
            self.close(entry);
        }
    }

    /// Forgets a session that is driven here no longer, though no fact says so.
    pub(super) fn leave(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// Notes what a fact opens. Called before the fact is folded.
    pub(super) fn open(&mut self, entry: &Entry, identify: impl FnOnce(&SessionStarted) -> I) {
        let Some(session) = entry.stream.session() else { return };
        match &entry.fact {
            Fact::SessionStarted(started) => {
                let open = self.entry(session);
                open.identity = Some(identify(started));
                open.started = Some(entry.at);
            }
            Fact::SessionResumed { .. } => {
                self.entry(session);
            }
            Fact::ModelCallStarted { op, call } => {
                self.entry(session).models.insert(*op, Box::new(OpenModelCall::new(call, entry.at)));
            }
            Fact::ToolCallStarted { op, call } => {
                self.entry(session).tools.insert(*op, Box::new(OpenToolCall::new(call, entry.at)));
            }
            Fact::ModelAttemptStarted { call, model, .. } => {
                if let Some(open) = self.model_call(session, *call) {
                    open.attempts += 1;
                    open.asked.clone_from(model);
                }
            }
            Fact::ToolAttemptStarted { call, .. } => {
                if let Some(open) = self.tool_call(session, *call) {
                    open.attempts += 1;
                }
            }
            Fact::ConfirmationRequested { op, request } => {
                let (step, tool) = (request.step, request.tool.clone());
                self.entry(session).confirmations.insert(*op, OpenConfirmation { step, tool, started: entry.at });
            }
            Fact::SessionSuspended { .. }
            | Fact::CancelRequested { .. }
            | Fact::ModelAttemptFinished { .. }
            | Fact::ModelCallFinished { .. }
            | Fact::ToolAttemptFinished { .. }
            | Fact::ToolCallFinished { .. }
            | Fact::ConfirmationDecided { .. }
            | Fact::RateLimited { .. }
            | Fact::ContextCompacted { .. }
            | Fact::LimitReached { .. }
            | Fact::AnswerChecked { .. }
            | Fact::HandedOver { .. }
            | Fact::SessionFinished(_)
            | Fact::ModelFallback { .. }
            | Fact::CircuitChanged(_)
            | Fact::ToolDefinitionChanged(_)
            | Fact::PrimaryChanged { .. }
            | Fact::ModelChecked { .. }
            | Fact::ProcessStarted { .. }
            | Fact::ProcessStopped { .. }
            | Fact::ConfigReloaded { .. }
            | Fact::HandoverChanged(_)
            | Fact::SessionsErased { .. } => {}
        }
    }

    /// Forgets what a fact closes. Called after the fact is folded.
    pub(super) fn close(&mut self, entry: &Entry) {
        let Some(session) = entry.stream.session() else { return };
        match &entry.fact {
            // Trouble of the journal is over when this is seen, and the session still driven here.
            Fact::SessionSuspended { cause: SuspendCause::Journal } => {}
            Fact::SessionSuspended { cause: SuspendCause::Drain | SuspendCause::Confirmation }
            | Fact::SessionFinished(_) => {
                self.sessions.remove(&session);
            }
            Fact::ModelAttemptFinished { call, end, .. } => {
                if let Some(open) = self.model_call(session, *call) {
                    open.last = Some((open.asked.clone(), end.outcome));
                }
            }
            Fact::ToolAttemptFinished { call, end, .. } => {
                if let Some(open) = self.tool_call(session, *call) {
                    open.last = Some(end.outcome);
                }
            }
            Fact::ModelCallFinished { op, .. } => {
                if let Some(open) = self.sessions.get_mut(&session) {
                    open.last_model = open.models.remove(op).map(|call| call.asked);
                }
            }
            Fact::ToolCallFinished { op, .. } => {
                if let Some(open) = self.sessions.get_mut(&session) {
                    open.tools.remove(op);
                }
            }
            Fact::ConfirmationDecided { op, .. } => {
                if let Some(open) = self.sessions.get_mut(&session) {
                    open.confirmations.remove(op);
                }
            }
            Fact::SessionStarted(_)
            | Fact::SessionResumed { .. }
            | Fact::CancelRequested { .. }
            | Fact::ModelCallStarted { .. }
            | Fact::ModelAttemptStarted { .. }
            | Fact::ToolCallStarted { .. }
            | Fact::ToolAttemptStarted { .. }
            | Fact::ConfirmationRequested { .. }
            | Fact::RateLimited { .. }
            | Fact::ContextCompacted { .. }
            | Fact::LimitReached { .. }
            | Fact::AnswerChecked { .. }
            | Fact::HandedOver { .. }
            | Fact::ModelFallback { .. }
            | Fact::CircuitChanged(_)
            | Fact::ToolDefinitionChanged(_)
            | Fact::PrimaryChanged { .. }
            | Fact::ModelChecked { .. }
            | Fact::ProcessStarted { .. }
            | Fact::ProcessStopped { .. }
            | Fact::ConfigReloaded { .. }
            | Fact::HandoverChanged(_)
            | Fact::SessionsErased { .. } => {}
        }
    }

    fn entry(&mut self, session: SessionId) -> &mut Open<I> {
        let nothing = || Open {
            identity: None,
            started: None,
            last_model: None,
            models: HashMap::new(),
            tools: HashMap::new(),
            confirmations: HashMap::new(),
        };
        self.sessions.entry(session).or_insert_with(|| Box::new(nothing()))
    }

    fn model_call(&mut self, session: SessionId, op: SpanId) -> Option<&mut OpenModelCall> {
        Some(self.sessions.get_mut(&session)?.models.get_mut(&op)?)
    }

    fn tool_call(&mut self, session: SessionId, op: SpanId) -> Option<&mut OpenToolCall> {
        Some(self.sessions.get_mut(&session)?.tools.get_mut(&op)?)
    }
}

impl<I> Open<I> {
    /// A model call of it that has begun.
    pub(super) fn model_call(&self, op: SpanId) -> Option<&OpenModelCall> {
        self.models.get(&op).map(|call| &**call)
    }

    /// A call of it that waits for a person.
    pub(super) fn confirmation(&self, op: SpanId) -> Option<&OpenConfirmation> {
        self.confirmations.get(&op)
    }

    /// A tool call of it that has begun.
    pub(super) fn tool_call(&self, op: SpanId) -> Option<&OpenToolCall> {
        self.tools.get(&op).map(|call| &**call)
    }
}

impl OpenModelCall {
    fn new(call: &Arc<ModelCall>, started: Timestamp) -> Self {
        let asked = call.model.name.clone();
        Self { call: call.clone(), started, asked, attempts: 0, last: None }
    }

    /// If the attempt that begins now repeats the one before at the same model: how that ended.
    pub(super) fn retry_after(&self) -> Option<ModelOutcome> {
        self.last.as_ref().filter(|(model, _)| *model == self.asked).map(|(_, outcome)| *outcome)
    }
}

impl OpenToolCall {
    fn new(call: &ToolCallBegin, started: Timestamp) -> Self {
        let tool = call.known.then(|| call.tool.clone());
        Self { step: call.step, tool, started, attempts: 0, last: None }
    }

    /// If the attempt that begins now repeats one: how that ended.
    pub(super) fn retry_after(&self) -> Option<ToolOutcome> {
        self.last
    }
}
