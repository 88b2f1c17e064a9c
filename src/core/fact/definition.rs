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
