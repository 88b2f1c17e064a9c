//! Counted attempts of the last while: a sliding window with exact expiry.
//!
//! Attempts that end within one tick of each other share a row, so that a busy tool costs a
//! bounded amount of memory; all of a row leave together, at the age of its first.

use std::{collections::VecDeque, time::Duration};

use crate::core::Timestamp;

/// Attempts closer together than this share a row.
const TICK: Duration = Duration::from_millis(10);

/// What is counted, oldest first, with its totals.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window {
    rows: VecDeque<Row>,
    failures: u64,
    counted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    at: Timestamp,
    failures: u64,
    counted: u64,
}

impl Window {
    /// Nothing counted.
    pub(super) const fn new() -> Self {
        Self { rows: VecDeque::new(), failures: 0, counted: 0 }
    }

    /// Counts an attempt that ended now and forgets what is `length` old or older.
    pub(super) fn count(&mut self, now: Timestamp, failed: bool, length: Duration) {
        self.forget(now, length);
        let failures = u64::from(failed);
        match self.rows.back_mut() {
            Some(row) if now.since(row.at) < TICK => {
                row.failures += failures;
                row.counted += 1;
            }
            _ => self.rows.push_back(Row { at: now, failures, counted: 1 }),
        }
        self.failures += failures;
        self.counted += 1;
    }

    fn forget(&mut self, now: Timestamp, length: Duration) {
        while let Some(row) = self.rows.front()
            && now.since(row.at) >= length
        {
            self.failures -= row.failures;
            self.counted -= row.counted;
            self.rows.pop_front();
        }
    }

    /// Failures, and all that is counted.
    pub(super) const fn totals(&self) -> (u64, u64) {
        (self.failures, self.counted)
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }
}
