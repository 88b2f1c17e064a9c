//! The way of spans out of the process: a bounded lane, one thread, and the OTLP exporter.
//!
//! Nothing here blocks whoever gives a span. A span is acknowledged by the collector, failed
//! (the exporter gave it up) or dropped (no room, or too late), and is counted as exactly one of
//! them. This module never decides which spans there are, reads no environment, and retries no
//! batch that the exporter gave up: the next start sends again what was not acknowledged.

mod exporter;
mod lane;
mod layer;
mod ledger;
mod rejected;
mod tail;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use opentelemetry::{KeyValue, SpanId, TraceId, trace::TracerProvider as _};
use opentelemetry_sdk::{
    Resource,
    resource::TelemetryResourceDetector,
    trace::{Sampler, SdkTracerProvider, SpanLimits},
};
use prometheus::IntCounter;
use tracing::Subscriber;
use tracing_subscriber::{Layer, registry::LookupSpan};

pub use self::tail::TailRule;
pub(super) use self::tail::is_notable;
use self::{lane::Lane, ledger::Ledger, tail::Tail};
use super::spans::{Contents, SpanFold};
use crate::{
    core::{Entry, Fact, Sensitive, SessionId, Sink},
    web,
};

/// Where spans go, complete: every default is already decided.
#[derive(Debug, Clone)]
pub struct Config {
    /// The collector's URL: for HTTP the base (`http://collector:4318`; `/v1/traces` is appended
    /// unless it stands there), for gRPC scheme, host and port (`http://collector:4317`).
    pub endpoint: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// Sent with each request.
    pub headers: Vec<(String, Sensitive<String>)>,
    /// For one batch, its retries included.
    pub timeout: Duration,
    /// Of the request's body.
    pub compression: Option<Compression>,
    /// `service.name`.
    pub service_name: String,
    /// Further attributes of the resource; nothing of the process instance, so that a span that
    /// another process sends again is the same span.
    pub resource: Vec<(String, String)>,
    /// Spans that wait at the most.
    pub queue_size: usize,
    /// Bytes that wait at the most, estimated.
    pub queue_bytes: usize,
    /// Spans of one batch at the most.
    pub batch_size: usize,
    /// How long a span waits for others to fill its batch.
    pub schedule_delay: Duration,
    /// Decide at the end of each session whether its trace is sent; else every span is sent when
    /// it ends.
    pub tail: Option<TailRule>,
    /// What spans show of what was said; nothing, if left out.
    pub contents: Option<Contents>,
}

/// The transports of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `grpc`.
    Grpc,
    /// `http/protobuf`.
    HttpProtobuf,
}

/// Compressions of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `gzip`.
    Gzip,
}

/// Counts the fate of spans; each span enters exactly one.
#[derive(Debug, Clone)]
pub struct SpanCounters {
    /// The collector took it.
    pub acknowledged: IntCounter,
    /// The exporter gave it up, or the collector rejected it.
    pub failed: IntCounter,
    /// It found no room, or came or stayed too late.
    pub dropped: IntCounter,
}

/// The fate of the spans of one pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The collector took them.
    pub acknowledged: u64,
    /// The exporter gave them up, or the collector rejected them.
    pub failed: u64,
    /// They found no room, or came or stayed too late.
    pub dropped: u64,
}

/// Hears which spans the collector has answered for; called on the exporter's thread.
pub type OnAck = Arc<dyn Fn(&[(TraceId, SpanId)]) + Send + Sync>;

/// Why a pipeline cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is no URL of a collector.
    #[error("otlp endpoint {endpoint:?} is no URL with scheme http or https and a host")]
    Endpoint {
        /// What was given.
        endpoint: String,
    },
    /// A header cannot be sent. Its value is not shown.
    #[error("otlp header {name:?} is not one that HTTP allows: a token as name, visible ASCII as value")]
    Header {
        /// Its name.
        name: String,
    },
    /// The exporter refuses what it was given.
    #[error("otlp exporter does not start: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// The system gives no thread.
    #[error("no thread for the otlp exporter")]
    Thread(#[source] std::io::Error),
    /// The thread ended before it was ready.
    #[error("the otlp exporter's thread ended while it was starting")]
    Stillborn,
}

