//! The rules that a write must keep, whatever it is kept in: places follow one another without
//! holes, and the writer still holds the session. It must never know where the answers about
//! the store come from.

use crate::core::{
    id::StreamId,
    lease::LeaseEpoch,
    port::{StoreError, StoreErrorKind, Write},
};

use super::error;

/// Checks that the entries of a write are of its stream and follow one another.
pub(super) fn check_order(write: &Write) -> Result<(), StoreError> {
    for (entry, place) in write.entries.iter().zip(first_seq(write)..) {
        if entry.stream != write.stream || entry.seq != place {
            let (stream, seq) = (entry.stream, entry.seq);
            let detail = format!("fact {seq} of {stream} stands where fact {place} of {} belongs", write.stream);
            return Err(error(StoreErrorKind::Conflict, detail));
        }
    }
    Ok(())
}

/// Checks that a write begins at the next free place of its stream.
pub(super) fn check_place(write: &Write, next: u64) -> Result<(), StoreError> {
    let (stream, first) = (write.stream, first_seq(write));
    if write.entries.is_empty() || first == next {
        return Ok(());
    }
    let why = if first < next { "is taken" } else { "would leave a hole" };
    let detail = format!("place {first} of {stream} {why}: the next one is {next}");
    Err(error(StoreErrorKind::Conflict, detail))
}

/// Checks that the holding which a write relies on is the one that stands.
pub(super) fn check_lease(
    stream: StreamId,
    relied: LeaseEpoch,
    standing: Option<LeaseEpoch>,
) -> Result<(), StoreError> {
    if standing == Some(relied) {
        return Ok(());
    }
    let detail = match standing {
        Some(other) => format!("lease {relied} of {stream} is lost: lease {other} stands"),
        None => format!("lease {relied} of {stream} is lost: nobody holds it"),
    };
    Err(error(StoreErrorKind::LostLease, detail))
}

/// A session may not begin under an idempotency key that began another.
pub(super) fn claimed(stream: StreamId) -> StoreError {
    error(StoreErrorKind::Claimed, format!("{stream} may not begin: its idempotency key began another session"))
}

/// A session may not begin in a conversation of another principal, or beside one that runs in it.
pub(super) fn conversing(stream: StreamId) -> StoreError {
    error(StoreErrorKind::Claimed, format!("{stream} may not begin: its conversation is not free"))
}

/// The place where a write begins.
fn first_seq(write: &Write) -> u64 {
    write.entries.first().map_or(0, |entry| entry.seq)
}
