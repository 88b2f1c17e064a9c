//! What came out of a run: plain numbers, the same as text, JSON and HTML.

mod chart;
mod html;
mod latency;
mod rows;

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    drive::Pace,
    tally::Tally,
    threshold::Beyond,
    watch::{Sample, growth, slope},
};
use crate::core::SessionId;

pub use self::html::html;
pub(super) use self::latency::Latency;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The version of the one that measured.
    pub version: &'static str,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// Where the service is.
    pub server: String,
    /// Whether it was started for the run, with its faults in words.
    pub own_server: Option<String>,
    /// What arrivals, tasks and faults were drawn with.
    pub seed: u64,
    /// One after the other; where there are two, they are compared.
    pub stages: Vec<Stage>,
    /// What the numbers cannot say, one phrase each.
    pub notes: Vec<String>,
    /// The conditions of failure that were met.
    pub beyond: Vec<Beyond>,
}

/// A stage: sessions at one rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stage {
    /// Its name, such as `10x`.
    pub name: String,
    /// Sessions a second that were wanted; nothing where as many as could be.
    pub rate: Option<f64>,
    /// How they were spread; nothing where as many as could be.
    pub arrivals: Option<&'static str>,
    /// Seconds from the first counted session until the last was over.
    pub seconds: f64,
    /// Sessions begun and counted.
    pub sessions: u64,
    /// Sessions of the warm-up, which nothing else here counts but `lost` and the spans.
    pub warm_up: u64,
    /// Sessions that ended with an answer, of all but cancelled ones.
    pub success_rate: Option<f64>,
    /// How they ended.
    pub statuses: BTreeMap<&'static str, u64>,
    /// Answers that were given without tools, because none could be reached.
    pub degraded: u64,
    /// What the service did not take, by its status.
    pub refused: BTreeMap<u16, u64>,
    /// What broke off, by why.
    pub failed: BTreeMap<&'static str, u64>,
    /// Sessions that began behind their schedule.
    pub late: Late,
    /// From the intended start until the session was kept.
    pub accepted: Latency,
    /// From the intended start to its end.
    pub end_to_end: Latency,
    /// Sessions that the service took and does not know any more, or never ended.
    pub lost: Vec<SessionId>,
    /// What happened to spans and event lines.
    pub telemetry: Telemetry,
    /// What the service needed; nothing where its `/metrics` could not be read.
    pub server: Option<Server>,
}

/// Starts behind the schedule. Their sessions count from when they should have begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Late {
    /// Those that were more than 20 ms behind.
    pub count: u64,
    /// The worst one, milliseconds.
    pub worst_ms: f64,
}

/// What happened to spans and event lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Telemetry {
    /// Items that the service says it dropped.
    pub dropped: Option<f64>,
    /// Spans that the sessions must have, where a collector of ours looked.
    pub spans_expected: Option<u64>,
    /// Those of them that arrived.
    pub spans_arrived: Option<u64>,
}

/// What the service needed, as its `/metrics` say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Server {
    /// Seconds of processor time.
    pub cpu_seconds: f64,
    /// Of one processor, on the average: 1 is all of it.
    pub cpu_share: f64,
    /// Processor time of one session, milliseconds.
    pub cpu_ms_per_session: Option<f64>,
    /// Resident memory when the stage began, MiB.
    pub resident_start_mib: f64,
    /// And when it was over.
    pub resident_end_mib: f64,
    /// The most of it.
    pub resident_peak_mib: f64,
    /// The slope of a straight line through it, KiB a minute; nothing for a stage of less than ten
    /// seconds.
    pub growth_kib_per_minute: Option<f64>,
    /// Seconds and MiB, for the curve.
    pub resident_curve: Vec<(f64, f64)>,
}

/// A stage below this says nothing of growth: what is filled at first looks like it.
const SHORTEST_FOR_GROWTH: f64 = 10.0;
const MIB: f64 = 1_048_576.0;

impl Telemetry {
    /// Spans that did not arrive, where that is known.
    pub fn spans_missing(&self) -> Option<u64> {
        Some(self.spans_expected?.saturating_sub(self.spans_arrived?))
    }
}

impl Stage {
    /// What a tally and the scrapes of its time say.
    pub(super) fn of(name: &str, pace: Pace, seconds: f64, tally: &Tally, samples: &[Sample]) -> Self {
        let (rate, arrivals) = match pace {
            Pace::Open { rate, arrivals, .. } => (Some(rate), Some(arrivals.label())),
            Pace::Closed { .. } => (None, None),
        };
        let server = Server::of(samples, tally.begun);
        Self {
            name: name.to_owned(),
            rate,
            arrivals,
            seconds: rounded(seconds, 3),
            sessions: tally.begun,
            warm_up: tally.warm_up,
            success_rate: tally.success(),
            statuses: tally.statuses.clone(),
            degraded: tally.degraded,
            refused: tally.refused.clone(),
            failed: tally.failed.clone(),
            late: Late { count: tally.late, worst_ms: rounded(tally.worst_lag.as_secs_f64() * 1000.0, 1) },
            accepted: Latency::of(&tally.accepted),
            end_to_end: Latency::of(&tally.end_to_end),
            lost: Vec::new(),
            telemetry: Telemetry {
                dropped: server.as_ref().map(|_| growth(samples.iter().map(|sample| sample.dropped))),
                ..Telemetry::default()
            },
            server,
        }
    }
}

impl Server {
    fn of(samples: &[Sample], sessions: u64) -> Option<Self> {
        let (first, last) = (samples.first()?, samples.last()?);
        let took = last.at - first.at;
        let cpu = growth(samples.iter().map(|sample| sample.cpu));
        let curve: Vec<_> = samples.iter().map(|sample| (sample.at - first.at, sample.resident / MIB)).collect();
        let growth = slope(&curve).filter(|_| took >= SHORTEST_FOR_GROWTH);
        #[expect(clippy::cast_precision_loss, reason = "counts of sessions are far below 2^53")]
        let per_session = (sessions > 0).then(|| rounded(cpu * 1000.0 / sessions as f64, 3));
        Some(Self {
            cpu_seconds: rounded(cpu, 2),
            cpu_share: if took > 0.0 { rounded(cpu / took, 3) } else { 0.0 },
            cpu_ms_per_session: per_session,
            resident_start_mib: rounded(first.resident / MIB, 1),
            resident_end_mib: rounded(last.resident / MIB, 1),
            resident_peak_mib: rounded(samples.iter().map(|sample| sample.resident).fold(0.0, f64::max) / MIB, 1),
            growth_kib_per_minute: growth.map(|mib_a_second| rounded(mib_a_second * 1024.0 * 60.0, 0)),
            resident_curve: curve.into_iter().map(|(at, mib)| (rounded(at, 1), rounded(mib, 2))).collect(),
        })
    }
}

/// With so many digits after the point, so that files stay readable.
fn rounded(value: f64, digits: i32) -> f64 {
    let factor = 10_f64.powi(digits);
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests;
