//! One classification of what goes wrong outside. Retry, breaker, metric label, span status,
//! observation text and HTTP status all ask here.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::message::Usage;

/// The kinds of fault of a model, a tool or a store. Closed: a new kind does not compile until
/// every question below has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// No answer within the time of the attempt (408 and 504 too).
    Timeout,
    /// No connection, or lost before anything was sent.
    Connection,
    /// The exchange broke after it began: a lost connection, a cut stream, a dead child process.
    Transport,
    /// 429.
    RateLimited,
    /// 503, 529, an overload inside a stream, 425.
    Overloaded,
    /// 500, 502 and the other 5xx.
    Server,
    /// 401 or 403 against the service's own credential.
    Auth,
    /// 413, or the provider's word that the context is too long.
    ContextTooLong,
    /// 400 and the other 4xx: the request itself is wrong.
    Refused,
    /// The model, or a filter of its provider, declined to answer.
    Declined,
    /// An answer that cannot be read.
    Malformed,
    /// The tool says that it failed (MCP `isError`, a declared failure rule).
    ToolError,
    /// The code of the tool or model panicked.
    Panic,
    /// A fault of this runtime or its disk.
    Internal,
    /// Nothing was asked: the circuit breaker is open.
    CircuitOpen,
}

/// What the end of an attempt says of the health of the other side, which is what a circuit
/// breaker counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It failed.
    Failure,
    /// It answered, if only with a no.
    Success,
    /// Nothing: the attempt was cut off, or it was our own doing.
    Ignored,
}

impl FaultKind {
    /// Every kind, for series that are born at zero.
    pub const ALL: [Self; 15] = [
        Self::Timeout,
        Self::Connection,
        Self::Transport,
        Self::RateLimited,
        Self::Overloaded,
        Self::Server,
        Self::Auth,
        Self::ContextTooLong,
        Self::Refused,
        Self::Declined,
        Self::Malformed,
        Self::ToolError,
        Self::Panic,
        Self::Internal,
        Self::CircuitOpen,
    ];

    /// The word in metrics, spans (`error.type`), events and observations.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Transport => "transport",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Auth => "auth",
            Self::ContextTooLong => "context_too_long",
            Self::Refused => "refused",
            Self::Declined => "declined",
            Self::Malformed => "malformed",
            Self::ToolError => "tool_error",
            Self::Panic => "panic",
            Self::Internal => "internal",
            Self::CircuitOpen => "circuit_open",
        }
    }

    /// Whether the same request may succeed a little later.
    pub const fn retryable(self) -> bool {
        match self {
            Self::Timeout
            | Self::Connection
            | Self::Transport
            | Self::RateLimited
            | Self::Overloaded
            | Self::Server => true,
            Self::Auth
            | Self::ContextTooLong
            | Self::Refused
            | Self::Declined
            | Self::Malformed
            | Self::ToolError
            | Self::Panic
            | Self::Internal
            | Self::CircuitOpen => false,
        }
    }

    /// What it says of the health of the other side: 429 is our own pace, `internal` our own
    /// fault, and a refused request or a tool's own word is an answer.
    pub const fn health(self) -> Health {
        match self {
            Self::Timeout
            | Self::Connection
            | Self::Transport
            | Self::Overloaded
            | Self::Server
            | Self::Auth
            | Self::Malformed
            | Self::Panic => Health::Failure,
            Self::ContextTooLong | Self::Refused | Self::Declined | Self::ToolError => Health::Success,
            Self::RateLimited | Self::Internal | Self::CircuitOpen => Health::Ignored,
        }
    }

    /// What it says of the way to the other side: whatever was answered came over it.
    pub const fn link_health(self) -> Health {
        match self {
            Self::Timeout | Self::Connection | Self::Transport => Health::Failure,
            Self::Overloaded
            | Self::Server
            | Self::Auth
            | Self::Malformed
            | Self::ContextTooLong
            | Self::Refused
            | Self::Declined
            | Self::ToolError
            | Self::RateLimited => Health::Success,
            Self::Panic | Self::Internal | Self::CircuitOpen => Health::Ignored,
        }
    }

    /// Whether the request was surely not carried out, so that even an unsafe one may be sent
    /// again. A 503 does not prove that: a proxy also answers it after it lost the service.
    pub const fn surely_not_executed(self) -> bool {
        matches!(self, Self::Connection | Self::RateLimited | Self::CircuitOpen)
    }

    /// Whether the request may have been carried out although no answer says so.
    pub const fn leaves_outcome_unknown(self) -> bool {
        matches!(self, Self::Timeout | Self::Transport | Self::Panic)
    }

    /// Whether another model may well serve what this one did not: the fault is on its side, its
    /// pace is exhausted, or it would not. A request that is itself wrong is wrong for the next
    /// model too.
    pub const fn falls_back(self) -> bool {
        matches!(self.health(), Health::Failure)
            || matches!(self, Self::RateLimited | Self::CircuitOpen | Self::Declined)
    }

    /// The status that our own API answers with when this fault is the reason.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Timeout => 504,
            Self::Connection | Self::Transport | Self::Server | Self::Auth | Self::Malformed => 502,
            Self::RateLimited => 429,
            Self::Overloaded | Self::CircuitOpen => 503,
            Self::ContextTooLong => 413,
            Self::Refused | Self::Declined => 422,
            Self::ToolError | Self::Panic | Self::Internal => 500,
        }
    }

    /// The kind of an HTTP status that a service answered with; none for a success.
    pub const fn of_status(status: u16) -> Option<Self> {
        match status {
            0..400 => None,
            401 | 403 => Some(Self::Auth),
            408 | 504 => Some(Self::Timeout),
            413 => Some(Self::ContextTooLong),
            425 | 503 | 529 => Some(Self::Overloaded),
            429 => Some(Self::RateLimited),
            400..500 => Some(Self::Refused),
            500.. => Some(Self::Server),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// Something outside went wrong. The text may be shown to the model and written to the journal;
/// it must say what was wrong, not what was secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct Fault {
    /// Which of the kinds.
    pub kind: FaultKind,
    /// One phrase for a person or a model.
    pub detail: String,
    /// The least time that the service asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The HTTP status that the service answered with, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What a model's exchange that broke after it began is charged with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Fault {
    /// A fault with no word on when to come back.
    pub fn new(kind: FaultKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), retry_after: None, status: None, usage: None }
    }

    /// Adds the time that the service asks to wait.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Adds the HTTP status that the service answered with.
    #[must_use]
    pub const fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds the tokens that are charged although no reply came of them.
    #[must_use]
    pub const fn charged(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statuses_of_the_seed_fall_where_its_table_says() {
        for status in [429, 503, 529] {
            assert!(FaultKind::of_status(status).is_some_and(FaultKind::retryable), "{status}");
        }
        for status in [400, 401, 413] {
            assert!(FaultKind::of_status(status).is_some_and(|kind| !kind.retryable()), "{status}");
        }
        assert_eq!(FaultKind::of_status(200), None);
    }

    #[test]
    fn every_kind_has_its_own_label() {
        let labels: std::collections::HashSet<_> = FaultKind::ALL.iter().map(|kind| kind.label()).collect();
        assert_eq!(labels.len(), FaultKind::ALL.len());
    }
}
