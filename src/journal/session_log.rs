//! The journal of one session, open for writing.

use std::sync::{Arc, Mutex, OnceLock};

use super::{Journal, lock};
use crate::{
    core::{
        Entry, Fact, SessionId, SpanId, StreamId, Timestamp,
        fact::{SessionStarted, TraceStart},
        lease::{Holding, LeaseEpoch, Taking},
        once::Once,
        port::{Blob, StoreError, TraceContext},
    },
    machine::State,
};

/// Stamps, folds and hands on the facts of one session. Clones share it.
#[derive(Clone)]
pub struct SessionLog {
    inner: Arc<Inner>,
}

struct Inner {
    id: SessionId,
    trace: TraceStart,
    journal: Journal,
    book: Mutex<Book>,
    /// Set once the store said that the session has another owner.
    lost: OnceLock<StoreError>,
}

/// What changes with every fact, under one lock, so that order and state agree.
struct Book {
    next: u64,
    last: Timestamp,
    state: State,
    /// Texts that the next fact names.
    blobs: Vec<Blob>,
    /// What the next write relies on.
    holding: Holding,
}

impl SessionLog {
    /// Begins a session and takes it until then, under an idempotency key if one is given: its
    /// first fact opens the root operation.
    pub fn begin(
        journal: &Journal,
        id: SessionId,
        started: SessionStarted,
        blobs: Vec<Blob>,
        until: Timestamp,
        once: Option<Once>,
    ) -> Self {
        let holding = Holding::Taking(Box::new(Taking { owner: journal.process(), until, once }));
        let book = Book { next: 0, last: Timestamp::default(), state: State::default(), blobs, holding };
        let log = Self::of(journal, id, started.trace.clone(), book);
        log.record(Fact::SessionStarted(Box::new(started)));
        log
    }

    /// Reopens a session whose journal another process wrote. Nothing if the journal does not
    /// begin with the start of a session.
    pub fn reopen(journal: &Journal, id: SessionId, entries: &[Entry], lease: LeaseEpoch) -> Option<Self> {
        let Fact::SessionStarted(started) = &entries.first()?.fact else { return None };
        let last = entries.last()?;
        let book = Book {
            next: last.seq + 1,
            last: last.at,
            state: State::fold(entries),
            blobs: Vec::new(),
            holding: Holding::Held(lease),
        };
        Some(Self::of(journal, id, started.trace.clone(), book))
    }

    fn of(journal: &Journal, id: SessionId, trace: TraceStart, book: Book) -> Self {
        let (journal, book) = (journal.clone(), Mutex::new(book));
        Self { inner: Arc::new(Inner { id, trace, journal, book, lost: OnceLock::new() }) }
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        self.inner.id
    }

    /// The journal that it belongs to.
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// Now, by the clock that stamps the facts.
    pub fn now(&self) -> Timestamp {
        self.inner.journal.clock().now()
    }

    /// Where work under this span belongs in the trace.
    pub fn trace(&self, span_id: SpanId) -> TraceContext {
        TraceContext { trace_id: self.inner.trace.trace_id, span_id, sampled: self.inner.trace.sampled }
    }

    /// Where work of the session itself belongs in the trace.
    pub fn root(&self) -> TraceContext {
        self.trace(self.inner.trace.root)
    }

    /// Reads the state. The closure must be short: facts wait for it.
    pub fn read<R>(&self, read: impl FnOnce(&State) -> R) -> R {
        read(&lock(&self.inner.book).state)
    }

    /// Records one fact. Never waits.
    pub fn record(&self, fact: Fact) {
        let mut fact = Some(fact);
        self.stamp(1, |_| fact.take());
    }

    /// Keeps texts that the next recorded fact names; they become durable with it.
    pub fn keep(&self, blob: Blob) {
        lock(&self.inner.book).blobs.push(blob);
    }

    /// Records facts that become durable together or not at all.
    pub fn record_all(&self, facts: Vec<Fact>) {
        let count = facts.len();
        let mut facts = facts.into_iter();
        self.stamp(count, |_| facts.next());
    }

    /// Records the fact that opens an operation, under the id that its place gives it.
    pub(super) fn open(&self, started: impl FnOnce(SpanId) -> Fact) -> SpanId {
        let mut started = Some(started);
        let mut op = None;
        self.stamp(1, |seq| {
            let id = *op.insert(SpanId::of_fact(self.inner.id, seq));
            started.take().map(|started| started(id))
        });
        op.expect("the stamp asks once for each fact")
    }

    /// Gives `count` facts their places and times, folds them and hands them to the writer, all
    /// under the lock, so that the writer sees them in the order of their places.
    fn stamp(&self, count: usize, mut fact: impl FnMut(u64) -> Option<Fact>) {
        let mut book = lock(&self.inner.book);
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(fact) = fact(book.next) else { break };
            let at = self.now().max(book.last);
            book.state.apply(&fact, at);
            entries.push(Arc::new(Entry { stream: StreamId::Session(self.inner.id), seq: book.next, at, fact }));
            book.next += 1;
            book.last = at;
        }
        let blobs = std::mem::take(&mut book.blobs);
        let held = match book.holding {
            Holding::Taking(_) => Holding::Held(LeaseEpoch::FIRST),
            Holding::Held(epoch) => Holding::Held(epoch),
        };
        let holding = std::mem::replace(&mut book.holding, held);
        self.inner.journal.writer().append(entries, blobs, Some(holding));
    }

    /// The barrier: everything recorded so far is durable when this returns.
    ///
    /// # Errors
    /// Where it cannot be made durable.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let flushed = self.inner.journal.writer().flush(StreamId::Session(self.inner.id)).await;
        if let Err(error) = &flushed
            && error.kind.is_lost()
        {
            self.inner.lost.get_or_init(|| error.clone());
        }
        flushed
    }

    /// Waits until the journal cannot write, if it ever comes to that.
    pub async fn trouble(&self) {
        self.inner.journal.writer().trouble().await;
    }

    /// Waits until the journal can write.
    pub async fn recovery(&self) {
        self.inner.journal.writer().recovery().await;
    }

    /// Waits at a step boundary while the writer is far behind or cannot write.
    ///
    /// # Errors
    /// As [`SessionLog::flush`]; also once the session is known to have another owner.
    pub async fn ease(&self) -> Result<(), StoreError> {
        if let Some(error) = self.inner.lost.get() {
            return Err(error.clone());
        }
        self.inner.journal.writer().ease(StreamId::Session(self.inner.id)).await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.journal.writer().forget(StreamId::Session(self.id));
    }
}
