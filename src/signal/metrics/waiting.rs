//! The calls that wait for a person, as a gauge. A session that waits is driven by nobody, so they
//! are kept apart from the sessions that are. It must never know what is asked.

use std::collections::{HashMap, HashSet};

use prometheus::IntGauge;

use crate::core::{Entry, Fact, SessionId, SpanId};

/// Calls that wait, by session.
pub(super) struct Waiting {
    calls: HashMap<SessionId, HashSet<SpanId>>,
    gauge: IntGauge,
}

impl Waiting {
    pub(super) fn new(gauge: IntGauge) -> Self {
        Self { calls: HashMap::new(), gauge }
    }

    /// Takes in a fact; one that was taken in before changes nothing.
    pub(super) fn apply(&mut self, entry: &Entry) {
        let Some(session) = entry.stream.session() else { return };
        if let Fact::ConfirmationRequested { op, .. } = &entry.fact {
            self.calls.entry(session).or_default().insert(*op);
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

    fn show(&self) {
        let waiting: usize = self.calls.values().map(HashSet::len).sum();
        self.gauge.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }
}
