//! What a write changes in the lists of sessions, of hand-overs and of notices: a fold over its
//! facts, the same for every store. It must never know how a store keeps the lists.

#![warn(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use crate::core::{
    Entry, Fact, SessionId, Timestamp,
    fact::{HandoverCause, ModelOutcome, SessionStarted, SessionSummary},
    handover::{Handover, HandoverId},
    notice::Hook,
    outcome::{EndReason, SessionStatus},
};

/// What the facts of one write change in the row of their session.
#[derive(Clone, Debug)]
pub(super) struct Change<'a> {
    /// The fact that makes the row.
    pub(super) born: Option<(&'a SessionStarted, Timestamp)>,
    /// The status, if it changes.
    pub(super) status: Option<SessionStatus>,
    /// The reason, if one is given.
    pub(super) reason: Option<EndReason>,
    /// When the last fact was recorded.
    pub(super) updated: Timestamp,
    /// Facts added.
    pub(super) facts: u64,
    /// Replies of models added: each completes a step, unless the session ends with it.
    pub(super) replies: u32,
    /// The steps that have their reply, as the end of the session counts them.
    pub(super) steps: Option<u32>,
    /// Hand-overs opened.
    pub(super) handovers: Vec<Opened<'a>>,
    /// What is to be told outside: of what, the place of its fact, when that was recorded.
    pub(super) notices: Vec<(Hook, u64, Timestamp)>,
}

/// A hand-over as its fact opens it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened<'a> {
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) cause: HandoverCause,
    pub(super) detail: &'a str,
    pub(super) tool: Option<&'a str>,
}

impl<'a> Change<'a> {
    /// The change that these entries of one session make.
    pub(super) fn of(entries: &'a [Arc<Entry>]) -> Self {
        let mut change = Self {
            born: None,
            status: None,
            reason: None,
            updated: Timestamp::default(),
            facts: 0,
            replies: 0,
            steps: None,
            handovers: Vec::new(),
            notices: Vec::new(),
        };
        for entry in entries {
            change.updated = entry.at;
            change.facts += 1;
            change.fold(entry);
        }
        change
    }

    /// Adds one fact.
    fn fold(&mut self, entry: &'a Entry) {
        match &entry.fact {
            Fact::SessionStarted(started) => {
                self.born = (entry.seq == 0).then_some((started, entry.at));
                self.status = Some(SessionStatus::Running);
            }
            Fact::SessionSuspended { cause } => self.status = Some(cause.status()),
            Fact::SessionResumed { .. } => self.status = Some(SessionStatus::Running),
            Fact::SessionFinished(end) => {
                self.status = Some(end.status);
                self.reason = end.reason;
                // A wrap-up's or a repair's reply, which completes no step, comes right before the end.
                self.steps = Some(end.steps);
            }
            Fact::ModelCallFinished { end, .. } => self.replies += u32::from(end.outcome == ModelOutcome::Ok),
            Fact::HandedOver { cause, detail, tool } => {
                let (seq, at, detail, tool) = (entry.seq, entry.at, detail.expose().as_str(), tool.as_deref());
                self.handovers.push(Opened { seq, at, cause: *cause, detail, tool });
                self.notices.push((Hook::Handovers, seq, at));
            }
            Fact::ConfirmationRequested { .. } => self.notices.push((Hook::Confirmations, entry.seq, entry.at)),
            Fact::CancelRequested { .. }
            | Fact::ModelCallStarted { .. }
            | Fact::ModelAttemptStarted { .. }
            | Fact::ModelAttemptFinished { .. }
            | Fact::ToolCallStarted { .. }
            | Fact::ToolAttemptStarted { .. }
            | Fact::ToolAttemptFinished { .. }
            | Fact::ToolCallFinished { .. }
            | Fact::ConfirmationDecided { .. }
            | Fact::RateLimited { .. }
            | Fact::ContextCompacted { .. }
            | Fact::LimitReached { .. }
            | Fact::AnswerChecked { .. }
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

    /// The row that this change makes, if it holds the beginning of the session.
    pub(super) fn birth(&self, id: SessionId) -> Option<SessionSummary> {
        let (started, at) = self.born?;
        Some(SessionSummary {
            id,
            agent: started.agent.clone(),
            task_type: started.task_type.clone(),
            principal: started.principal.id.clone(),
            conversation: started.conversation_id.clone(),
            status: self.status.unwrap_or(SessionStatus::Running),
            reason: self.reason,
            started: at,
            updated: self.updated,
            facts: self.facts,
            steps: self.steps.unwrap_or(self.replies),
        })
    }

    /// Changes a row that stands.
    pub(super) fn apply(&self, row: &mut SessionSummary) {
        row.status = self.status.unwrap_or(row.status);
        row.reason = self.reason.or(row.reason);
        row.updated = self.updated;
        row.facts += self.facts;
        row.steps = self.steps.unwrap_or(row.steps + self.replies);
    }
}

impl Opened<'_> {
    /// The record that it opens, in a session of this row.
    pub(super) fn record(&self, row: &SessionSummary) -> Handover {
        Handover {
            id: HandoverId { session: row.id, seq: self.seq },
            agent: row.agent.clone(),
            task_type: row.task_type.clone(),
            principal: Some(row.principal.clone()),
            cause: self.cause,
            tool: self.tool.map(str::to_owned),
            detail: Some(self.detail.into()),
            opened: self.at,
            claimed: None,
            closed: None,
            erased: false,
        }
    }
}
