//! What is handed to a store and asked of it: writes, kept texts, lists.

use std::sync::Arc;

use crate::core::{
    fact::Entry,
    id::{BlobHash, SessionId, StreamId},
    lease::{LeaseEpoch, Taking},
    outcome::SessionStatus,
};

/// Text kept once under its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// SHA-256 of the bytes.
    pub hash: BlobHash,
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

/// Facts of one stream, and the blobs that they name, that belong together.
#[derive(Clone, Debug)]
pub struct Write {
    /// Whose journal.
    pub stream: StreamId,
    /// Its next entries, in order.
    pub entries: Vec<Arc<Entry>>,
    /// Blobs that the entries name.
    pub blobs: Vec<Blob>,
    /// The holding of the session that this write relies on; where the session has changed
    /// hands since, the write is refused. Nothing where no lease is asked for.
    pub lease: Option<LeaseEpoch>,
    /// Takes a session that begins with this write, under the first epoch, in the same
    /// transaction.
    pub take: Option<Taking>,
    /// The first place whose line is owed, if the stream has no [mark](crate::core::mark) yet.
    /// Nothing where no mark is asked for.
    pub mark: Option<u64>,
}

impl Write {
    /// A write that relies on no lease.
    pub const fn new(stream: StreamId, entries: Vec<Arc<Entry>>, blobs: Vec<Blob>) -> Self {
        Self { stream, entries, blobs, lease: None, take: None, mark: None }
    }

    /// Makes the write rely on a holding of the session.
    #[must_use]
    pub const fn under(mut self, lease: LeaseEpoch) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Makes the write take the session that it begins.
    #[must_use]
    pub const fn taking(mut self, take: Taking) -> Self {
        self.take = Some(take);
        self
    }

    /// Makes lines of the stream owed from a place on, unless they are already.
    #[must_use]
    pub const fn owing_from(mut self, place: u64) -> Self {
        self.mark = Some(place);
        self
    }
}

/// Which sessions a list shows, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only this owner's.
    pub principal: Option<String>,
    /// Only of this conversation.
    pub conversation: Option<String>,
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only of this kind of task.
    pub task_type: Option<String>,
    /// Only with this status.
    pub status: Option<SessionStatus>,
    /// Only those that began before this session, for the next page.
    pub before: Option<SessionId>,
    /// At the most; 0 means 100.
    pub limit: usize,
}
