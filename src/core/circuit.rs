//! Words for circuit breakers: which there are, how they stand, and why one moved.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{sensitive::Sensitive, time::Timestamp};

/// What a circuit breaker guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CircuitKind {
    /// One tool.
    Tool,
    /// One model.
    Model,
    /// Tools that name the same `circuit:`.
    Group,
}

/// One circuit breaker, as people name it: `tool/txn_sum`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct CircuitId {
    /// What it guards.
    pub kind: CircuitKind,
    /// The configured name of that.
    pub name: String,
}

/// How a circuit breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CircuitState {
    /// Attempts go through and are counted.
    Closed,
    /// No attempt goes through.
    Open,
    /// One attempt at a time goes through, as a probe.
    HalfOpen,
}

/// Why a circuit breaker moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CircuitCause {
    /// Too many attempts of the window failed.
    Failures,
    /// Its time was over: that of being open, or that of an operator's switch.
    TimePassed,
    /// The probe failed.
    ProbeFailed,
    /// The probe succeeded.
    ProbeSucceeded,
    /// An operator holds it open.
    ForcedOpen,
    /// An operator holds it closed.
    ForcedClosed,
    /// An operator let it begin anew.
    Reset,
    /// A process began and took over how an earlier one left it.
    Restored,
}

/// One move of a circuit breaker, as the system journal holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitChange {
    /// Which one.
    #[serde(flatten)]
    pub circuit: CircuitId,
    /// How it stood.
    pub from: CircuitState,
    /// How it stands.
    pub to: CircuitState,
    /// Why.
    pub cause: CircuitCause,
    /// Whether an operator holds it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Until when it stays, if nothing else moves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The operator whose act it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sensitive<String>>,
}

impl CircuitKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Tool, Self::Model, Self::Group];

    /// The word in API, metric and event.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Model => "model",
            Self::Group => "group",
        }
    }

    /// The kind of this word.
    pub fn of_label(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.label() == word)
    }
}

impl CircuitId {
    /// The circuit of a tool.
    pub fn tool(name: impl Into<String>) -> Self {
        Self { kind: CircuitKind::Tool, name: name.into() }
    }

    /// The circuit of a model.
    pub fn model(name: impl Into<String>) -> Self {
        Self { kind: CircuitKind::Model, name: name.into() }
    }

    /// A circuit that tools share.
    pub fn group(name: impl Into<String>) -> Self {
        Self { kind: CircuitKind::Group, name: name.into() }
    }
}

impl fmt::Display for CircuitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.label(), self.name)
    }
}

impl CircuitState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// The word in API, metric and event.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

impl CircuitCause {
    /// Every cause.
    pub const ALL: [Self; 8] = [
        Self::Failures,
        Self::TimePassed,
        Self::ProbeFailed,
        Self::ProbeSucceeded,
        Self::ForcedOpen,
        Self::ForcedClosed,
        Self::Reset,
        Self::Restored,
    ];

    /// The word in API and event.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::TimePassed => "time_passed",
            Self::ProbeFailed => "probe_failed",
            Self::ProbeSucceeded => "probe_succeeded",
            Self::ForcedOpen => "forced_open",
            Self::ForcedClosed => "forced_closed",
            Self::Reset => "reset",
            Self::Restored => "restored",
        }
    }
}
