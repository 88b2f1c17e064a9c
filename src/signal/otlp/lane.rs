//! The bounded queue between whoever ends a span and the exporter's thread. It counts every span
//! once, and knows nothing of OTLP.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::trace::SpanData;

use super::{Config, Counts, SpanCounters};

/// Bytes of one batch at the most, estimated; gRPC receivers refuse 4 MiB.
const BATCH_BYTES: usize = 2 << 20;

/// Bytes of a span where room is told in spans.
const SOME_SPAN: usize = 4 << 10;

/// Spans that wait for the exporter.
#[derive(Debug)]
pub(super) struct Lane {
    max_spans: usize,
    max_bytes: usize,
    batch_size: usize,
    delay: Duration,
    counters: SpanCounters,
    state: Mutex<State>,
    /// Something to do for the exporter's thread.
    work: Condvar,
    /// Something has met its fate.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<(SpanData, usize)>,
    bytes: usize,
    in_flight: u64,
    /// Spans ever taken, and those of them that met their fate, in the same order.
    taken: u64,
    done: u64,
    /// Up to this number of `done` nobody waits for a batch to fill.
    urgent: u64,
    closed: bool,
    counts: Counts,
}

impl Lane {
    /// An empty lane.
    pub(super) fn new(config: &Config, counters: SpanCounters) -> Self {
        Self {
            max_spans: config.queue_size.max(1),
            max_bytes: config.queue_bytes,
            batch_size: config.batch_size.max(1),
            delay: config.schedule_delay,
            counters,
            state: Mutex::default(),
            work: Condvar::new(),
            settled: Condvar::new(),
        }
    }

    /// Takes a span, or counts it as dropped. Never blocks on the exporter.
    pub(super) fn offer(&self, span: SpanData) -> bool {
        let weight = weight(&span);
        let mut state = self.lock();
        if state.closed || state.queue.len() >= self.max_spans || state.bytes + weight > self.max_bytes {
            self.drop_spans(&mut state, 1);
            return false;
        }
        state.queue.push_back((span, weight));
        state.bytes += weight;
        state.taken += 1;
        if state.queue.len() == 1 || state.queue.len() == self.batch_size {
            self.work.notify_one();
        }
        true
    }

    /// Spans of some size that would be taken now.
    pub(super) fn room(&self) -> usize {
        let state = self.lock();
        if state.closed { 0 } else { self.room_beside(state.queue.len(), state.bytes) }
    }

    /// Spans of some size that would be taken if none waited.
    pub(super) fn capacity(&self) -> usize {
        self.room_beside(0, 0)
    }

    fn room_beside(&self, spans: usize, bytes: usize) -> usize {
        self.max_spans.saturating_sub(spans).min(self.max_bytes.saturating_sub(bytes) / SOME_SPAN)
    }

    /// Waits for the next batch; none when the lane is closed and empty. For one thread only.
    pub(super) fn next(&self) -> Option<Vec<SpanData>> {
        let mut state = self.lock();
        loop {
            state = wait(self.work.wait_while(state, |state| state.queue.is_empty() && !state.closed));
            let unhurried =
                |state: &mut State| !state.closed && state.urgent <= state.done && state.queue.len() < self.batch_size;
            state = wait(self.work.wait_timeout_while(state, self.delay, unhurried)).0;
            if !state.queue.is_empty() {
                return Some(self.take_batch(&mut state));
            }
            if state.closed {
                return None;
            }
        }
    }

    /// Whether anybody still waits for the fate of the batch that [`Lane::next`] gave last.
    pub(super) fn is_in_flight(&self) -> bool {
        self.lock().in_flight > 0
    }

    /// The fate of the batch that [`Lane::next`] gave last: how many of it the collector took.
    /// False where nobody waited for it any longer and it is counted already.
    pub(super) fn settle(&self, acknowledged: u64) -> bool {
        let mut state = self.lock();
        let sent = std::mem::take(&mut state.in_flight);
        if sent == 0 {
            return false;
        }
        let acknowledged = acknowledged.min(sent);
        state.counts.acknowledged += acknowledged;
        self.counters.acknowledged.inc_by(acknowledged);
        self.fail_spans(&mut state, sent - acknowledged);
        state.done += sent;
        self.settled.notify_all();
        true
    }

    /// Waits until all that was taken so far met its fate.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let mut state = self.lock();
        let mark = state.taken;
        state.urgent = mark;
        self.work.notify_all();
        let (_state, result) = wait(self.settled.wait_timeout_while(state, timeout, |state| state.done < mark));
        !result.timed_out()
    }

    /// Closes, waits, and counts what is left.
    pub(super) fn shutdown(&self, timeout: Duration) -> Counts {
        let mut state = self.lock();
        state.closed = true;
        self.work.notify_all();
        (state, _) = wait(self.settled.wait_timeout_while(state, timeout, |state| state.done < state.taken));
        let waiting = state.queue.len() as u64;
        state.queue.clear();
        state.bytes = 0;
        self.drop_spans(&mut state, waiting);
        let sent = std::mem::take(&mut state.in_flight);
        self.fail_spans(&mut state, sent);
        state.done = state.taken;
        self.work.notify_all();
        self.settled.notify_all();
        state.counts
    }

    /// The counts so far.
    pub(super) fn counts(&self) -> Counts {
        self.lock().counts
    }

    fn take_batch(&self, state: &mut State) -> Vec<SpanData> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some((_, weight)) = state.queue.front() {
            if batch.len() == self.batch_size || (!batch.is_empty() && bytes + weight > BATCH_BYTES) {
                break;
            }
            if let Some((span, weight)) = state.queue.pop_front() {
                bytes += weight;
                batch.push(span);
            }
        }
        state.bytes -= bytes;
        state.in_flight = batch.len() as u64;
        batch
    }

    fn drop_spans(&self, state: &mut State, spans: u64) {
        state.counts.dropped += spans;
        self.counters.dropped.inc_by(spans);
    }

    fn fail_spans(&self, state: &mut State, spans: u64) {
        state.counts.failed += spans;
        self.counters.failed.inc_by(spans);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        wait(self.state.lock())
    }
}

