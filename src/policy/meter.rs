//! What a model call has cost so far, and the way of its text to those who read along.
//!
//! A call that is cut off in the middle never gives its end, so what it costs is kept outside of
//! its future: the seam asks here when it has to write the end itself. It must never know who
//! reads, nor what cuts a call off.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::core::{
    Fact, SessionId, SpanId, Usage,
    fact::{ModelCall, ModelCallEnd},
    op::{Cut, Operation},
    port::{LiveText, Progress},
};

/// Counts what the attempts of one model call cost that gave no reply.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Attempts that broke.
    broken: Usage,
    /// The attempt under way, once something of its reply has come.
    current: Option<Usage>,
}

/// A model call as an operation of the seam: should it be cut off, it is charged with what has
/// come until then.
#[derive(Debug)]
pub struct MeteredCall {
    /// The call.
    pub call: Arc<ModelCall>,
    /// What counts it; the same that its attempts tell.
    pub meter: Arc<Meter>,
}

/// Hears of one attempt: counts it, and hands on its text.
pub(super) struct Tap<'a> {
    pub(super) meter: &'a Meter,
    pub(super) readers: &'a dyn LiveText,
    pub(super) session: SessionId,
    pub(super) call: SpanId,
    /// Bytes of text handed on.
    pub(super) given: AtomicU64,
}

impl Meter {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the call costs if it is cut off now.
    pub fn charge(&self) -> Usage {
        let counts = self.counts();
        let mut usage = counts.broken;
        if let Some(current) = &counts.current {
            usage.add(current);
        }
        usage
    }

    /// What the attempts that broke cost.
    pub(super) fn broken(&self) -> Usage {
        self.counts().broken
    }
}

impl<'a> Tap<'a> {
    pub(super) fn new(meter: &'a Meter, readers: &'a dyn LiveText, session: SessionId, call: SpanId) -> Self {
        Self { meter, readers, session, call, given: AtomicU64::new(0) }
    }

    /// The attempt gave its reply, which says itself what it costs.
    pub(super) fn answered(&self) {
        self.meter.counts().current = None;
    }

    /// The attempt broke. It is charged with what its fault says, else with what had come of it;
    /// whoever read its text is told to forget it.
    pub(super) fn broke(&self, told: Option<Usage>) {
        let mut counts = self.meter.counts();
        let came = counts.current.take();
        if let Some(usage) = told.or(came) {
            counts.broken.add(&usage);
        }
        drop(counts);
        if self.given.load(Ordering::Relaxed) > 0 {
            self.readers.restart(self.session, self.call);
        }
    }
}

impl fmt::Debug for Tap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("call", &self.call).finish_non_exhaustive()
    }
}

impl Progress for Tap<'_> {
    fn received(&self, text: &str, charge: Usage) {
        self.meter.counts().current = Some(Usage { estimated: true, ..charge });
        if !text.is_empty() {
            let at = self.given.fetch_add(text.len() as u64, Ordering::Relaxed);
            self.readers.delta(self.session, self.call, at, text);
        }
    }
}

impl MeteredCall {
    /// A call of which nothing has come yet.
    pub fn new(call: ModelCall) -> Self {
        Self { call: Arc::new(call), meter: Arc::default() }
    }
}

impl Operation for MeteredCall {
    type End = ModelCallEnd;

    fn started(&self, op: SpanId) -> Fact {
        Fact::ModelCallStarted { op, call: self.call.clone() }
    }

    fn finished(&self, op: SpanId, end: ModelCallEnd) -> Fact {
        self.call.finished(op, end)
    }

    fn cancelled(&self, cut: Cut) -> ModelCallEnd {
        ModelCallEnd { usage: self.meter.charge(), ..self.call.cancelled(cut) }
    }

    fn lost(&self, cut: Cut) -> ModelCallEnd {
        self.call.lost(cut)
    }
}
