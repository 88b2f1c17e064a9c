//! What facts say of the model that is asked instead of another.

use serde::{Deserialize, Serialize};

use crate::core::fault::FaultKind;

/// Why a call goes to the fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackCause {
    /// The primary has been failing for a while, so that it was not asked.
    PrimaryDown,
    /// The call to the primary ended in this; with `circuit_open` it was not asked.
    #[serde(untagged)]
    Fault(FaultKind),
}

impl FallbackCause {
    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::PrimaryDown => "primary_down",
            Self::Fault(kind) => kind.label(),
        }
    }

    /// Every cause, for series that are born at zero.
    pub fn all() -> impl Iterator<Item = Self> {
        let faults = FaultKind::ALL.into_iter().filter(|kind| kind.falls_back()).map(Self::Fault);
        [Self::PrimaryDown].into_iter().chain(faults)
    }
}
