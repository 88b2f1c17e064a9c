//! A tool that somebody else's server defines, and that it defined otherwise before.

use serde::{Deserialize, Serialize};

use crate::core::{id::BlobHash, spec::ToolDefinition};

/// What a server says of a tool that is new or no longer as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefinitionChange {
    /// The configured name of the server.
    pub server: String,
    /// The tool, under the server's own name.
    pub tool: String,
    /// The name that models call it by, made safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// The hash of the definition that was seen before; none where the tool is seen for the first
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<BlobHash>,
    /// The hash of the definition as it is now.
    pub new: BlobHash,
    /// Whether calls are refused because of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
    /// The definition as it is now: the server's name, text and schema.
    pub definition: ToolDefinition,
}

/// What became of a definition that is new or no longer as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionVerdict {
    /// Seen for the first time and taken.
    New,
    /// It differs from what was seen before, and is taken nevertheless.
    Accepted,
    /// Calls are refused until an operator accepts it.
    Blocked,
}

impl DefinitionVerdict {
    /// Every verdict.
    pub const ALL: [Self; 3] = [Self::New, Self::Accepted, Self::Blocked];

    /// The word in metric and event.
    pub const fn label(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Accepted => "accepted",
            Self::Blocked => "blocked",
        }
    }
}

impl DefinitionChange {
    /// What became of it.
    pub const fn verdict(&self) -> DefinitionVerdict {
        match (self.blocked, self.old) {
            (true, _) => DefinitionVerdict::Blocked,
            (false, Some(_)) => DefinitionVerdict::Accepted,
            (false, None) => DefinitionVerdict::New,
        }
    }
}
