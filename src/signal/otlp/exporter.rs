//! The thread that sends batches by the SDK's exporter. Knows nothing of what is in a span.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, mpsc},
    task::{Poll, Wake, Waker},
    thread::{self, Thread},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use opentelemetry::Context;
use opentelemetry_otlp::{
    SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _, tonic_types::metadata::MetadataMap,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter as _},
};
use tokio::runtime::Runtime;

use super::{Compression, Config, Error, OnAck, Protocol, lane::Lane, rejected::Watch};

/// An exporter and what its futures need to make progress.
struct Sender {
    exporter: SpanExporter,
    /// gRPC's connection lives here. The blocking HTTP client must run outside any runtime.
    runtime: Option<Runtime>,
    watch: Watch,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Starts the thread; returns when its exporter is built.
pub(super) fn start(config: Config, resource: Resource, lane: Arc<Lane>, on_ack: Option<OnAck>) -> Result<(), Error> {
    let (ready, built) = mpsc::channel();
    let run = move || match Sender::build(&config, &resource) {
        Ok(sender) => {
            // Whoever started the thread waits for this one message.
            let _ = ready.send(Ok(()));
            sender.run(&lane, on_ack.as_ref());
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    };
    thread::Builder::new().name("glassbox-otlp".to_owned()).spawn(run).map_err(Error::Thread)?;
    built.recv().map_err(|_| Error::Stillborn)?
}

impl Sender {
    fn build(config: &Config, resource: &Resource) -> Result<Self, Error> {
        let headers = headers(config)?;
        let endpoint = endpoint(config)?;
        let (mut exporter, runtime) = match config.protocol {
            Protocol::Grpc => {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .thread_name("glassbox-otlp-io")
                    .enable_all()
                    .build()
                    .map_err(Error::Thread)?;
                let _inside = runtime.enter();
                (grpc(config, endpoint, headers)?, Some(runtime))
            }
            Protocol::HttpProtobuf => (http(config, endpoint, &headers)?, None),
        };
        exporter.set_resource(resource);
        Ok(Self { exporter, runtime, watch: Watch::new() })
    }

    fn run(self, lane: &Lane, on_ack: Option<&OnAck>) {
        // Spans of the client libraries on this thread would be sent by themselves.
        let _silence = Context::enter_telemetry_suppressed_scope();
        drive(lane, on_ack, |batch| self.send(batch));
        if let Some(runtime) = self.runtime {
            runtime.shutdown_background();
        }
    }

    /// Sends a batch; how many of it the collector rejected, or nothing where it did not answer.
    fn send(&self, batch: Vec<SpanData>) -> Option<u64> {
        let (result, rejected) = self.watch.during(|| self.block_on(self.exporter.export(batch)));
        match result {
            Ok(()) => Some(rejected),
            Err(error) => {
                tracing::debug!(%error, "spans were not exported");
                None
            }
        }
    }

    fn block_on(&self, future: impl Future<Output = OTelSdkResult>) -> OTelSdkResult {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => park_on(future),
        }
    }
}

/// Sends batch after batch until the lane is closed and empty. `send` gives how many spans of a
/// batch the collector rejected, or nothing where it did not answer.
fn drive(lane: &Lane, on_ack: Option<&OnAck>, send: impl Fn(Vec<SpanData>) -> Option<u64>) {
    while let Some(batch) = lane.next() {
        let ids: Vec<_> =
            batch.iter().map(|span| (span.span_context.trace_id(), span.span_context.span_id())).collect();
        let sent = ids.len() as u64;
        // A panic of the exporter costs its batch, not the thread.
        let answer = catch_unwind(AssertUnwindSafe(|| send(batch))).ok().flatten();
        // Told before it is settled: whoever waits for that may read what was told.
        if let Some(on_ack) = on_ack.filter(|_| answer.is_some() && lane.is_in_flight()) {
            // The collector has the last word on rejected spans too: they are not sent again.
            let _ = catch_unwind(AssertUnwindSafe(|| on_ack(&ids)));
        }
        lane.settle(sent.saturating_sub(answer.unwrap_or(sent)));
    }
}

/// Polls on this thread, outside any runtime.
fn park_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = std::task::Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        thread::park();
    }
}

