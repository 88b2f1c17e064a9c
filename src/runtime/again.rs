//! How what earlier lives of the process did not hand over goes out again: how old it may be, and
//! how it makes way for what is new. It must never know which signal it is.

use std::time::Duration;

use crate::core::Timestamp;

/// How far back a start looks.
const AGE: Duration = Duration::from_secs(24 * 3600);
/// Room in a lane that new items keep to themselves, at the most.
pub(super) const RESERVE: usize = 1024;
/// How long to wait for room.
const PACE: Duration = Duration::from_millis(200);

/// The oldest time that a start at `begun` looks back to.
pub(super) fn since(begun: Timestamp) -> Timestamp {
    let age = u64::try_from(AGE.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(begun.as_nanos().saturating_sub(age))
}

/// Waits until a lane has more room than new items keep to themselves.
pub(super) async fn wait_for_room(reserve: usize, room: impl Fn() -> usize) {
    while room() < reserve {
        tokio::time::sleep(PACE).await;
    }
}
