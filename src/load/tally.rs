//! What the sessions of a stage add up to, while it runs.
//!
//! Latencies go into HDR histograms: three digits from a microsecond to an hour, whatever comes.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::target::{End, Seen};
use crate::core::{SessionId, SessionStatus, SpanId};

/// An hour in microseconds.
const LONGEST: u64 = 3_600_000_000;

/// How far behind the schedule a start counts as late.
pub(super) const LATE: Duration = Duration::from_millis(20);

/// A session that the service took.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) id: SessionId,
    pub(super) spans: Vec<SpanId>,
    /// Whether its end was seen, so that all its spans must arrive.
    pub(super) ended: bool,
}

/// The sums of a stage.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Sessions asked for, those of the warm-up left out, and so below.
    pub(super) begun: u64,
    /// Those that are over for their callers.
    pub(super) over: u64,
    /// Those of the warm-up.
    pub(super) warm_up: u64,
    /// Those that began late.
    pub(super) late: u64,
    /// How far behind the schedule the worst one was.
    pub(super) worst_lag: Duration,
    /// From the intended start until the service said that it is kept.
    pub(super) accepted: Histogram<u64>,
    /// From the intended start to the end.
    pub(super) end_to_end: Histogram<u64>,
    pub(super) statuses: BTreeMap<&'static str, u64>,
    pub(super) degraded: u64,
    pub(super) refused: BTreeMap<u16, u64>,
    pub(super) failed: BTreeMap<&'static str, u64>,
    /// All that the service took, those of the warm-up too.
    pub(super) taken: Vec<Taken>,
}

/// When a session should have begun and when it did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) intended: Instant,
    pub(super) began: Instant,
    /// Whether it is one of the warm-up.
    pub(super) warm_up: bool,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            begun: 0,
            over: 0,
            warm_up: 0,
            late: 0,
            worst_lag: Duration::ZERO,
            accepted: histogram(),
            end_to_end: histogram(),
            statuses: BTreeMap::new(),
            degraded: 0,
            refused: BTreeMap::new(),
            failed: BTreeMap::new(),
            taken: Vec::new(),
        }
    }

    /// A session begins.
    pub(super) fn begin(&mut self, start: Start) {
        if start.warm_up {
            self.warm_up += 1;
            return;
        }
        self.begun += 1;
        let lag = start.began - start.intended;
        self.late += u64::from(lag > LATE);
        self.worst_lag = self.worst_lag.max(lag);
    }

    /// A session is over. What took long counts whether or not it ended well: else a service
    /// would look faster the more it fails.
    pub(super) fn end(&mut self, start: Start, seen: Seen) {
        let ended = matches!(seen.end, End::Ended { status, .. } if status.is_final());
        self.taken.extend(seen.id.map(|id| Taken { id, spans: seen.spans, ended }));
        if start.warm_up {
            return;
        }
        self.over += 1;
        if let Some(accepted) = seen.accepted {
            self.accepted.saturating_record(micros(accepted - start.intended));
            self.end_to_end.saturating_record(micros(seen.over - start.intended));
        }
        match seen.end {
            End::Ended { status, degraded } => {
                *self.statuses.entry(status.label()).or_default() += 1;
                self.degraded += u64::from(degraded);
            }
            End::Refused(status) => *self.refused.entry(status).or_default() += 1,
            End::Failed(why) => *self.failed.entry(why).or_default() += 1,
            End::TimedOut => *self.failed.entry("timeout").or_default() += 1,
        }
    }

    /// Sessions that ended with an answer, of all that were asked for and not cancelled.
    pub(super) fn success(&self) -> Option<f64> {
        let of = |status: SessionStatus| self.statuses.get(status.label()).copied().unwrap_or_default();
        let all = self.over.saturating_sub(of(SessionStatus::Cancelled));
        #[expect(clippy::cast_precision_loss, reason = "counts of sessions are far below 2^53")]
        (all > 0).then(|| of(SessionStatus::Done) as f64 / all as f64)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are constants, and right")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