fn grpc(config: &Config, endpoint: String, headers: HeaderMap) -> Result<SpanExporter, Error> {
    let builder = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(config.timeout)
        .with_metadata(MetadataMap::from_headers(headers));
    Ok(match config.compression {
        Some(Compression::Gzip) => builder.with_compression(opentelemetry_otlp::Compression::Gzip),
        None => builder,
    }
    .build()?)
}

fn http(config: &Config, endpoint: String, headers: &HeaderMap) -> Result<SpanExporter, Error> {
    let headers: HashMap<_, _> =
        headers.iter().filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))).collect();
    let builder = SpanExporter::builder()
        .with_http()
        .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .with_timeout(config.timeout)
        .with_headers(headers);
    Ok(match config.compression {
        Some(Compression::Gzip) => builder.with_compression(opentelemetry_otlp::Compression::Gzip),
        None => builder,
    }
    .build()?)
}

fn headers(config: &Config) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let parsed = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value.expose()).ok());
        let (key, value) =
            parsed.filter(|(_, value)| value.to_str().is_ok()).ok_or_else(|| Error::Header { name: name.clone() })?;
        headers.insert(key, value);
    }
    Ok(headers)
}

/// The URL as the SDK wants it: given by code, it appends no path of its own.
fn endpoint(config: &Config) -> Result<String, Error> {
    let bad = || Error::Endpoint { endpoint: config.endpoint.clone() };
    let uri: Uri = config.endpoint.parse().map_err(|_| bad())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(bad());
    }
    let base = config.endpoint.trim_end_matches('/');
    Ok(match config.protocol {
        Protocol::HttpProtobuf if !base.ends_with("/v1/traces") => format!("{base}/v1/traces"),
        Protocol::HttpProtobuf | Protocol::Grpc => base.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Duration};

    use super::{
        super::lane::tests::{lane, root},
        *,
    };
    use crate::signal::otlp::Counts;

    #[test]
    fn a_panic_costs_its_batch_and_a_late_answer_is_not_counted_again() {
        let lane = Arc::new(lane(|config| config.batch_size = 1));
        let heard = Arc::new(Mutex::new(0));
        let hearing = Arc::clone(&heard);
        let on_ack: OnAck = Arc::new(move |ids| *hearing.lock().unwrap() += ids.len());
        for _ in 0..3 {
            lane.offer(root("span"));
        }
        let calls = Mutex::new(0);
        drive(&lane, Some(&on_ack), |_| {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            match *calls {
                1 => {
                    drop(calls);
                    panic!("the exporter's own fault")
                }
                2 => Some(0),
                _ => {
                    lane.shutdown(Duration::ZERO);
                    Some(0)
                }
            }
        });
        assert_eq!(lane.counts(), Counts { acknowledged: 1, failed: 2, dropped: 0 });
        assert_eq!(*heard.lock().unwrap(), 1);
    }

    #[test]
    fn the_path_is_appended_once_and_for_http_only() {
        let url = |url: &str, protocol| endpoint(&Config::new(url, protocol)).ok();
        assert_eq!(url("http://c:4318", Protocol::HttpProtobuf).as_deref(), Some("http://c:4318/v1/traces"));
        assert_eq!(url("http://c:4318/otlp/", Protocol::HttpProtobuf).as_deref(), Some("http://c:4318/otlp/v1/traces"));
        assert_eq!(url("http://c/v1/traces", Protocol::HttpProtobuf).as_deref(), Some("http://c/v1/traces"));
        assert_eq!(url("https://c:4317", Protocol::Grpc).as_deref(), Some("https://c:4317"));
        for bad in ["c:4317", "", "ftp://c", "/v1/traces"] {
            assert_eq!(url(bad, Protocol::Grpc), None, "{bad}");
        }
    }

    #[test]
    fn a_bad_header_is_named_without_its_value() {
        let mut config = Config::new("http://c", Protocol::Grpc);
        config.headers = vec![("authorization".into(), "Bearer \n secret".into())];
        let error = headers(&config).expect_err("a line break").to_string();
        assert!(error.contains("authorization") && !error.contains("secret"), "{error}");
    }
}
