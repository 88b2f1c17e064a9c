//! What facts say of a call that waits for a person.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::{id::BlobHash, principal::Principal, sensitive::Sensitive, time::Timestamp};

/// What a person is asked to agree to. An approval holds for exactly this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfirmationRequest {
    /// The step that asked for the call.
    pub step: u32,
    /// The id of the call.
    pub call_id: String,
    /// The tool, which is a configured one.
    pub tool: String,
    /// Its arguments, valid and with defaults; what runs is this and nothing else.
    pub arguments: Value,
    /// SHA-256 of the arguments as canonical JSON (RFC 8785).
    pub arguments_hash: BlobHash,
    /// SHA-256 of the tool's definition and effect as canonical JSON.
    pub definition_hash: BlobHash,
    /// Who the call is for, with everything that tools are bound to.
    pub principal: Principal,
    /// From when on nobody can agree any more, and an approval holds no longer.
    pub expires: Timestamp,
}

/// How the waiting ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmationEnd {
    /// What was decided.
    pub decision: Decision,
    /// Who decided: a principal's id, or `glassbox` where nobody did.
    pub by: Sensitive<String>,
    /// What they said to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<Sensitive<String>>,
}

/// What became of a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// A person said yes.
    Approved,
    /// A person said no.
    Denied,
    /// Nobody said anything in time.
    Expired,
    /// The session ended before anybody said anything.
    Withdrawn,
}

impl Decision {
    /// Every decision.
    pub const ALL: [Self; 4] = [Self::Approved, Self::Denied, Self::Expired, Self::Withdrawn];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl ConfirmationEnd {
    /// An end that no person brought about.
    pub fn of_itself(decision: Decision) -> Self {
        Self { decision, by: Sensitive::from("glassbox"), comment: None }
    }
}