/// The running way out. Cheap to clone; all clones are one pipeline. The calls that wait
/// ([`Pipeline::flush`], [`Pipeline::shutdown`]) block their thread and nothing else needs it:
/// async code puts them on `spawn_blocking`.
#[derive(Clone)]
pub struct Pipeline {
    lane: Arc<Lane>,
    fold: Arc<Mutex<Fold>>,
    ledger: Arc<Ledger>,
    provider: SdkTracerProvider,
}

/// Folds committed facts and gives the spans to the lane.
struct SpanSink {
    lane: Arc<Lane>,
    fold: Arc<Mutex<Fold>>,
    ledger: Arc<Ledger>,
}

/// Facts into spans that are to be sent.
#[derive(Default)]
struct Fold {
    spans: SpanFold,
    tail: Option<Tail>,
    /// Sessions that were suspended here, and the last fact of each that was published: the
    /// spans up to there are on their way already.
    suspended: HashMap<SessionId, u64>,
}

impl Config {
    /// The defaults for a collector.
    pub fn new(endpoint: impl Into<String>, protocol: Protocol) -> Self {
        Self {
            endpoint: endpoint.into(),
            protocol,
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            compression: None,
            service_name: "glassbox".to_owned(),
            resource: Vec::new(),
            queue_size: 8192,
            queue_bytes: 32 << 20,
            batch_size: 128,
            schedule_delay: Duration::from_secs(1),
            tail: None,
            contents: None,
        }
    }

    fn resource(&self) -> Resource {
        let given = self.resource.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        // Empty first: the usual builder would read the environment again.
        Resource::builder_empty()
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_attributes(given)
            .with_service_name(self.service_name.clone())
            .build()
    }
}

impl Pipeline {
    /// Starts the exporter's thread. The collector need not be there.
    ///
    /// # Errors
    /// Where the configuration cannot be used.
    pub fn start(config: Config, counters: SpanCounters) -> Result<Self, Error> {
        Self::start_with_ack(config, counters, None)
    }

