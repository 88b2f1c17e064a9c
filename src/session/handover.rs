//! A hand-over as it is shown: over HTTP, on the command line, on the console.
//!
//! It must never decide who may see it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::core::{
    Sensitive, SessionId,
    handover::{Handover, HandoverId, HandoverStatus, OperatorWord},
};

/// Something that a person has to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HandoverReport {
    /// Its name.
    #[schema(value_type = String, pattern = "^hand_[0-9a-f]{32}_[0-9]+$")]
    pub handover_id: HandoverId,
    /// The session that it is about.
    #[schema(value_type = String, pattern = "^sess_[0-9a-f]{32}$")]
    pub session_id: SessionId,
    /// Where it stands.
    pub status: HandoverStatus,
    /// Why a person is asked for: `session_ended` or `unknown_outcome`.
    pub cause: &'static str,
    /// The tool whose call it is about, if it is about one.
    pub tool: Option<String>,
    /// One phrase on it.
    pub detail: Option<String>,
    /// The agent of the session.
    pub agent: String,
    /// The kind of task of the session.
    pub task_type: String,
    /// Whose session it is.
    pub principal: Option<String>,
    /// When it was opened, RFC 3339.
    #[schema(format = DateTime)]
    pub opened_at: String,
    /// Who works on it, since when.
    pub claimed: Option<OperatorMark>,
    /// Who closed it, and when.
    pub closed: Option<OperatorMark>,
    /// Whether the session is erased, and with it its principal and every text.
    pub erased: bool,
}

/// What an operator did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OperatorMark {
    /// Who.
    pub by: String,
    /// When, RFC 3339.
    #[schema(format = DateTime)]
    pub at: String,
    /// What there was to say.
    pub comment: Option<String>,
}

impl From<Handover> for HandoverReport {
    fn from(handover: Handover) -> Self {
        Self {
            handover_id: handover.id,
            session_id: handover.id.session,
            status: handover.status(),
            cause: handover.cause.label(),
            tool: handover.tool,
            detail: handover.detail.map(Sensitive::into_inner),
            agent: handover.agent,
            task_type: handover.task_type,
            principal: handover.principal,
            opened_at: handover.opened.to_string(),
            claimed: handover.claimed.map(OperatorMark::from),
            closed: handover.closed.map(OperatorMark::from),
            erased: handover.erased,
        }
    }
}

impl From<OperatorWord> for OperatorMark {
    fn from(word: OperatorWord) -> Self {
        Self { by: word.by.into_inner(), at: word.at.to_string(), comment: word.comment.map(Sensitive::into_inner) }
    }
}
