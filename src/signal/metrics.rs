//! Prometheus metrics, counted from committed facts, and the health of the journal.
//!
//! Families stand in [`catalogue`], what a fact counts in `fold`, how they are written in `text`. It must never know a session's
//! text, and no label comes from a model or a person.

pub mod catalogue;
mod definitions;
mod document;
mod exemplars;
mod fallbacks;
mod fold;
mod make;
mod outcomes;
mod process;
mod series;
#[cfg(test)]
mod tests;
mod text;
mod waiting;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use self::{
    exemplars::Choice,
    fold::{Known, Sessions},
    process::Process,
    series::Series,
    waiting::Waiting,
};
pub use self::{
    exemplars::Traces,
    outcomes::{LoginRefusal, Told},
    text::Format,
};
use super::memory::Memory;
use crate::core::{
    Entry, SessionId, Sink, Timestamp,
    circuit::CircuitId,
    handover::Unclaimed,
    notice::Hook,
    port::{JournalWatch, StoreErrorKind},
};

/// The label values that configuration declares; all series of these are born at zero.
#[derive(Clone, Debug, Default)]
pub struct MetricLabels {
    /// Agents, each with its task types.
    pub agents: Vec<(String, Vec<String>)>,
    /// Models: configured name, `gen_ai.provider.name`, `gen_ai.request.model`.
    pub models: Vec<(String, String, String)>,
    /// Tools.
    pub tools: Vec<String>,
    /// MCP servers.
    pub mcp_servers: Vec<String>,
    /// Models that have a fallback, each with it; a pair an agent.
    pub fallbacks: Vec<(String, String)>,
    /// Circuit breakers.
    pub circuits: Vec<CircuitId>,
    /// Sinks that may drop.
    pub sinks: Vec<&'static str>,
    /// The version that runs.
    pub version: String,
}

/// The metrics of this process. Clones count into the same series.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

