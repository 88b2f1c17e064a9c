//! Notices: what is still to be told to somebody outside, once it is durable, and the port that
//! keeps them until they were taken.
//!
//! A notice is written with the fact that it is about, so that no crash comes between the two.

use super::{id::SessionId, port::StoreError, time::Timestamp};

/// What is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// A hand-over was opened.
    Handovers,
    /// A call waits for a person.
    Confirmations,
}

/// One thing to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What is told of.
    pub hook: Hook,
    /// The session of the fact.
    pub session: SessionId,
    /// The place of the fact.
    pub seq: u64,
    /// When the fact was recorded.
    pub at: Timestamp,
    /// How often it was told in vain.
    pub attempts: u32,
}

/// Where notices are kept. They are written by [`Store::append`](super::Store::append), with the
/// facts. Calls block.
pub trait Notices: Send + Sync {
    /// Those of these hooks that are due at `now`, the longest due first, at most `limit`.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn due_notices(&self, hooks: &[Hook], now: Timestamp, limit: usize) -> Result<Vec<Notice>, StoreError>;

    /// Forgets a notice that was taken, or need not be told any more.
    ///
    /// # Errors
    /// Where the store cannot be written.
    fn settle_notice(&self, notice: &Notice) -> Result<(), StoreError>;

    /// Remembers that a notice was told in vain, and when it is told again.
    ///
    /// # Errors
    /// Where the store cannot be written.
    fn postpone_notice(&self, notice: &Notice, due: Timestamp) -> Result<(), StoreError>;

    /// Gives up those of a hook that were written before this time; gives how many there were.
    ///
    /// # Errors
    /// Where the store cannot be written.
    fn forget_notices(&self, hook: Hook, before: Timestamp) -> Result<u64, StoreError>;
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Handovers, Self::Confirmations];

    /// The word in configuration, metrics and the store.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Handovers => "handovers",
            Self::Confirmations => "confirmations",
        }
    }
}
