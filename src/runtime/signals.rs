//! Builds the sinks, in the order in which they see a committed fact: metrics, spans on their
//! way to the collector, live readers, lines.

use std::{path::Path, sync::Arc, time::Duration};

use super::{Diagnostics, Own, OwnTool, Setup, contents, policy};
use crate::{
    config::{self, Config},
    core::{Entry, SessionId, Sink, Store, fact::SpanContent, port::Entropy},
    signal::{
        Feed, KeyedHash, Lines, MetricLabels, Metrics, hash, lines,
        metrics::{self, Traces},
        otlp::{self, Pipeline, SpanCounters, TailRule},
    },
};

/// The hash key's file inside the data folder.
const KEY_FILE: &str = "hash.key";
/// Time for the last lines at a stop.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Time for the last export at a stop.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// Why the signals could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The metric families.
    #[error(transparent)]
    Metrics(#[from] metrics::Error),
    /// The hash key.
    #[error("the key of the hashes: {0}")]
    Hash(#[from] hash::Error),
    /// The lines' output.
    #[error("telemetry.events")]
    Lines(#[from] lines::Error),
    /// The export of traces.
    #[error("telemetry.otlp: {0}")]
    Otlp(#[from] otlp::Error),
}

/// Everything that reads facts.
pub(super) struct Signals {
    metrics: Metrics,
    feed: Feed,
    lines: Option<Lines>,
    pipeline: Option<Pipeline>,
    sample_ratio: f64,
    tail: bool,
    content: SpanContent,
    filter: String,
}

impl Signals {
    pub(super) fn start(config: &Config, setup: &Setup, store: &Arc<dyn Store>) -> Result<Self, Error> {
        let metrics = Metrics::with_exemplars(&labels(config, &setup.own), traces(&config.telemetry))?;
        let feed = Feed::new(metrics.dropped("feed"));
        let lines = match output(config.telemetry.events.as_ref().unwrap_or(&setup.events)) {
            None => None,
            Some(output) => {
                let hash = keyed_hash(config, &setup.data_dir, &*setup.entropy)?;
                Some(Lines::new(output, hash, metrics.dropped("lines"))?)
            }
        };
        let pipeline = match &config.telemetry.otlp {
            None => None,
            Some(otlp) => Some(start_pipeline(config, otlp, &metrics, store)?),
        };
        let (sample_ratio, filter) = (config.telemetry.sample_ratio, config.telemetry.log.clone());
        let tail = config.telemetry.sampling == config::Sampling::Tail;
        // Where nothing is exported, nothing is decided about it either.
        let content = if pipeline.is_some() { config.privacy.span_content } else { SpanContent::Off };
        Ok(Self { metrics, feed, lines, pipeline, sample_ratio, tail, content, filter })
    }

    /// Reads the journal of a session that goes on here, before its next fact is recorded. Its
    /// lines are out up to the mark.
    pub(super) fn adopt(&self, entries: &[Entry], mark: u64) {
        self.metrics.adopt(entries);
        if let Some(lines) = &self.lines {
            lines.adopt(entries, mark);
        }
        if let Some(pipeline) = &self.pipeline {
            pipeline.restore(entries);
        }
    }

    /// Lets go of a session that was adopted and does not go on here after all.
    pub(super) fn leave(&self, session: SessionId) {
        self.metrics.leave(session);
        if let Some(lines) = &self.lines {
            lines.leave(session);
        }
        if let Some(pipeline) = &self.pipeline {
            pipeline.forget(session);
        }
    }

    /// Forgets a session that waited for a person: it is decided, perhaps elsewhere.
    pub(super) fn abandon(&self, session: SessionId) {
        self.metrics.forget_waiting(session);
        if let Some(pipeline) = &self.pipeline {
            pipeline.forget_sent(session);
        }
    }

    /// The sinks for the journal's writer, in their order.
    pub(super) fn sinks(&self) -> Vec<Box<dyn Sink>> {
        let spans = self.pipeline.as_ref().map(Pipeline::sink);
        let lines = self.lines.as_ref().map(Lines::sink);
        [Some(self.metrics.sink()), spans, Some(self.feed.sink()), lines].into_iter().flatten().collect()
    }

    /// The event lines, if there are any.
    pub(super) const fn lines(&self) -> Option<&Lines> {
        self.lines.as_ref()
    }

    /// The way of spans out, if there is one.
    pub(super) const fn pipeline(&self) -> Option<&Pipeline> {
        self.pipeline.as_ref()
    }

    pub(super) const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) const fn feed(&self) -> &Feed {
        &self.feed
    }

    pub(super) fn diagnostics(&self) -> Diagnostics {
        // Spans of foreign code are not in the journal, so no decision at the end could reach them.
        let pipeline = self.pipeline.clone().filter(|_| !self.tail);
        Diagnostics::new(&self.filter, pipeline)
    }

    /// The head decision for a new session; under tail sampling every trace says that it is
    /// sampled, and is decided for at its end.
    pub(super) fn samples(&self, id: SessionId) -> bool {
        self.tail || id.is_drawn(self.sample_ratio)
    }

    /// What the spans of a new session show of what is said in it.
    pub(super) const fn content(&self) -> SpanContent {
        self.content
    }

    /// Writes out the lines that are left.
    pub(super) async fn stop_lines(&self) {
        if let Some(lines) = self.lines.clone() {
            // What is lost by it is counted.
            let _ = tokio::task::spawn_blocking(move || lines.stop(LAST_LINES)).await;
        }
    }

    /// Sends out the spans that are left; they are the last to stop.
    pub(super) async fn stop_spans(&self) {
        let Some(pipeline) = self.pipeline.clone() else { return };
        let stop = tokio::task::spawn_blocking(move || pipeline.shutdown(LAST_EXPORT));
        if let Ok(counts) = stop.await
            && counts.failed + counts.dropped > 0
        {
            tracing::warn!(
                target: "glassbox",
                acknowledged = counts.acknowledged,
                failed = counts.failed,
                dropped = counts.dropped,
                "spans were lost on their way to the collector"
            );
        }
    }
}

/// The values that labels may have: what is declared, and what the program brings along.
pub(super) fn labels(config: &Config, own: &Own) -> MetricLabels {
    let models = config.models.iter().map(|(name, model)| match own.model(name) {
        Some(model) => (name.clone(), model.info().provider.clone(), model.info().request_model.clone()),
        None => (name.clone(), model.provider.label().to_owned(), model.request_model.clone()),
    });
    let own_tools = own.tools.iter().map(OwnTool::name).map(str::to_owned);
    MetricLabels {
        agents: config.agents.iter().map(|(name, agent)| (name.clone(), agent.task_types.clone())).collect(),
        models: models.collect(),
        tools: config.tools.keys().cloned().chain(own_tools).collect(),
        mcp_servers: config.mcp_servers.keys().cloned().collect(),
        fallbacks: policy::fallbacks(config).collect(),
        circuits: policy::circuits(config, own).into_iter().collect(),
        sinks: vec!["feed", "lines", "otlp"],
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Which traces somebody can look at.
fn traces(telemetry: &config::Telemetry) -> Traces {
    match (&telemetry.otlp, tail(telemetry)) {
        (None, _) => Traces::Nowhere,
        (Some(_), None) => Traces::Head,
        (Some(_), Some(rule)) => Traces::Tail(rule),
    }
}

fn tail(telemetry: &config::Telemetry) -> Option<TailRule> {
    let rule = TailRule { slow: telemetry.slow_session, share: telemetry.sample_ratio };
    (telemetry.sampling == config::Sampling::Tail).then_some(rule)
}

fn output(events: &config::Events) -> Option<lines::Output> {
    match events {
        config::Events::Off => None,
        config::Events::Stdout => Some(lines::Output::Stdout),
        config::Events::File(path) => Some(lines::Output::File(path.clone())),
    }
}

fn keyed_hash(config: &Config, data_dir: &Path, entropy: &dyn Entropy) -> Result<KeyedHash, hash::Error> {
    match &config.privacy.hash_key {
        Some(key) => KeyedHash::from_key(key.expose().as_bytes()),
        None => KeyedHash::load_or_create(&data_dir.join(KEY_FILE), entropy),
    }
}

fn start_pipeline(
    all: &Config,
    config: &config::Otlp,
    metrics: &Metrics,
    store: &Arc<dyn Store>,
) -> Result<Pipeline, otlp::Error> {
    let telemetry = &all.telemetry;
    let protocol = match config.protocol {
        config::Protocol::Grpc => otlp::Protocol::Grpc,
        config::Protocol::HttpProtobuf => otlp::Protocol::HttpProtobuf,
    };
    let defaults = otlp::Config::new(&config.endpoint, protocol);
    let settled = otlp::Config {
        headers: config.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        timeout: config.timeout,
        compression: config.gzip.then_some(otlp::Compression::Gzip),
        service_name: telemetry.service_name.clone(),
        resource: telemetry.resource_attributes.clone().into_iter().collect(),
        queue_size: config.queue_size,
        batch_size: config.batch_size,
        tail: tail(telemetry),
        contents: contents::of(all.privacy.span_content, store),
        ..defaults
    };
    // A span that the collector refused and one that found no room are both lost to the reader.
    let counters = SpanCounters {
        acknowledged: metrics.spans_acknowledged(),
        failed: metrics.dropped("otlp"),
        dropped: metrics.dropped("otlp"),
    };
    Pipeline::start(settled, counters)
}