/// No code that can panic runs under the lock, so a poisoned one is still good.
fn wait<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// Roughly the bytes of a span, in memory and on the wire.
fn weight(span: &SpanData) -> usize {
    const SPAN: usize = 256;
    const EVENT: usize = 64;
    let events: usize = span.events.iter().map(|event| EVENT + event.name.len() + attributes(&event.attributes)).sum();
    let links: usize = span.links.iter().map(|link| EVENT + attributes(&link.attributes)).sum();
    SPAN + span.name.len() + attributes(&span.attributes) + events + links
}

fn attributes(attributes: &[KeyValue]) -> usize {
    let value = |value: &Value| match value {
        Value::Bool(_) | Value::I64(_) | Value::F64(_) => 8,
        Value::String(text) => text.as_str().len(),
        other => other.as_str().len(),
    };
    attributes.iter().map(|attribute| 8 + attribute.key.as_str().len() + value(&attribute.value)).sum()
}

#[cfg(test)]
pub(super) mod tests {
    use opentelemetry::{
        InstrumentationScope, SpanId, TraceFlags, TraceId,
        trace::{SpanContext, SpanKind, Status, TraceState},
    };
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};
    use prometheus::IntCounter;

    use super::*;
    use crate::signal::otlp::Protocol;

    /// A lane that never waits for a batch to fill.
    pub(in crate::signal::otlp) fn lane(change: impl FnOnce(&mut Config)) -> Lane {
        let mut config = Config::new("http://127.0.0.1:1", Protocol::Grpc);
        config.schedule_delay = Duration::ZERO;
        change(&mut config);
        let counter = |name| IntCounter::new(name, name).expect("a good name");
        let counters = SpanCounters {
            acknowledged: counter("acknowledged"),
            failed: counter("failed"),
            dropped: counter("dropped"),
        };
        Lane::new(&config, counters)
    }

    /// A root span that is nothing but its name.
    pub(in crate::signal::otlp) fn root(name: &str) -> SpanData {
        let (trace, span) = (TraceId::from_bytes([1; 16]), SpanId::from_bytes([1; 8]));
        SpanData {
            span_context: SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::default()),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.to_owned().into(),
            start_time: std::time::UNIX_EPOCH,
            end_time: std::time::UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("test").build(),
        }
    }

    #[test]
    fn a_batch_is_cut_by_bytes_too_and_a_giant_goes_alone() {
        let lane = lane(|_| {});
        for size in [1_200_000, 1_200_000, 3_000_000, 10, 10] {
            assert!(lane.offer(root(&"x".repeat(size))));
        }
        let mut batches = Vec::new();
        for _ in 0..4 {
            let batch = lane.next().expect("a batch").len() as u64;
            assert!(lane.settle(batch));
            batches.push(batch);
        }
        assert_eq!(batches, [1, 1, 1, 2]);
        assert_eq!(lane.counts(), Counts { acknowledged: 5, failed: 0, dropped: 0 });
    }

    #[test]
    fn content_takes_its_bytes_of_the_room() {
        let lane = lane(|config| config.queue_bytes = 100_000);
        assert_eq!(lane.room(), 24, "of 4 KiB each");
        let heavy = || {
            let mut span = root("chat");
            span.attributes.push(KeyValue::new("gen_ai.input.messages", "x".repeat(40_000)));
            span
        };
        let taken: Vec<_> = (0..3).map(|_| lane.offer(heavy())).collect();
        assert_eq!(taken, [true, true, false]);
        assert_eq!((lane.room(), lane.capacity(), lane.counts().dropped), (4, 24, 1));
    }

    #[test]
    fn what_is_left_at_the_end_is_counted_once() {
        let lane = lane(|config| (config.queue_size, config.batch_size) = (3, 2));
        let taken: Vec<_> = (0..5).map(|_| lane.offer(root("span"))).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert_eq!(lane.next().map(|batch| batch.len()), Some(2));
        let end = Counts { acknowledged: 0, failed: 2, dropped: 3 };
        assert_eq!(lane.shutdown(Duration::ZERO), end);
        assert!(!lane.settle(2), "too late");
        assert_eq!(lane.next(), None);
        assert_eq!(lane.shutdown(Duration::ZERO), end);
        assert!(!lane.offer(root("span")));
        assert_eq!(lane.counts().dropped, 4);
        assert!(lane.flush(Duration::ZERO), "nothing is open");
    }
}