/// Why the metrics could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the metric families")]
pub struct Error(#[from] prometheus::Error);

struct Inner {
    registry: Registry,
    series: Series,
    sessions: Mutex<Sessions>,
    choice: Mutex<Choice>,
    waiting: Mutex<Waiting>,
    webhooks: IntCounterVec,
    logins: IntCounterVec,
    dropped: IntCounterVec,
    spans: IntCounter,
    commits: IntCounter,
    facts: IntCounter,
    commit_duration: Histogram,
    journal_errors: IntCounterVec,
    queue: IntGauge,
}

struct MetricsSink(Arc<Inner>);

impl Metrics {
    /// Makes all families, with the series of the declared labels at zero.
    ///
    /// # Errors
    /// Where a family is refused, which a right catalogue rules out.
    pub fn new(labels: &MetricLabels) -> Result<Self, Error> {
        Self::with_exemplars(labels, Traces::Nowhere)
    }

    /// The same, with exemplars of these traces.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_exemplars(labels: &MetricLabels, traces: Traces) -> Result<Self, Error> {
        let registry = Registry::new();
        let series = Series::new(&registry, labels)?;
        let dropped = make::counters(&registry, &catalogue::DROPPED)?;
        for sink in &labels.sinks {
            dropped.with_label_values(&[sink]);
        }
        let journal_errors = make::counters(&registry, &catalogue::JOURNAL_ERRORS)?;
        for kind in series::STORE_ERRORS {
            journal_errors.with_label_values(&[kind.label()]);
        }
        register_build_info(&registry, &labels.version)?;
        registry.register(Box::new(Process::of_self()))?;
        let inner = Inner {
            series,
            sessions: Mutex::new(Memory::new()),
            choice: Mutex::new(Choice::new(traces)),
            waiting: Mutex::new(Waiting::new(&registry)?),
            webhooks: make::counters(&registry, &catalogue::WEBHOOKS)?,
            logins: make::counters(&registry, &catalogue::LOGINS_REFUSED)?,
            dropped,
            spans: make::counters(&registry, &catalogue::SPANS)?.with_label_values::<&str>(&[]),
            commits: make::counters(&registry, &catalogue::JOURNAL_COMMITS)?.with_label_values::<&str>(&[]),
            facts: make::counters(&registry, &catalogue::JOURNAL_FACTS)?.with_label_values::<&str>(&[]),
            commit_duration: make::histograms(&registry, &catalogue::JOURNAL_COMMIT)?.with_label_values::<&str>(&[]),
            journal_errors,
            queue: make::gauge(&registry, &catalogue::JOURNAL_QUEUE)?,
            registry,
        };
        for (hook, outcome) in Hook::ALL.iter().flat_map(|hook| Told::ALL.map(|outcome| (hook, outcome))) {
            inner.webhooks.with_label_values(&[hook.label(), outcome.label()]);
        }
        for reason in LoginRefusal::ALL {
            inner.logins.with_label_values(&[reason.label()]);
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Gives birth at zero to the series of what a configuration declares that was read later.
    pub fn declare(&self, labels: &MetricLabels) {
        self.inner.series.declare(labels);
    }

    /// Gives birth at zero to the series of tools and circuit breakers that are known only now.
    pub fn declare_tools(&self, tools: &[String], circuits: &[CircuitId]) {
        self.inner.series.declare_tools(tools, circuits);
    }

    /// The sink that counts committed facts.
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(MetricsSink(Arc::clone(&self.inner)))
    }

    /// Takes up a session that another process life began: its journal so far is remembered, not
    /// counted, so that what it does from here on counts under its own labels. Call it before
    /// the first new fact of a session that is driven on here.
    pub fn adopt(&self, entries: &[Entry]) {
        let series = &self.inner.series;
        let mut sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.adopt(entries, |started| Known::new(series, started));
        self.inner.show_active(&sessions);
        self.inner.choice.lock().unwrap_or_else(PoisonError::into_inner).adopt(entries);
        self.notice_waiting(entries);
    }

    /// Takes notice of the calls of a session that wait for a person, whoever asked.
    pub fn notice_waiting(&self, entries: &[Entry]) {
        let mut waiting = self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().for_each(|entry| waiting.apply(entry));
    }

    /// Forgets the calls of a session that wait for a person no longer, wherever that was decided.
    pub fn forget_waiting(&self, session: SessionId) {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner).forget(session);
    }

    /// Forgets a session that was taken up and is driven here no longer.
    pub fn leave(&self, session: SessionId) {
        let mut sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.leave(session);
        self.inner.show_active(&sessions);
        self.inner.choice.lock().unwrap_or_else(PoisonError::into_inner).leave(session);
    }

    /// Shows whether a fallback was not tried with the tool definitions of now.
    pub fn fallback_untested(&self, model: &str, is_untested: bool) {
        self.inner.series.fallbacks.untested(model, is_untested);
    }

    /// Shows how long the oldest of what waits for a person has waited at `now`, and what the store
    /// says of hand-overs, if it could be asked. Call it right before [`Metrics::render`].
    pub fn show_ages(&self, now: Timestamp, unclaimed: Option<Unclaimed>) {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner).show_ages(now, unclaimed);
    }

    /// Counts what came of telling somebody outside.
    pub fn told(&self, hook: Hook, outcome: Told, times: u64) {
        self.inner.webhooks.with_label_values(&[hook.label(), outcome.label()]).inc_by(times);
    }

    /// Counts a caller that was not let in.
    pub fn login_refused(&self, reason: LoginRefusal) {
        self.inner.logins.with_label_values(&[reason.label()]).inc();
    }

    /// All series in the Prometheus text format.
    pub fn render(&self) -> String {
        self.render_as(Format::Prometheus)
    }

    /// All series in a format of the reader's choice.
    pub fn render_as(&self, format: Format) -> String {
        text::write(format, &self.inner.registry.gather(), &self.inner.series.timings())
    }

    /// The counter of spans that the collector took.
    pub fn spans_acknowledged(&self) -> IntCounter {
        self.inner.spans.clone()
    }

    /// The counter of what a sink dropped. The name must come from code.
    pub fn dropped(&self, sink: &str) -> IntCounter {
        self.inner.dropped.with_label_values(&[sink])
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl JournalWatch for Metrics {
    fn committed(&self, facts: usize, took: Duration) {
        self.inner.commits.inc();
        self.inner.facts.inc_by(u64::try_from(facts).unwrap_or(u64::MAX));
        self.inner.commit_duration.observe(took.as_secs_f64());
    }

    fn failed(&self, kind: StoreErrorKind) {
        self.inner.journal_errors.with_label_values(&[kind.label()]).inc();
    }

    fn queued(&self, depth: usize) {
        self.inner.queue.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }
}

impl Inner {
    fn show_active(&self, sessions: &Sessions) {
        self.series.sessions_active.set(i64::try_from(sessions.len()).unwrap_or(i64::MAX));
    }
}

impl Sink for MetricsSink {
    fn name(&self) -> &'static str {
        "metrics"
    }

    fn publish(&mut self, entries: &[Arc<Entry>]) {
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut choice = self.0.choice.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries {
            fold::count(&self.0.series, &mut sessions, &mut choice, entry);
        }
        self.0.show_active(&sessions);
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().for_each(|entry| waiting.apply(entry));
    }
}

/// One series that is always 1 and carries the version.
fn register_build_info(registry: &Registry, version: &str) -> Result<(), prometheus::Error> {
    let family = &catalogue::BUILD_INFO;
    let info = IntGaugeVec::new(Opts::new(family.name, family.meaning), family.labels)?;
    registry.register(Box::new(info.clone()))?;
    info.with_label_values(&[version]).set(1);
    Ok(())
}
