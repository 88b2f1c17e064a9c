//! What `/metrics` says of the service while it is under load: its processor, its memory, and
//! what its telemetry lost.
//!
//! It must never take a restart for a loss: a counter that went down began anew.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::service::Service;

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(1);

/// What one scrape says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Seconds since the watch began.
    pub(super) at: f64,
    /// Seconds of processor time.
    pub(super) cpu: f64,
    /// Resident bytes.
    pub(super) resident: f64,
    /// Items that telemetry dropped, of all sinks but live readers: a caller that went away is no
    /// loss of telemetry.
    pub(super) dropped: f64,
    /// Files and connections that the service may have open.
    pub(super) max_files: f64,
}

/// The scrapes so far, or why there are none.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    began: Instant,
    seen: Arc<Mutex<(Vec<Sample>, Option<String>)>>,
}

impl Watch {
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), seen: Arc::default() }
    }

    /// Seconds since it began.
    pub(super) fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Scrapes until it is stopped.
    pub(super) async fn follow(self, service: Service, stop: CancellationToken) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.scrape(&service).await;
        }
    }

    /// Scrapes once.
    pub(super) async fn scrape(&self, service: &Service) {
        let text = service.metrics().await;
        let at = self.now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Ok(text) => seen.0.push(Sample { at, ..read(&text) }),
            Err(why) => seen.1 = Some(why),
        }
    }

    /// The scrapes from one time to another, in seconds since the watch began.
    pub(super) fn between(&self, from: f64, until: f64) -> Vec<Sample> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.0.iter().filter(|sample| (from..=until).contains(&sample.at)).copied().collect()
    }

    /// How many files and connections the service may have open, where it says so.
    pub(super) fn files_of_service(&self) -> Option<f64> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.0.last().map(|sample| sample.max_files).filter(|files| *files > 0.0)
    }

    /// Why nothing can be said, where nothing was read at all.
    pub(super) fn trouble(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.0.is_empty() { seen.1.clone() } else { None }
    }
}

/// What a counter grew by, over restarts of its process.
pub(super) fn growth(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut before) = (0.0, None);
    for value in values {
        sum += match before {
            Some(before) if value >= before => value - before,
            // The first process of the watch was there before; a later one began with nothing.
            Some(_) => value,
            None => 0.0,
        };
        before = Some(value);
    }
    sum
}

/// The slope of a straight line through points, by least squares; nothing for less than three.
pub(super) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a scrape a second")]
    let count = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let together: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (spread > 0.0).then(|| together / spread)
}

/// Sums of the series that matter here.
fn read(text: &str) -> Sample {
    let mut sample = Sample::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        match series.split('{').next().unwrap_or_default() {
            "process_cpu_seconds_total" => sample.cpu += value,
            "process_resident_memory_bytes" => sample.resident += value,
            "process_max_fds" => sample.max_files += value,
            "glassbox_telemetry_dropped_total" if !series.contains("sink=\"feed") => sample.dropped += value,
            _ => {}
        }
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_read_by_its_names() {
        let text = "# HELP process_cpu_seconds_total x\nprocess_cpu_seconds_total 12.5\n\
            process_resident_memory_bytes 1048576\nprocess_max_fds 1024\nglassbox_telemetry_dropped_total{sink=\"lines\"} 2\n\
            glassbox_telemetry_dropped_total{sink=\"otlp\"} 3\nglassbox_telemetry_dropped_total{sink=\"feed\"} 9\n\
            glassbox_sessions_active 4\n";
        assert_eq!(read(text), Sample { at: 0.0, cpu: 12.5, resident: 1_048_576.0, dropped: 5.0, max_files: 1024.0 });
    }

    #[test]
    fn growth_goes_over_a_restart() {
        assert_eq!(growth([5.0, 7.0, 7.0, 1.0, 4.0]).to_string(), "6", "2, then 1 and 3 of the second process");
        assert_eq!(growth([3.0]).to_string(), "0");
    }

    #[test]
    fn a_slope_is_that_of_the_line() {
        assert_eq!(slope(&[(0.0, 10.0), (1.0, 12.0), (2.0, 14.0)]), Some(2.0));
        // By hand, around the means 1.5 and 2: products of 1.5, 0.5, 0.5 and 1.5, over squares of 5.
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 1.0), (2.0, 3.0), (3.0, 3.0)]), Some(0.8));
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 9.0)]), None);
        assert_eq!(slope(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}
