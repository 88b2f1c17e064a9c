//! How sessions and tool calls end: closed sets, each word the same in code, journal, event,
//! metric, span and API.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::fault::FaultKind;

/// Writes the label of a closed set wherever text is asked for.
macro_rules! labelled {
    ($name:ident { $($variant:ident => $label:literal, $doc:literal;)+ }) => {
        impl $name {
            /// Every member, in the order of the documents.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that users see.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)+
                }
            }

            /// What the word means, for the generated tables.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $doc,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.label())
            }
        }
    };
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each meaning stands in the table below")]
pub enum SessionStatus {
    Running,
    Suspended,
    AwaitingConfirmation,
    Done,
    MaxIterations,
    BudgetExceeded,
    Error,
    Cancelled,
}

labelled!(SessionStatus {
    Running => "running", "a process drives it";
    Suspended => "suspended", "it waits and goes on by itself";
    AwaitingConfirmation => "awaiting_confirmation", "it waits for a person";
    Done => "done", "the model gave its answer";
    MaxIterations => "max_iterations", "the limit of steps was reached";
    BudgetExceeded => "budget_exceeded", "a budget was used up";
    Error => "error", "it could not go on";
    Cancelled => "cancelled", "somebody stopped it";
});

impl SessionStatus {
    /// The statuses that a session can end with.
    pub const FINAL: [Self; 5] = [Self::Done, Self::MaxIterations, Self::BudgetExceeded, Self::Error, Self::Cancelled];

    /// Whether it needs nobody but a process that drives it.
    pub const fn goes_on_by_itself(self) -> bool {
        match self {
            Self::Running | Self::Suspended => true,
            Self::AwaitingConfirmation
            | Self::Done
            | Self::MaxIterations
            | Self::BudgetExceeded
            | Self::Error
            | Self::Cancelled => false,
        }
    }

    /// Whether the session has ended.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Running | Self::Suspended | Self::AwaitingConfirmation => false,
            Self::Done | Self::MaxIterations | Self::BudgetExceeded | Self::Error | Self::Cancelled => true,
        }
    }
}

/// What refines a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each meaning stands in the table below")]
pub enum EndReason {
    TokenBudget,
    CostLimit,
    ContextWindow,
    Deadline,
    RepeatedFailure,
    NoProgress,
    ModelUnavailable,
    ModelAuth,
    ModelDeclined,
    CrashLoop,
    OutputInvalid,
    EmptyReply,
}

labelled!(EndReason {
    TokenBudget => "token_budget", "the tokens of the session are used up";
    CostLimit => "cost_limit", "the money of the session is used up";
    ContextWindow => "context_window", "the history no longer fits the model";
    Deadline => "deadline", "the active time of the session is over";
    RepeatedFailure => "repeated_failure", "the same call, or one tool, failed again and again";
    NoProgress => "no_progress", "the same call succeeded again and again";
    ModelUnavailable => "model_unavailable", "no model answered";
    ModelAuth => "model_auth", "the model refused the credential";
    ModelDeclined => "model_declined", "the model declined to answer";
    CrashLoop => "crash_loop", "the session took its process down three times";
    OutputInvalid => "output_invalid", "the answer does not fit its schema";
    EmptyReply => "empty_reply", "the model said nothing twice";
});

impl EndReason {
    /// The status that this reason belongs to.
    pub const fn status(self) -> SessionStatus {
        match self {
            Self::TokenBudget | Self::CostLimit | Self::ContextWindow | Self::Deadline => SessionStatus::BudgetExceeded,
            Self::RepeatedFailure
            | Self::NoProgress
            | Self::ModelUnavailable
            | Self::ModelAuth
            | Self::ModelDeclined
            | Self::CrashLoop
            | Self::OutputInvalid
            | Self::EmptyReply => SessionStatus::Error,
        }
    }
}

/// How a tool call or one attempt of it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each meaning stands in the table below")]
pub enum ToolOutcome {
    Ok,
    Failed,
    Timeout,
    ToolError,
    Refused,
    InvalidArguments,
    UnknownTool,
    Denied,
    RateLimited,
    Rejected,
    Expired,
    CircuitOpen,
    Cancelled,
    UnknownOutcome,
    Lost,
}

labelled!(ToolOutcome {
    Ok => "ok", "it gave its result";
    Failed => "failed", "the service behind it failed";
    Timeout => "timeout", "no result in time";
    ToolError => "tool_error", "the tool says that it failed";
    Refused => "refused", "the service refused the request";
    InvalidArguments => "invalid_arguments", "the arguments do not fit the schema";
    UnknownTool => "unknown_tool", "no tool of this name";
    Denied => "denied", "the principal may not, or must be asked first";
    RateLimited => "rate_limited", "over a rate limit of ours";
    Rejected => "rejected", "a person said no";
    Expired => "expired", "nobody decided in time";
    CircuitOpen => "circuit_open", "its circuit breaker is open";
    Cancelled => "cancelled", "the session was stopped";
    UnknownOutcome => "unknown_outcome", "it may or may not have happened";
    Lost => "lost", "its process died; a new operation follows";
});

impl ToolOutcome {
    /// Whether the observation is marked as an error.
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::Ok)
    }

    /// The outcome of an attempt that ended in this fault.
    pub const fn of_fault(kind: FaultKind) -> Self {
        match kind {
            FaultKind::Timeout => Self::Timeout,
            FaultKind::ToolError => Self::ToolError,
            FaultKind::Refused | FaultKind::Declined | FaultKind::ContextTooLong => Self::Refused,
            FaultKind::Connection
            | FaultKind::Transport
            | FaultKind::RateLimited
            | FaultKind::Overloaded
            | FaultKind::Server
            | FaultKind::Auth
            | FaultKind::Malformed
            | FaultKind::Panic
            | FaultKind::Internal => Self::Failed,
            FaultKind::CircuitOpen => Self::CircuitOpen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_what_the_journal_holds() {
        for outcome in ToolOutcome::ALL {
            let text = serde_json::to_string(outcome).expect("a plain enum");
            assert_eq!(text, format!("\"{}\"", outcome.label()));
        }
        for status in SessionStatus::ALL {
            assert_eq!(serde_json::to_string(status).expect("a plain enum"), format!("\"{}\"", status.label()));
        }
        for reason in EndReason::ALL {
            assert_eq!(serde_json::to_string(reason).expect("a plain enum"), format!("\"{}\"", reason.label()));
        }
    }
}
