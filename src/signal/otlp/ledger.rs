//! Which sessions have arrived whole at the collector.
//!
//! A session is delivered once it has ended and every span that was made of it is acknowledged.
//! One whose span was dropped or failed never is, in this life: the next start sends it again,
//! identical. This ledger must never decide what is sent.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use opentelemetry::{SpanId, TraceId};

use crate::core::SessionId;

/// Traces remembered at the most; beyond, ended ones are forgotten and sent again some day.
const TRACES: usize = 50_000;

/// Spans that are on their way, by trace.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    traces: HashMap<TraceId, Tally>,
    delivered: Vec<SessionId>,
}

#[derive(Debug, Default)]
struct Tally {
    on_their_way: HashSet<SpanId>,
    /// Set when the session has ended: no more spans follow.
    ended: Option<SessionId>,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A span of a session is about to be sent.
    pub(super) fn sent(&self, trace: TraceId, span: SpanId) {
        self.book().traces.entry(trace).or_default().on_their_way.insert(span);
    }

    /// A session has ended; its spans so far are all.
    pub(super) fn ended(&self, trace: TraceId, session: SessionId) {
        let mut book = self.book();
        if book.traces.len() >= TRACES {
            book.traces.retain(|_, tally| tally.ended.is_none());
        }
        book.traces.entry(trace).or_default().ended = Some(session);
        book.settle(trace);
    }

    /// The collector has answered for these.
    pub(super) fn acknowledged(&self, spans: &[(TraceId, SpanId)]) {
        let mut book = self.book();
        for (trace, span) in spans {
            if let Some(tally) = book.traces.get_mut(trace) {
                tally.on_their_way.remove(span);
                book.settle(*trace);
            }
        }
    }

    /// Takes the sessions delivered since the last call.
    pub(super) fn take_delivered(&self) -> Vec<SessionId> {
        std::mem::take(&mut self.book().delivered)
    }
}

impl Book {
    fn settle(&mut self, trace: TraceId) {
        let Some(tally) = self.traces.get(&trace) else { return };
        if let Some(session) = tally.ended.filter(|_| tally.on_their_way.is_empty()) {
            self.traces.remove(&trace);
            self.delivered.push(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: TraceId = TraceId::from_bytes([7; 16]);

    fn span(number: u8) -> SpanId {
        SpanId::from_bytes([number; 8])
    }

    fn session() -> SessionId {
        SessionId::from_bytes([7; 16])
    }

    #[test]
    fn a_session_is_delivered_when_it_has_ended_and_all_its_spans_arrived() {
        let ledger = Ledger::default();
        ledger.sent(TRACE, span(1));
        ledger.sent(TRACE, span(2));
        ledger.acknowledged(&[(TRACE, span(1))]);
        ledger.ended(TRACE, session());
        assert_eq!(ledger.take_delivered(), []);
        ledger.acknowledged(&[(TRACE, span(2))]);
        assert_eq!(ledger.take_delivered(), [session()]);
        assert_eq!(ledger.take_delivered(), []);
    }

    #[test]
    fn spans_of_foreign_code_count_for_nothing() {
        let ledger = Ledger::default();
        ledger.sent(TRACE, span(1));
        ledger.acknowledged(&[(TRACE, span(9))]);
        ledger.ended(TRACE, session());
        assert_eq!(ledger.take_delivered(), []);
    }

    #[test]
    fn an_unsampled_session_has_nothing_to_deliver() {
        let ledger = Ledger::default();
        ledger.ended(TRACE, session());
        assert_eq!(ledger.take_delivered(), [session()]);
    }
}
