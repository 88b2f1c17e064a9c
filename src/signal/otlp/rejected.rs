//! What a collector rejected out of a batch that it took otherwise.
//!
//! The SDK's exporter turns such an answer into a plain `Ok` and a log event with the number.
//! The event is the only word of it, so it is caught here, on the exporter's thread and while a
//! batch is being sent; every event goes on to the subscriber that it would have reached.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber, dispatcher,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};

/// Counts the rejected spans that the exporter logs.
pub(super) struct Watch {
    dispatch: Dispatch,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    rejected: AtomicU64,
    outer: Mutex<Option<Dispatch>>,
}

struct Listener(Arc<Shared>);

struct Rejected<'a>(&'a AtomicU64);

impl Watch {
    /// A watch for one thread.
    pub(super) fn new() -> Self {
        let shared = Arc::new(Shared::default());
        Self { dispatch: Dispatch::new(Listener(Arc::clone(&shared))), shared }
    }

    /// Runs the work on this thread; gives its result and how many spans were rejected in it.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        *self.outer() = Some(dispatcher::get_default(Clone::clone));
        self.shared.rejected.store(0, Ordering::Relaxed);
        let result = dispatcher::with_default(&self.dispatch, work);
        (result, self.shared.rejected.load(Ordering::Relaxed))
    }

    fn outer(&self) -> std::sync::MutexGuard<'_, Option<Dispatch>> {
        self.shared.outer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    fn outer(&self) -> Option<Dispatch> {
        self.0.outer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && (*metadata.level() <= Level::WARN)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        if event.metadata().target().starts_with("opentelemetry") {
            event.record(&mut Rejected(&self.0.rejected));
        }
        if let Some(outer) = self.outer()
            && outer.enabled(event.metadata())
        {
            outer.event(event);
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        // Never asked for: spans are not enabled here. An id must not be zero.
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Visit for Rejected<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "rejected_spans" {
            self.0.fetch_add(u64::try_from(value).unwrap_or(0), Ordering::Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
