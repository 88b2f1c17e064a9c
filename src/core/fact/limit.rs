//! What facts say of limits and hand-overs.

use serde::{Deserialize, Serialize};

use crate::core::{
    handover::{HandoverId, HandoverStatus},
    sensitive::Sensitive,
};

/// The limits that stop a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "named like the end reasons, which carry their meanings")]
pub enum Limit {
    MaxIterations,
    TokenBudget,
    CostLimit,
    ContextWindow,
    Deadline,
    RepeatedFailure,
    NoProgress,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 7] = [
        Self::MaxIterations,
        Self::TokenBudget,
        Self::CostLimit,
        Self::ContextWindow,
        Self::Deadline,
        Self::RepeatedFailure,
        Self::NoProgress,
    ];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::MaxIterations => "max_iterations",
            Self::TokenBudget => "token_budget",
            Self::CostLimit => "cost_limit",
            Self::ContextWindow => "context_window",
            Self::Deadline => "deadline",
            Self::RepeatedFailure => "repeated_failure",
            Self::NoProgress => "no_progress",
        }
    }
}

/// Rate limits of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimit {
    /// Calls of a tool, by all together.
    Tool,
    /// Calls of a tool by one principal.
    ToolPrincipal,
    /// Attempts of a tool at one time.
    ToolSlots,
    /// Sessions that one principal begins in an hour.
    SessionsPerUser,
    /// Sessions of one principal that run at one time.
    ConcurrentPerUser,
    /// Sessions of all that run at one time.
    MaxSessions,
    /// Sessions that would slow down those that run: the journal is behind.
    Overload,
}

impl RateLimit {
    /// Every limit.
    pub const ALL: [Self; 7] = [
        Self::Tool,
        Self::ToolPrincipal,
        Self::ToolSlots,
        Self::SessionsPerUser,
        Self::ConcurrentPerUser,
        Self::MaxSessions,
        Self::Overload,
    ];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::ToolPrincipal => "tool_principal",
            Self::ToolSlots => "tool_slots",
            Self::SessionsPerUser => "sessions_per_user",
            Self::ConcurrentPerUser => "concurrent_sessions_per_user",
            Self::MaxSessions => "max_sessions",
            Self::Overload => "overload",
        }
    }
}

/// Why a person has to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoverCause {
    /// The session ended without its answer.
    SessionEnded,
    /// A call with effects may or may not have happened.
    UnknownOutcome,
}

/// An operator did something with a hand-over. What was said to it stands in the record alone,
/// which is erased with its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoverChange {
    /// Which.
    pub handover: HandoverId,
    /// Where it stands now.
    pub to: HandoverStatus,
    /// Who did it.
    pub by: Sensitive<String>,
}

impl HandoverCause {
    /// Every cause.
    pub const ALL: [Self; 2] = [Self::SessionEnded, Self::UnknownOutcome];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::SessionEnded => "session_ended",
            Self::UnknownOutcome => "unknown_outcome",
        }
    }
}