    /// Starts the exporter's thread, and tells `on_ack` which spans have arrived.
    ///
    /// # Errors
    /// Where the configuration cannot be used.
    pub fn start_with_ack(config: Config, counters: SpanCounters, on_ack: Option<OnAck>) -> Result<Self, Error> {
        web::install_crypto();
        let resource = config.resource();
        let spans = config.contents.clone().map_or_else(SpanFold::new, SpanFold::showing);
        let fold = Fold { spans, tail: config.tail.map(Tail::new), suspended: HashMap::new() };
        let lane = Arc::new(Lane::new(&config, counters));
        let ledger = Arc::new(Ledger::default());
        let on_ack: OnAck = {
            let ledger = Arc::clone(&ledger);
            Arc::new(move |spans| {
                ledger.acknowledged(spans);
                if let Some(on_ack) = &on_ack {
                    on_ack(spans);
                }
            })
        };
        exporter::start(config, resource.clone(), Arc::clone(&lane), Some(on_ack))?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_limits(SpanLimits::default())
            // A trace is a session's: what is opened outside of one starts none.
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)))
            .with_span_processor(layer::Tap::new(Arc::clone(&lane)))
            .build();
        Ok(Self { lane, fold: Arc::new(Mutex::new(fold)), ledger, provider })
    }

    /// The sink that turns facts into spans.
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(SpanSink {
            lane: Arc::clone(&self.lane),
            fold: Arc::clone(&self.fold),
            ledger: Arc::clone(&self.ledger),
        })
    }

    /// Reads the journal of a session that goes on here, before its next fact is published.
    /// Sends the spans that it has closed so far once more, identical, but for those that this
    /// process sent itself before the session was suspended: of all others nobody knows which
    /// arrived. What finds no room is counted as dropped.
    pub fn restore(&self, entries: &[Entry]) {
        let session = entries.first().and_then(|entry| entry.stream.session());
        let sent = session.and_then(|session| lock(&self.fold).suspended.get(&session).copied());
        for entry in entries {
            // Held for one fact at a time: the journal's writer waits for it.
            send(&mut lock(&self.fold), &self.ledger, &self.lane, entry, sent);
        }
    }

    /// Takes the sessions that have ended and whose spans have all arrived since the last call.
    pub fn take_delivered(&self) -> Vec<SessionId> {
        self.ledger.take_delivered()
    }

    /// Drops what is held of a session until it is restored.
    pub fn forget(&self, session: SessionId) {
        let mut fold = lock(&self.fold);
        fold.spans.forget(session);
        if let Some(tail) = &mut fold.tail {
            tail.forget(session);
        }
    }

    /// Forgets how far a suspended session was sent: it waits no longer, perhaps elsewhere.
    pub fn forget_sent(&self, session: SessionId) {
        lock(&self.fold).suspended.remove(&session);
    }

    /// Room for spans now, for whoever paces what it restores.
    pub fn room(&self) -> usize {
        self.lane.room()
    }

    /// Room for spans where none waits.
    pub fn capacity(&self) -> usize {
        self.lane.capacity()
    }

    /// The layer that makes spans of `tracing` children of the context that they are opened in.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        layer::layer(self.provider.tracer(super::names::SCOPE))
    }

    /// Waits until every span given so far has met its fate; false if that took too long.
    pub fn flush(&self, timeout: Duration) -> bool {
        self.lane.flush(timeout)
    }

    /// Takes no more spans, waits for those it holds, and counts what is left as lost: in flight
    /// as failed, waiting as dropped. A second call gives the same counts.
    pub fn shutdown(&self, timeout: Duration) -> Counts {
        self.lane.shutdown(timeout)
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.lane.counts()
    }
}

impl Sink for SpanSink {
    fn name(&self) -> &'static str {
        "otlp"
    }

    fn publish(&mut self, entries: &[Arc<Entry>]) {
        let mut fold = lock(&self.fold);
        for entry in entries {
            send(&mut fold, &self.ledger, &self.lane, entry, None);
            fold.note(entry);
        }
    }
}

impl Fold {
    /// Notes how far a session was published that is suspended, or was.
    fn note(&mut self, entry: &Entry) {
        let Some(session) = entry.stream.session() else { return };
        if matches!(entry.fact, Fact::SessionFinished(_)) {
            self.suspended.remove(&session);
        } else if matches!(entry.fact, Fact::SessionSuspended { .. }) {
            self.suspended.insert(session, entry.seq);
            if let Some(tail) = &mut self.tail {
                tail.forget(session);
            }
        } else if let Some(last) = self.suspended.get_mut(&session) {
            *last = entry.seq;
        }
    }
}

/// Folds one fact and sends the span that it closes, unless that was `sent` up to a later fact.
fn send(fold: &mut Fold, ledger: &Ledger, lane: &Lane, entry: &Entry, sent: Option<u64>) {
    let closed = fold.spans.apply(entry);
    let decided = match &mut fold.tail {
        Some(tail) => tail.take(entry, closed),
        None => closed.into_iter().collect(),
    };
    let again = sent.is_some_and(|seq| entry.seq <= seq);
    let Some(session) = entry.stream.session() else { return };
    for span in decided.into_iter().filter(|_| !again) {
        ledger.sent(session, span.span_context.trace_id(), span.span_context.span_id());
        lane.offer(span);
    }
    if matches!(entry.fact, Fact::SessionFinished(_)) {
        ledger.ended(session);
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// A fold that panicked half-way holds at worst a call too many, so its lock stays good.
fn lock(fold: &Mutex<Fold>) -> std::sync::MutexGuard<'_, Fold> {
    fold.lock().unwrap_or_else(PoisonError::into_inner)
}
