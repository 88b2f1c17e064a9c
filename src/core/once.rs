//! A request that is carried out once: what is kept of its idempotency key, beside the session
//! that it began. This file knows nothing of requests or of who sends them.

use super::{
    id::{BlobHash, SessionId},
    time::Timestamp,
};

/// The use of an idempotency key. It becomes durable with the first fact of its session, or the
/// session is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once {
    /// SHA-256 of the principal and the key.
    pub key: BlobHash,
    /// SHA-256 of the canonical body.
    pub body: BlobHash,
    /// Until when the key is kept.
    pub until: Timestamp,
}

/// The session that a key began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunOnce {
    /// The session.
    pub session: SessionId,
    /// SHA-256 of the canonical body that it was begun with.
    pub body: BlobHash,
}
