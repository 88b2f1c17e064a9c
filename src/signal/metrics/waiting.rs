//! What waits for a person: calls that somebody has to decide on, and hand-overs that nobody has
//! taken on. A session that waits is driven by nobody, so they are kept apart from the sessions
//! that are. It must never know what is asked, and is told the time.

use std::collections::HashMap;

use prometheus::{Gauge, IntGauge, Registry};

use super::{
    catalogue as c,
    series::{gauge, number},
};
use crate::core::{Entry, Fact, SessionId, SpanId, Timestamp, handover::Unclaimed};

/// Calls that wait, by session, each with when it was asked for; and the gauges.
pub(super) struct Waiting {
    calls: HashMap<SessionId, HashMap<SpanId, Timestamp>>,
    pending: IntGauge,
    pending_age: Gauge,
    handovers: IntGauge,
    handover_age: Gauge,
    unclaimed: Unclaimed,
}

impl Waiting {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            calls: HashMap::new(),
            pending: gauge(registry, &c::CONFIRMATIONS_PENDING)?,
            pending_age: number(registry, &c::CONFIRMATION_OLDEST)?,
            handovers: gauge(registry, &c::HANDOVERS_OPEN)?,
            handover_age: number(registry, &c::HANDOVER_OLDEST)?,
            unclaimed: Unclaimed::default(),
        })
    }

    /// Takes in a fact; one that was taken in before changes nothing.
    pub(super) fn apply(&mut self, entry: &Entry) {
        let Some(session) = entry.stream.session() else { return };
        if let Fact::ConfirmationRequested { op, .. } = &entry.fact {
            self.calls.entry(session).or_default().insert(*op, entry.at);
        } else if let Fact::ConfirmationDecided { op, .. } = &entry.fact {
            if let Some(calls) = self.calls.get_mut(&session) {
                calls.remove(op);
                if calls.is_empty() {
                    self.calls.remove(&session);
                }
            }
        } else {
            return;
        }
        self.show();
    }

    pub(super) fn forget(&mut self, session: SessionId) {
        self.calls.remove(&session);
        self.show();
    }

    /// Shows how long the oldest of each has waited at `now`; nothing new of hand-overs where the
    /// store could not be asked.
    pub(super) fn show_ages(&mut self, now: Timestamp, unclaimed: Option<Unclaimed>) {
        self.unclaimed = unclaimed.unwrap_or(self.unclaimed);
        self.handovers.set(i64::try_from(self.unclaimed.count).unwrap_or(i64::MAX));
        self.handover_age.set(age(self.unclaimed.oldest, now));
        self.pending_age.set(age(self.calls.values().flat_map(HashMap::values).min().copied(), now));
    }

    fn show(&self) {
        let waiting: usize = self.calls.values().map(HashMap::len).sum();
        self.pending.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }
}

/// Seconds since then; none where nothing waits.
fn age(since: Option<Timestamp>, now: Timestamp) -> f64 {
    since.map_or(0.0, |since| now.since(since).as_secs_f64())
}
