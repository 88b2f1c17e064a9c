//! Marks: how far the event lines of a journal are out, and the port that keeps them, so that a
//! process which dies owes no line for ever.
//!
//! A stream has a mark while lines of it may be owed. It is made with the fact after which they
//! are, so that no crash comes between the two, and it may lag behind what is out, never run
//! ahead of it. This file knows nothing of what a line says or where it goes.

use super::{id::StreamId, port::StoreError, time::Timestamp};

/// How far the lines of one stream are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whose journal.
    pub stream: StreamId,
    /// The first place whose line may not be out; those of all places before it are.
    pub next: u64,
}

/// Where marks are kept. They are made by [`Store::append`](super::Store::append), with the
/// facts. Calls block.
pub trait Marks: Send + Sync {
    /// The mark of a stream; nothing where it has none.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn mark(&self, stream: StreamId) -> Result<Option<u64>, StoreError>;

    /// Moves marks that are there on, never back, in one transaction. One that has reached the
    /// end of an ended session, or of the journal of a process so far, goes.
    ///
    /// # Errors
    /// Where the store cannot be written; then no mark was moved.
    fn move_marks(&self, marks: &[Mark]) -> Result<(), StoreError>;

    /// The marks of streams that nobody holds at `now` and that have facts behind their mark
    /// recorded from `since` on and before `before`, the longest owed first. Facts that give no
    /// line count too.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn owing(&self, now: Timestamp, since: Timestamp, before: Timestamp) -> Result<Vec<Mark>, StoreError>;

    /// Gives up what is owed of ended sessions and of processes where nothing behind the mark was
    /// recorded from `since` on; gives how many marks went.
    ///
    /// # Errors
    /// Where the store cannot be written.
    fn give_up_marks(&self, since: Timestamp) -> Result<u64, StoreError>;
}
