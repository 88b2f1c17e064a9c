//! How long a session has been active.

use crate::core::Timestamp;

/// How long a session has been active: its age without the times when it was suspended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ActiveTime {
    started: Timestamp,
    last: Timestamp,
    paused_since: Option<Timestamp>,
    paused_nanos: u64,
}

impl ActiveTime {
    pub(super) fn starting(at: Timestamp) -> Self {
        Self { started: at, last: at, ..Self::default() }
    }

    /// Remembers when the last fact was recorded.
    pub(super) fn pass(&mut self, at: Timestamp) {
        self.last = self.last.max(at);
    }

    pub(super) fn pause(&mut self, at: Timestamp) {
        self.paused_since.get_or_insert(at);
    }

    /// Time since the pause did not count; nor, after a crash, did the time since the last fact.
    pub(super) fn resume(&mut self, at: Timestamp) {
        let since = self.paused_since.take().unwrap_or(self.last);
        self.paused_nanos += at.as_nanos().saturating_sub(since.as_nanos());
    }

    pub(super) fn active_nanos(&self, now: Timestamp) -> u64 {
        let until = self.paused_since.unwrap_or(now).as_nanos();
        until.saturating_sub(self.started.as_nanos()).saturating_sub(self.paused_nanos)
    }
}
