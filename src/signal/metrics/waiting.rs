//! What waits for a person: calls that somebody has to decide on, and hand-overs that nobody has
//! taken on. A session that waits is driven by nobody, so they are kept apart from the sessions
//! that are. It must never know what is asked, and is told the time.

use std::collections::HashMap;

use prometheus::{Gauge, IntGauge, Registry};

use super::{
    catalogue as c,
    make::{gauge, number},
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        BlobHash, Principal, StreamId,
        fact::{ConfirmationEnd, ConfirmationRequest, Decision},
    };

    fn seconds(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn asked(session: u8, op: u8, at: u64) -> Entry {
        let hash = BlobHash::from_bytes([1; 32]);
        let principal = Principal { id: "C".into(), scopes: vec![], roles: vec![], attributes: [].into() };
        let request = Box::new(ConfirmationRequest {
            step: 1,
            call_id: "call_1".into(),
            tool: "pay".into(),
            arguments: serde_json::json!({}),
            arguments_hash: hash,
            definition_hash: hash,
            principal,
            expires: seconds(9000),
        });
        entry(session, at, Fact::ConfirmationRequested { op: SpanId::from_bytes([op; 8]), request })
    }

    fn entry(session: u8, at: u64, fact: Fact) -> Entry {
        Entry { stream: StreamId::Session(SessionId::from_bytes([session; 16])), seq: at, at: seconds(at), fact }
    }

    #[test]
    fn the_oldest_counts_and_time_passes_without_facts() {
        let mut waiting = Waiting::new(&Registry::new()).expect("a right catalogue");
        let age = |waiting: &mut Waiting, now| {
            waiting.show_ages(seconds(now), None);
            waiting.pending_age.get()
        };
        assert_eq!(age(&mut waiting, 100), 0.0);
        waiting.apply(&asked(1, 1, 110));
        waiting.apply(&asked(1, 2, 130));
        waiting.apply(&asked(2, 3, 120));
        assert_eq!((age(&mut waiting, 140), age(&mut waiting, 3740)), (30.0, 3630.0));
        let end = ConfirmationEnd { decision: Decision::Denied, by: "C".into(), comment: None };
        waiting.apply(&entry(1, 150, Fact::ConfirmationDecided { op: SpanId::from_bytes([1; 8]), end }));
        assert_eq!(age(&mut waiting, 160), 40.0, "the one of the other session");
        waiting.forget(SessionId::from_bytes([2; 16]));
        assert_eq!((age(&mut waiting, 160), waiting.pending.get()), (30.0, 1));
    }

    #[test]
    fn hand_overs_are_as_the_store_said_last() {
        let mut waiting = Waiting::new(&Registry::new()).expect("a right catalogue");
        let shown = |waiting: &Waiting| (waiting.handovers.get(), waiting.handover_age.get());
        waiting.show_ages(seconds(100), Some(Unclaimed { count: 3, oldest: Some(seconds(40)) }));
        assert_eq!(shown(&waiting), (3, 60.0));
        waiting.show_ages(seconds(200), None);
        assert_eq!(shown(&waiting), (3, 160.0), "time passes while the store cannot be read");
        waiting.show_ages(seconds(300), Some(Unclaimed::default()));
        assert_eq!(shown(&waiting), (0, 0.0));
    }
}
