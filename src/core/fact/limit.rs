//! What facts say of limits and hand-overs.

use serde::{Deserialize, Serialize};

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
    /// Sessions that one principal begins in an hour.
    SessionsPerUser,
}

impl RateLimit {
    /// Every limit.
    pub const ALL: [Self; 3] = [Self::Tool, Self::ToolPrincipal, Self::SessionsPerUser];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::ToolPrincipal => "tool_principal",
            Self::SessionsPerUser => "sessions_per_user",
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

impl HandoverCause {
    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::SessionEnded => "session_ended",
            Self::UnknownOutcome => "unknown_outcome",
        }
    }
}
