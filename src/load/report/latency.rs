//! Times of sessions, as percentiles.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::rounded;

/// The percentiles of the curve.
const CURVE: [f64; 20] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 85.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.75, 99.9, 99.95, 99.99,
    99.999,
];

/// Times, in milliseconds. All zero where there were none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// How many there were.
    pub count: u64,
    /// Half were faster.
    pub p50_ms: f64,
    /// Nine of ten were faster.
    pub p90_ms: f64,
    /// All but one of twenty.
    pub p95_ms: f64,
    /// All but one of a hundred.
    pub p99_ms: f64,
    /// All but one of a thousand.
    pub p99_9_ms: f64,
    /// The slowest.
    pub max_ms: f64,
    /// Percentile and time, for as many percentiles as so many sessions can tell apart.
    pub curve: Vec<(f64, f64)>,
}

impl Latency {
    /// Of a histogram of microseconds.
    pub(in crate::load) fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        // As the nearest share: 99.9 / 100 is a little more than 0.999, which would be one session more.
        let at = |percentile: f64| millis(histogram.value_at_quantile((percentile * 1e7).round() / 1e9));
        #[expect(clippy::cast_precision_loss, reason = "counts of sessions are far below 2^53")]
        let finest = 100.0 - 100.0 / histogram.len() as f64;
        let curve = CURVE.iter().filter(|percentile| **percentile <= finest);
        let last = (rounded(finest.max(0.0), 4), millis(histogram.max()));
        Self {
            count: histogram.len(),
            p50_ms: at(50.0),
            p90_ms: at(90.0),
            p95_ms: at(95.0),
            p99_ms: at(99.0),
            p99_9_ms: at(99.9),
            max_ms: millis(histogram.max()),
            curve: curve.map(|percentile| (*percentile, at(*percentile))).chain([last]).collect(),
        }
    }
}

fn millis(micros: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an hour at the most")]
    let millis = micros as f64 / 1000.0;
    rounded(millis, 2)
}
