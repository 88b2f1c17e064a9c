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
    pub fn observe<O, F, R>(&self, op: O, run: impl FnOnce(SpanId) -> F) -> impl Future<Output = R>
    where
        O: Operation,
        F: Future<Output = (O::End, R)>,
    {
        // Made out here, so that the future has room for the operation once.
        let mut open = OpenOperation { log: self, id: None, op: Some(op) };
        async move {
            let (id, context) = open.begin();
            let (end, result) = run(id).with_context(context).await;
            open.end(id, end);
            result
        }
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
    /// Nothing before it began.
    id: Option<SpanId>,
    op: Option<O>,
}

impl<O: Operation> OpenOperation<'_, O> {
    /// Records the beginning; gives the context of the work.
    fn begin(&mut self) -> (SpanId, Context) {
        let op = self.op.as_ref().expect("an operation begins once, before its end");
        let id = self.log.open(|id| op.started(id));
        self.id = Some(id);
        (id, ambient(self.log.trace(op.span(id))))
    }

    /// Records the end.
    fn end(&mut self, id: SpanId, end: O::End) {
        if let Some(op) = self.op.take() {
            self.log.close(&op, id, end);
        }
    }
}

impl<O: Operation> Drop for OpenOperation<'_, O> {
    fn drop(&mut self) {
        if let (Some(op), Some(id)) = (self.op.take(), self.id) {
            let end = op.cancelled(self.log.cut(id));
            self.log.close(&op, id, end);
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
