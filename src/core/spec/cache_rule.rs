//! For how long, and for whom, what a tool gave once is given again.
//!
//! It must never know where results are kept.

use std::time::Duration;

/// Results that are kept, where a tool asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRule {
    /// How long a result is given again, from when it came.
    pub ttl: Duration,
    /// How many results are kept, by all sessions together; the oldest gives way.
    pub max_entries: usize,
    /// Whether what one principal got is given to others. Never so where arguments come from the
    /// login.
    pub shared: bool,
}
