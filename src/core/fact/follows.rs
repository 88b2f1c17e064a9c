//! What a session takes over from the conversation that it continues.

use serde::{Deserialize, Serialize};

use super::{SpanLink, is_zero_u32};
use crate::core::id::{BlobHash, SessionId};

/// The session before, and what a follow-up knows of the conversation so far. The texts are kept
/// under their hashes as texts of the follow-up too, so it needs no other journal than its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follows {
    /// The session before it in the conversation.
    pub session: SessionId,
    /// The root span of that session.
    pub root: SpanLink,
    /// Tasks and answers of earlier sessions that the model is shown, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<CarriedPair>,
    /// Earlier pairs that are not shown, for want of room.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub left_out: u32,
    /// Tools of which nobody knows whether a call of them happened: each further call of them
    /// needs a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<String>,
}

/// The task and the answer of an earlier session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedPair {
    /// The session.
    pub session: SessionId,
    /// Where the text of its task is kept.
    pub task: BlobHash,
    /// Where the text of its answer is kept, or of what stands for one.
    pub answer: BlobHash,
    /// Estimated tokens of both.
    pub tokens: u64,
}
