//! Which sessions have arrived whole at the collector.
//!
//! A session is delivered once it has ended and every span that was made of it is acknowledged.
//! One whose span was dropped or failed never is, in this life: the next start sends it again,
//! identical. This ledger must never decide what is sent.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use opentelemetry::{SpanId, TraceId};

use crate::core::SessionId;

/// Sessions remembered at the most; beyond, ended ones are forgotten and sent again some day.
const SESSIONS: usize = 50_000;

/// A span as the collector knows it.
type Key = (TraceId, SpanId);

/// Spans that are on their way, by session: several may be parts of one trace.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    sessions: HashMap<SessionId, Tally>,
    on_their_way: HashMap<Key, SessionId>,
    delivered: Vec<SessionId>,
}

#[derive(Debug, Default)]
struct Tally {
    /// How many spans are on their way.
    spans: usize,
    /// Set when the session has ended: no more spans follow.
    ended: bool,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A span of a session is about to be sent.
    pub(super) fn sent(&self, session: SessionId, trace: TraceId, span: SpanId) {
        let mut book = self.book();
        if book.on_their_way.insert((trace, span), session).is_none() {
            book.sessions.entry(session).or_default().spans += 1;
        }
    }

    /// A session has ended; its spans so far are all.
    pub(super) fn ended(&self, session: SessionId) {
        let mut book = self.book();
        if book.sessions.len() >= SESSIONS {
            book.forget_ended();
        }
        book.sessions.entry(session).or_default().ended = true;
        book.settle(session);
    }

    /// The collector has answered for these.
    pub(super) fn acknowledged(&self, spans: &[Key]) {
        let mut book = self.book();
        for span in spans {
            if let Some(session) = book.on_their_way.remove(span) {
                if let Some(tally) = book.sessions.get_mut(&session) {
                    tally.spans -= 1;
                }
                book.settle(session);
            }
        }
    }

    /// Takes the sessions delivered since the last call.
    pub(super) fn take_delivered(&self) -> Vec<SessionId> {
        std::mem::take(&mut self.book().delivered)
    }
}

impl Book {
    fn settle(&mut self, session: SessionId) {
        if self.sessions.get(&session).is_some_and(|tally| tally.ended && tally.spans == 0) {
            self.sessions.remove(&session);
            self.delivered.push(session);
        }
    }

    fn forget_ended(&mut self) {
        let Self { sessions, on_their_way, .. } = self;
        sessions.retain(|_, tally| !tally.ended);
        on_their_way.retain(|_, session| sessions.contains_key(session));
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
        ledger.sent(session(), TRACE, span(1));
        ledger.sent(session(), TRACE, span(2));
        ledger.acknowledged(&[(TRACE, span(1))]);
        ledger.ended(session());
        assert_eq!(ledger.take_delivered(), []);
        ledger.acknowledged(&[(TRACE, span(2))]);
        assert_eq!(ledger.take_delivered(), [session()]);
        assert_eq!(ledger.take_delivered(), []);
    }

    #[test]
    fn spans_of_foreign_code_count_for_nothing() {
        let ledger = Ledger::default();
        ledger.sent(session(), TRACE, span(1));
        ledger.acknowledged(&[(TRACE, span(9))]);
        ledger.ended(session());
        assert_eq!(ledger.take_delivered(), []);
    }

    #[test]
    fn an_unsampled_session_has_nothing_to_deliver() {
        let ledger = Ledger::default();
        ledger.ended(session());
        assert_eq!(ledger.take_delivered(), [session()]);
    }

    #[test]
    fn sessions_of_one_trace_are_delivered_each_by_itself() {
        let other = SessionId::from_bytes([8; 16]);
        let ledger = Ledger::default();
        ledger.sent(session(), TRACE, span(1));
        ledger.sent(other, TRACE, span(2));
        ledger.ended(session());
        ledger.ended(other);
        ledger.acknowledged(&[(TRACE, span(2)), (TRACE, span(2))]);
        assert_eq!(ledger.take_delivered(), [other]);
        ledger.acknowledged(&[(TRACE, span(1))]);
        assert_eq!(ledger.take_delivered(), [session()]);
    }
}
