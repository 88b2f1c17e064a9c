//! The seam: whatever takes time goes through here, and nothing else writes Started or Finished.
//!
//! So every operation that began has exactly one end, also when its future is dropped in the
//! middle, and the signals folded from the facts cannot disagree.

use std::future::Future;

use opentelemetry::{
    Context, TraceFlags, TraceId,
    trace::{FutureExt, SpanContext, TraceContextExt, TraceState},
};

use super::SessionLog;
use crate::{
    core::{
        Fact, SpanId,
        fact::ConfirmationRequest,
        op::{Cut, Operation},
        port::TraceContext,
    },
    machine::state::Open,
};

impl SessionLog {
    /// Records that `op` began, runs it, records how it ended. The closure is given the id of
    /// the operation; besides the end, the future may give something to the caller.
    ///
    /// Spans that code inside opens through `tracing` become children of the operation's span.
    pub async fn observe<O, F, R>(&self, op: O, run: impl FnOnce(SpanId) -> F) -> R
    where
        O: Operation,
        F: Future<Output = (O::End, R)>,
    {
        let id = self.open(|id| op.started(id));
        let context = ambient(self.trace(op.span(id)));
        let mut open = OpenOperation { log: self, id, op: Some(op) };
        let (end, result) = run(id).with_context(context).await;
        if let Some(op) = open.op.take() {
            self.close(&op, id, end);
        }
        result
    }
}

impl SessionLog {
    /// Opens the durable operation of a call that waits for a person, which any process may close.
    pub fn ask(&self, request: ConfirmationRequest) -> SpanId {
        self.open(|op| Fact::ConfirmationRequested { op, request: Box::new(request) })
    }

    /// Records the end of a process-bound operation that another process began, as lost.
    pub fn close_lost<O: Operation>(&self, op: &O, id: SpanId) {
        self.close(op, id, op.lost(self.cut(id)));
    }

    /// What is known of an open operation that is cut off now; nothing of an attempt.
    fn cut(&self, id: SpanId) -> Cut {
        self.read(|state| state.open().get(&id).map(Open::cut)).unwrap_or_default()
    }

    /// Records the end of an operation, with whatever must not stand apart from it.
    fn close<O: Operation>(&self, op: &O, id: SpanId, end: O::End) {
        let mut facts = op.consequences(&end);
        facts.insert(0, op.finished(id, end));
        self.record_all(facts);
    }
}

/// Closes its operation as cancelled if it is dropped before the end.
struct OpenOperation<'a, O: Operation> {
    log: &'a SessionLog,
    id: SpanId,
    op: Option<O>,
}

impl<O: Operation> Drop for OpenOperation<'_, O> {
    fn drop(&mut self) {
        if let Some(op) = self.op.take() {
            let end = op.cancelled(self.log.cut(self.id));
            self.log.close(&op, self.id, end);
        }
    }
}

/// An OpenTelemetry context in which our span is the parent, although the SDK never saw it.
fn ambient(trace: TraceContext) -> Context {
    let flags = if trace.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let trace_id = TraceId::from_bytes(trace.trace_id.to_bytes());
    let span_id = opentelemetry::SpanId::from_bytes(trace.span_id.to_bytes());
    let span = SpanContext::new(trace_id, span_id, flags, true, TraceState::default());
    Context::new().with_remote_span_context(span)
}
