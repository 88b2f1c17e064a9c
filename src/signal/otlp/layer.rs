//! Spans that a tool's own code or a library opens while it runs, on the same way out.
//! Knows nothing of sessions: such a span belongs to whatever context it is opened in.

use std::{sync::Arc, time::Duration};

use opentelemetry::Context;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracer, Span, SpanData, SpanProcessor},
};
use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use super::lane::Lane;
use crate::signal::spans::clean;

/// Crates that sending spans goes through, where a span would beget the next; and the MCP client,
/// whose only span is that of a connection, which belongs to no session.
const INTERNALS: [&str; 7] = ["h2", "hyper", "hyper_util", "tonic", "reqwest", "rmcp", "tower"];

/// The processor that gives the provider's spans to the lane.
#[derive(Debug)]
pub(super) struct Tap {
    lane: Arc<Lane>,
}

impl Tap {
    /// A tap into this lane.
    pub(super) const fn new(lane: Arc<Lane>) -> Self {
        Self { lane }
    }
}

impl SpanProcessor for Tap {
    fn on_start(&self, _span: &mut Span, _cx: &Context) {}

    fn on_end(&self, mut span: SpanData) {
        if span.span_context.is_sampled() {
            clean(&mut span);
            self.lane.offer(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.lane.flush(Duration::from_secs(5));
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.lane.shutdown(timeout);
        Ok(())
    }
}

/// The layer for a subscriber; it carries its own filter and narrows no other layer. An event of
/// level `ERROR` marks the span around it as failed, which the bridge does not let us change.
pub(super) fn layer<S>(tracer: SdkTracer) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(wanted).with_max_level_hint(LevelFilter::INFO))
}

fn wanted(metadata: &Metadata<'_>) -> bool {
    let root = metadata.target().split("::").next().unwrap_or_default();
    *metadata.level() <= Level::INFO && !root.starts_with("opentelemetry") && !INTERNALS.contains(&root)
}
