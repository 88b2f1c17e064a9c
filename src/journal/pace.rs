//! How far the writer is behind: what waits for a commit, and how long commits take.
//!
//! It must never know what is written.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::core::Timestamp;

/// How far the journal is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Facts that wait for their commit.
    pub queued: usize,
    /// The time that commits take now.
    pub commit: Duration,
}

/// The times of commits. What is read while one begins or ends may be a moment old, no more.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the commit that runs began; 0 while none does.
    begun: AtomicU64,
    /// When the last one ended, and how long it took.
    ended: AtomicU64,
    took: AtomicU64,
}

impl Pace {
    pub(super) fn begin(&self, now: Timestamp) {
        self.begun.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn end(&self, now: Timestamp) {
        let begun = self.begun.swap(0, Ordering::Relaxed);
        self.took.store(now.as_nanos().saturating_sub(begun), Ordering::Relaxed);
        self.ended.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// How long a commit takes, as far as can be said now: the one that runs so far, or the last
    /// one, unless that is longer ago than it took. After a slow commit and a rest nobody knows
    /// how long the next will take, and somebody must try.
    pub(super) fn commit(&self, now: Timestamp) -> Duration {
        let since = |nanos| now.since(Timestamp::from_nanos(nanos));
        let begun = self.begun.load(Ordering::Relaxed);
        let runs = if begun == 0 { Duration::ZERO } else { since(begun) };
        let took = Duration::from_nanos(self.took.load(Ordering::Relaxed));
        let recent = since(self.ended.load(Ordering::Relaxed)) <= took;
        if recent { runs.max(took) } else { runs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_commit_counts_while_it_runs_and_as_long_afterwards_as_it_took() {
        let pace = Pace::default();
        let commit = |millis| u64::try_from(pace.commit(at(millis)).as_millis()).expect("short");
        assert_eq!(commit(1000), 0);
        pace.begin(at(1000));
        assert_eq!((commit(1000), commit(1400)), (0, 400));
        pace.end(at(1500));
        assert_eq!((commit(1500), commit(2000), commit(2001)), (500, 500, 0));
        pace.begin(at(1600));
        assert_eq!((commit(1700), commit(2300)), (500, 700));
        pace.end(at(2300));
        assert_eq!(commit(2300), 700);
    }
}
