//! Exemplars: for each bucket of a duration histogram the last observation whose trace can be
//! looked at, so that a dashboard leads from a slow bucket to a slow session.
//!
//! It must never name a trace that nobody exports: without an endpoint there are none, under
//! head sampling those of sampled sessions, under tail sampling those of sessions that were kept,
//! which is known only when they end.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus::{
    Histogram, HistogramVec, Registry,
    proto::{LabelPair, Metric},
};

use super::{
    catalogue::{Family, Kind},
    make,
};
use crate::{
    core::{
        Entry, Fact, SessionId, SpanId, Timestamp, TraceId,
        fact::{SessionStarted, SuspendCause},
    },
    signal::otlp::{TailRule, is_notable},
};

/// Observations of one session that wait for the decision on its trace at the most; later ones
/// are left out.
const MOST_WAITING: usize = 64;

/// Which traces can be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Traces {
    /// None is exported.
    #[default]
    Nowhere,
    /// Those that are sampled when they begin.
    Head,
    /// Those that are kept when they end.
    Tail(TailRule),
}

/// The trace of a session that is exported, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) trace: TraceId,
    pub(super) root: SpanId,
}

/// One observation and the span that it is the duration of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exemplar {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    /// In seconds.
    pub(super) value: f64,
    pub(super) at: Timestamp,
}

/// One series of a duration histogram. Clones observe into the same.
#[derive(Clone)]
pub(super) struct Timing {
    histogram: Histogram,
    last: Arc<Last>,
}

/// The series of one family of duration histograms.
pub(super) struct Timings {
    family: Family,
    histograms: HistogramVec,
    last: Mutex<HashMap<Vec<String>, Arc<Last>>>,
}

/// The exemplars of a series, one a bucket and the last one for what is over every bound. They
/// take no room before the first.
struct Last {
    bounds: &'static [f64],
    kept: Mutex<Vec<Option<Exemplar>>>,
}

/// Decides which observations become exemplars.
pub(super) struct Choice {
    traces: Traces,
    waiting: HashMap<SessionId, Waiting>,
}

/// What is known of an open session under tail sampling.
#[derive(Default)]
struct Waiting {
    notable: bool,
    observed: Vec<(Timing, Exemplar)>,
}

impl Origin {
    /// Nothing where the trace is not sampled.
    pub(super) fn of(started: &SessionStarted) -> Option<Self> {
        started.trace.sampled.then_some(Self { trace: started.trace.trace_id, root: started.trace.root })
    }
}

impl Timing {
    /// Counts an observation, in seconds.
    pub(super) fn observe(&self, seconds: f64) {
        self.histogram.observe(seconds);
    }

    fn keep(&self, exemplar: Exemplar) {
        let mut kept = self.last.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.resize(self.last.bounds.len() + 1, None);
        kept[self.last.bounds.partition_point(|bound| *bound < exemplar.value)] = Some(exemplar);
    }
}

impl Timings {
    /// Makes a family of histograms whose buckets may have exemplars.
    pub(super) fn register(registry: &Registry, family: &Family) -> Result<Self, prometheus::Error> {
        let histograms = make::histograms(registry, family)?;
        Ok(Self { family: *family, histograms, last: Mutex::default() })
    }

    /// The series of these labels, in the order of the catalogue.
    pub(super) fn with_label_values(&self, values: &[&str]) -> Timing {
        let histogram = self.histograms.with_label_values(values);
        let key = values.iter().map(|value| (*value).to_owned()).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = Arc::clone(last.entry(key).or_insert_with(|| Arc::new(Last::of(&self.family))));
        Timing { histogram, last }
    }

    /// The name of the family.
    pub(super) const fn name(&self) -> &'static str {
        self.family.name
    }

    /// The exemplars of a gathered series, a place a bucket; empty while it has none.
    pub(super) fn exemplars(&self, series: &Metric) -> Vec<Option<Exemplar>> {
        let value = |label: &&str| {
            let pair = series.get_label().iter().find(|pair| pair.name() == *label);
            pair.map_or_else(String::new, |pair: &LabelPair| pair.value().to_owned())
        };
        let key: Vec<_> = self.family.labels.iter().map(value).collect();
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(&key).map_or_else(Vec::new, |last| last.kept.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Last {
    const fn of(family: &Family) -> Self {
        let bounds = match family.kind {
            Kind::Histogram(bounds) => bounds,
            Kind::Counter | Kind::Gauge => &[],
        };
        Self { bounds, kept: Mutex::new(Vec::new()) }
    }
}

impl Choice {
    /// Among the observations of these traces.
    pub(super) fn new(traces: Traces) -> Self {
        Self { traces, waiting: HashMap::new() }
    }

    /// Takes up a session whose journal another process life began.
    pub(super) fn adopt(&mut self, entries: &[Entry]) {
        if let Some(session) = entries.first().and_then(|entry| entry.stream.session()) {
            self.leave(session);
        }
        entries.iter().filter(|entry| is_notable(&entry.fact)).for_each(|entry| self.note(entry));
    }

    /// Forgets a session that goes on elsewhere.
    pub(super) fn leave(&mut self, session: SessionId) {
        self.waiting.remove(&session);
    }

    /// Takes what was observed of a sampled session.
    pub(super) fn offer(&mut self, session: SessionId, timing: &Timing, exemplar: Exemplar) {
        match self.traces {
            Traces::Nowhere => {}
            Traces::Head => timing.keep(exemplar),
            Traces::Tail(_) => {
                let observed = &mut self.waiting.entry(session).or_default().observed;
                if observed.len() < MOST_WAITING {
                    observed.push((timing.clone(), exemplar));
                }
            }
        }
    }

    /// Takes note of a fact, once what it observed was offered.
    pub(super) fn note(&mut self, entry: &Entry) {
        let (Traces::Tail(rule), Some(session)) = (self.traces, entry.stream.session()) else { return };
        if is_notable(&entry.fact) {
            self.waiting.entry(session).or_default().notable = true;
        } else if let Fact::SessionFinished(end) = &entry.fact {
            let Some(waiting) = self.waiting.remove(&session) else { return };
            if rule.keeps(session, end, waiting.notable) {
                waiting.observed.into_iter().for_each(|(timing, exemplar)| timing.keep(exemplar));
            }
        } else if let Fact::SessionSuspended { cause: SuspendCause::Drain | SuspendCause::Confirmation } = &entry.fact {
            self.leave(session);
        }
    }
}
