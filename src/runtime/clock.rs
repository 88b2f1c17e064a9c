//! The clock and the chance of a real process.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use super::Runtime;
use crate::core::{Clock, Timestamp, port::Entropy};

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock of the machine")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_nanos(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The operating system's source of random bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives random bytes to every process");
    }
}

impl Runtime {
    /// The clock of this runtime.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(self.inner.journal.clock())
    }
}
