//! Why a person's request was refused, beside the phrase that programs read: for pages, which say it
//! in the words of their own language.
//!
//! It must never decide anything, and holds nothing of a session's text.

use crate::{
    core::fact::Decision,
    runtime::{NotDecided, NotHandled, NotResumed, Refused},
    session::Objection,
};

/// Why, as far as a page has words for it.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// No session was begun.
    NotBegun(Refused),
    /// There is no such session, or it is somebody else's.
    NoSession,
    /// Sessions of others are not listed for everybody.
    OthersSessions,
    /// The session is held by another process.
    Held,
    /// The session has ended.
    Ended,
    /// The call does not wait for a decision.
    NotAsked,
    /// What waits are other arguments than those that were shown.
    OtherArguments,
    /// Somebody decided before.
    Decided(Decision),
    /// The time to decide is over.
    Expired,
    /// Other calls still run, or somebody is deciding.
    Busy,
    /// Others decide.
    MayNotDecide,
    /// There is no such hand-over.
    NoHandover,
    /// Another operator works on the hand-over.
    HandoverClaimed,
    /// The hand-over is closed.
    HandoverClosed,
    /// The comment has more letters than this.
    LongComment(usize),
    /// There is no such circuit breaker.
    NoCircuit,
    /// It is for operators.
    OnlyOperators,
    /// The form is not of a page that this visit was shown.
    StalePage,
    /// Somebody must sign in first.
    NotSignedIn,
    /// The journal cannot be read or written.
    Journal,
}

impl Why {
    /// Of a session that is not gone on with; nothing where there are no words for it.
    pub(super) fn of_resume(why: &NotResumed) -> Option<Self> {
        match why {
            NotResumed::Unknown(_) => Some(Self::NoSession),
            NotResumed::Ended(_) => Some(Self::Ended),
            NotResumed::Held { .. } | NotResumed::Runs(_) => Some(Self::Held),
            NotResumed::Refused(refused) => Some(Self::NotBegun(refused.clone())),
            NotResumed::Store(_) => Some(Self::Journal),
            NotResumed::Waiting(_) | NotResumed::NoAgent { .. } | NotResumed::Prompt { .. } => None,
        }
    }

    /// Of a decision that is not taken.
    pub(super) fn of_decision(why: &NotDecided) -> Option<Self> {
        match why {
            NotDecided::Unknown(_) => Some(Self::NoSession),
            NotDecided::Objection(Objection::NotAsked(_)) => Some(Self::NotAsked),
            NotDecided::Objection(Objection::OtherArguments { .. }) => Some(Self::OtherArguments),
            NotDecided::Objection(Objection::Decided { decision, .. }) => Some(Self::Decided(*decision)),
            NotDecided::Objection(Objection::Expired(_)) => Some(Self::Expired),
            NotDecided::Busy(_) => Some(Self::Busy),
            NotDecided::NotResumed(why) => Self::of_resume(why),
        }
    }

    /// Of an operator's word that is not taken.
    pub(super) const fn of_handover(why: &NotHandled) -> Self {
        use crate::core::handover::HandoverObjection::{Claimed, Closed};
        match why {
            NotHandled::Unknown(_) => Self::NoHandover,
            NotHandled::Objection(Claimed { .. }) => Self::HandoverClaimed,
            NotHandled::Objection(Closed { .. }) => Self::HandoverClosed,
            NotHandled::Store(_) => Self::Journal,
        }
    }
}
