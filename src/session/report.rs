//! A session as callers see it, the same in the API and on the command line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    core::{
        BlobHash, EndReason, Entry, Fact, Money, SessionId, SessionStatus, Timestamp, TraceId, Usage,
        fact::{SessionEnd, SessionStarted, SessionSummary},
    },
    machine::{State, state::Confirmation},
};

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct PendingConfirmation {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// What it would be called with.
    pub arguments: Value,
    /// The hash of that, to be given back with the decision.
    #[schema(value_type = String, pattern = "^sha256:[0-9a-f]{64}$")]
    pub arguments_hash: BlobHash,
    /// When it was asked, RFC 3339.
    #[schema(format = DateTime)]
    pub requested_at: String,
    /// When it can no longer be agreed to, RFC 3339.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

impl PendingConfirmation {
    /// All calls of a session that wait; none while it runs, for then they are not yet on show.
    pub fn all(state: &State) -> Vec<Self> {
        if state.status() != Some(SessionStatus::AwaitingConfirmation) {
            return Vec::new();
        }
        let show = |asked: &Confirmation| Self {
            call_id: asked.request.call_id.clone(),
            tool: asked.request.tool.clone(),
            arguments: asked.request.arguments.clone(),
            arguments_hash: asked.request.arguments_hash,
            requested_at: asked.asked.to_string(),
            expires_at: asked.request.expires.to_string(),
        };
        state.waiting().map(show).collect()
    }
}

/// What is known of a session.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SessionReport {
    /// The session.
    #[schema(value_type = String, pattern = "^sess_[0-9a-f]{32}$", example = "sess_00112233445566778899aabbccddeeff")]
    pub session_id: SessionId,
    /// Its trace.
    #[schema(value_type = String, pattern = "^[0-9a-f]{32}$")]
    pub trace_id: TraceId,
    /// The configured agent.
    pub agent: String,
    /// The configured kind of task.
    pub task_type: String,
    /// The conversation that it belongs to.
    pub conversation_id: Option<String>,
    /// The session before it in the conversation, whose tasks and answers it knows.
    #[schema(value_type = Option<String>, pattern = "^sess_[0-9a-f]{32}$")]
    pub follows: Option<SessionId>,
    /// Where it stands.
    pub status: SessionStatus,
    /// What refines the status.
    pub reason: Option<EndReason>,
    /// The answer of a session that is done.
    pub answer: Option<String>,
    /// What is known, of a session that ended otherwise.
    pub partial: Option<String>,
    /// What a customer is told, of a session that ended otherwise.
    pub explanation: Option<String>,
    /// Whether the answer was given without tools because all were unavailable.
    pub degraded: bool,
    /// Calls that wait for a person.
    pub pending_confirmations: Vec<PendingConfirmation>,
    /// Steps that have their reply.
    pub total_steps: u32,
    /// Tokens so far.
    pub usage: Usage,
    /// What they cost in US dollars; nothing where no model of it has prices.
    pub cost_usd: Option<f64>,
    /// Tools called, in the order of their first call.
    pub tools_called: Vec<String>,
    /// When it began, RFC 3339.
    #[schema(format = DateTime)]
    pub started_at: String,
    /// When it ended, RFC 3339.
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// Active time in milliseconds.
    pub active_ms: u64,
    /// What the caller sent along.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// Whose it is; not shown.
    #[serde(skip)]
    pub owner: String,
}

/// A session as one of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionRow {
    /// The session.
    #[schema(value_type = String, pattern = "^sess_[0-9a-f]{32}$", example = "sess_00112233445566778899aabbccddeeff")]
    pub session_id: SessionId,
    /// The configured agent.
    pub agent: String,
    /// The configured kind of task.
    pub task_type: String,
    /// Where it stands.
    pub status: SessionStatus,
    /// What refines the status.
    pub reason: Option<EndReason>,
    /// When it began, RFC 3339.
    #[schema(format = DateTime)]
    pub started_at: String,
    /// When its last fact was recorded, RFC 3339.
    #[schema(format = DateTime)]
    pub updated_at: String,
    /// Steps that have their reply.
    pub total_steps: u32,
}

impl From<SessionSummary> for SessionRow {
    fn from(row: SessionSummary) -> Self {
        Self {
            session_id: row.id,
            agent: row.agent,
            task_type: row.task_type,
            status: row.status,
            reason: row.reason,
            started_at: row.started.to_string(),
            updated_at: row.updated.to_string(),
            total_steps: row.steps,
        }
    }
}

impl SessionReport {
    /// The report of a journal; nothing if it does not begin with the start of a session.
    pub fn of(entries: &[Entry]) -> Option<Self> {
        let first = entries.first()?;
        let id = first.stream.session()?;
        let Fact::SessionStarted(started) = &first.fact else { return None };
        let last = entries.last()?;
        let state = State::fold(entries);
        Some(match &last.fact {
            Fact::SessionFinished(end) => Self::ended(Self::open(id, first.at, last.at, started, &state), last.at, end),
            _ => Self::open(id, first.at, last.at, started, &state),
        })
    }

    /// The report while the journal cannot write: where the session stands then is the word of
    /// the process that drives it, not yet of the journal.
    #[must_use]
    pub fn held_up(self) -> Self {
        match self.status {
            SessionStatus::Running => Self { status: SessionStatus::Suspended, ..self },
            _ => self,
        }
    }

    fn open(id: SessionId, began: Timestamp, now: Timestamp, started: &SessionStarted, state: &State) -> Self {
        Self {
            session_id: id,
            trace_id: started.trace.trace_id,
            agent: started.agent.clone(),
            task_type: started.task_type.clone(),
            conversation_id: started.conversation_id.clone(),
            follows: started.follows.as_ref().map(|follows| follows.session),
            status: state.status().unwrap_or(SessionStatus::Running),
            reason: None,
            answer: None,
            partial: None,
            explanation: None,
            degraded: false,
            pending_confirmations: PendingConfirmation::all(state),
            total_steps: state.steps(),
            usage: *state.usage(),
            cost_usd: state.cost().map(Money::usd),
            tools_called: state.tools_called().to_vec(),
            started_at: began.to_string(),
            finished_at: None,
            active_ms: state.active_ms(now),
            metadata: started.metadata.clone(),
            owner: started.principal.id.clone(),
        }
    }

    fn ended(self, at: Timestamp, end: &SessionEnd) -> Self {
        Self {
            status: end.status,
            reason: end.reason,
            answer: end.answer.as_ref().map(|text| text.expose().clone()),
            partial: end.partial.as_ref().map(|text| text.expose().clone()),
            explanation: end.explanation.clone(),
            degraded: end.degraded,
            total_steps: end.steps,
            usage: end.usage,
            cost_usd: end.cost.map(Money::usd),
            finished_at: Some(at.to_string()),
            active_ms: end.active_ms,
            ..self
        }
    }
}
