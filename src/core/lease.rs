//! Leases: how processes that share a store agree on who drives a session.
//!
//! A lease lasts until a point in time and is renewed by a heartbeat. Its epoch grows each time
//! that the session changes hands, so whoever lost it is refused at the next write even if its
//! own clock says otherwise. This file knows nothing of heartbeats or of who resumes what.

use std::fmt;

use super::{
    id::{ProcessId, SessionId},
    once::Once,
    port::StoreError,
    time::Timestamp,
};

/// How often a session has changed hands; the fencing number of one holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseEpoch(u64);

/// The taking of a session that begins: nobody else can know its id yet, so no question is asked
/// but whether its idempotency key and its conversation are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taking {
    /// Who takes it.
    pub owner: ProcessId,
    /// Until when, unless it is renewed.
    pub until: Timestamp,
    /// The idempotency key that begins it, if any.
    pub once: Option<Once>,
}

/// What a process holds of a session whose journal it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It begins the session and takes it with the first write. Boxed, because one write of many
    /// is such a write, and each carries its holding.
    Taking(Box<Taking>),
    /// It holds this epoch.
    Held(LeaseEpoch),
}

impl LeaseEpoch {
    /// The epoch of whoever begins a session.
    pub const FIRST: Self = Self(1);

    /// The `number`th holding of a session, from 1.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Which holding this is, from 1.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for LeaseEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The answer to a process that asks for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseGrant {
    /// The session is the asker's; its writes carry this epoch.
    Granted(LeaseEpoch),
    /// Somebody holds it, perhaps the asker itself.
    Held {
        /// Who.
        owner: ProcessId,
        /// Until when, unless it is renewed.
        until: Timestamp,
    },
}

/// Who drives which session. Atomic across all processes that share the store. Calls block.
pub trait Leases: Send + Sync {
    /// Takes the session for `owner`, if nobody holds it at `now`. The session need not exist
    /// yet: a new one is taken before its first fact is written. It may also have ended between
    /// a look at [`Leases::expired`] and this call, so the journal is read after the grant.
    ///
    /// # Errors
    /// Where the store cannot be written.
    fn acquire(
        &self,
        session: SessionId,
        owner: ProcessId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<LeaseGrant, StoreError>;

    /// Moves the end of the leases that `owner` still holds, and returns the sessions that it
    /// no longer does. One that ran out, but that nobody took, is still held.
    ///
    /// # Errors
    /// Where the store cannot be written; then no lease was moved.
    fn renew(&self, owner: ProcessId, sessions: &[SessionId], until: Timestamp) -> Result<Vec<SessionId>, StoreError>;

    /// Gives a session back; does nothing where `owner` does not hold it.
    ///
    /// # Errors
    /// Where the store cannot be written.
    fn release(&self, session: SessionId, owner: ProcessId) -> Result<(), StoreError>;

    /// Sessions that go on by themselves and that nobody holds at `now`, oldest first. One that
    /// waits for a person is not among them.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn expired(&self, now: Timestamp) -> Result<Vec<SessionId>, StoreError>;
}
