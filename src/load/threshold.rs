//! When a run counts as failed: `success<0.99`, `p99>2s`, `lost>0`.

use std::{fmt, str::FromStr};

use serde::Serialize;

use super::report::Stage;
use crate::config::parse_duration;

/// A number of a stage that can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// 0 to 1.
    Share,
    /// Milliseconds.
    Time,
    /// A number.
    Count,
}

/// The names, what their values are, and where they stand in the report.
type Metric = (&'static str, Unit, fn(&Stage) -> Option<f64>);

const METRICS: [Metric; 17] = [
    ("success", Unit::Share, |stage| stage.success_rate),
    ("p50", Unit::Time, |stage| Some(stage.end_to_end.p50_ms)),
    ("p90", Unit::Time, |stage| Some(stage.end_to_end.p90_ms)),
    ("p95", Unit::Time, |stage| Some(stage.end_to_end.p95_ms)),
    ("p99", Unit::Time, |stage| Some(stage.end_to_end.p99_ms)),
    ("p99.9", Unit::Time, |stage| Some(stage.end_to_end.p99_9_ms)),
    ("max", Unit::Time, |stage| Some(stage.end_to_end.max_ms)),
    ("accepted.p50", Unit::Time, |stage| Some(stage.accepted.p50_ms)),
    ("accepted.p99", Unit::Time, |stage| Some(stage.accepted.p99_ms)),
    ("accepted.max", Unit::Time, |stage| Some(stage.accepted.max_ms)),
    ("refused", Unit::Count, |stage| Some(count(stage.refused.values().sum()))),
    ("failed", Unit::Count, |stage| Some(count(stage.failed.values().sum()))),
    ("late", Unit::Count, |stage| Some(count(stage.late.count))),
    ("lost", Unit::Count, |stage| Some(count(stage.lost.len() as u64))),
    ("dropped", Unit::Count, |stage| stage.telemetry.dropped),
    ("missing_spans", Unit::Count, |stage| stage.telemetry.spans_missing().map(count)),
    ("growth", Unit::Count, |stage| stage.server.as_ref().and_then(|server| server.growth_kib_per_minute)),
];

/// A condition under which a run has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    metric: usize,
    above: bool,
    /// Whether the limit itself is beyond.
    inclusive: bool,
    limit: f64,
}

/// A condition that was met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beyond {
    /// The condition as it was written.
    pub threshold: String,
    /// The stage.
    pub stage: String,
    /// The number of the stage; milliseconds where it is a time. Nothing where it was not measured,
    /// which is no pass.
    pub value: Option<f64>,
}

impl Threshold {
    /// Whether a stage is beyond it.
    pub fn judge(&self, stage: &Stage) -> Option<Beyond> {
        let value = METRICS[self.metric].2(stage);
        let beyond = value.is_none_or(|value| match (self.above, self.inclusive) {
            (true, false) => value > self.limit,
            (true, true) => value >= self.limit,
            (false, false) => value < self.limit,
            (false, true) => value <= self.limit,
        });
        beyond.then(|| Beyond { threshold: self.text.clone(), stage: stage.name.clone(), value })
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "must be a number of the report, < or >, and a limit, such as success<0.99, p99>2s or lost>0";
        let place = text.find(['<', '>']).ok_or_else(|| form.to_owned())?;
        let (name, rest) = (text[..place].trim(), &text[place + 1..]);
        let (inclusive, limit) = rest.strip_prefix('=').map_or((false, rest), |limit| (true, limit));
        let metric = METRICS.iter().position(|(known, ..)| *known == name).ok_or_else(|| {
            let names = METRICS.map(|(name, ..)| name).join(", ");
            format!("{name:?} is no number of the report; those that can be judged are {names}")
        })?;
        let limit = read(METRICS[metric].1, limit.trim())?;
        let above = text.as_bytes()[place] == b'>';
        Ok(Self { text: text.to_owned(), metric, above, inclusive, limit })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn read(unit: Unit, limit: &str) -> Result<f64, String> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    match unit {
        Unit::Time => parse_duration(limit)
            .map(|limit| limit.as_secs_f64() * 1000.0)
            .map_err(|wrong| format!("the limit {limit:?} {wrong}")),
        Unit::Share => {
            let percent = limit.strip_suffix('%').map(|percent| number(percent.trim()).map(|share| share / 100.0));
            let share = percent.unwrap_or_else(|| number(limit)).filter(|share| *share <= 1.0);
            share.ok_or_else(|| {
                format!("the limit {limit:?} must be a share from 0 to 1, or percent, such as 0.99 or 99%")
            })
        }
        Unit::Count => {
            number(limit).ok_or_else(|| format!("the limit {limit:?} must be a number from 0 on, such as 0 or 10"))
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
const fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threshold(text: &str) -> Threshold {
        text.parse().unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
    }

    fn limit(text: &str) -> (bool, bool, String) {
        let threshold = threshold(text);
        (threshold.above, threshold.inclusive, threshold.limit.to_string())
    }

    #[test]
    fn thresholds_are_read() {
        assert_eq!(limit("success<0.99"), (false, false, "0.99".into()));
        assert_eq!(limit("success <= 99%"), (false, true, "0.99".into()));
        assert_eq!(limit("p99>2s"), (true, false, "2000".into()));
        assert_eq!(limit("accepted.p99 >= 250ms"), (true, true, "250".into()));
        assert_eq!(limit("lost>0"), (true, false, "0".into()));
    }

    #[test]
    fn a_mistake_says_what_would_be_right() {
        let wrong = |text: &str| text.parse::<Threshold>().expect_err(text);
        assert!(wrong("p99").contains("such as success<0.99"));
        assert!(
            wrong("p98>2s").contains("\"p98\" is no number of the report; those that can be judged are success, p50")
        );
        assert!(wrong("p99>2").contains("name the unit, 2s or 2ms"));
        assert!(wrong("success<99").contains("a share from 0 to 1, or percent"));
        assert!(wrong("lost>few").contains("must be a number from 0 on"));
        assert!(wrong("lost=0").contains("< or >"));
    }

    #[test]
    fn a_stage_is_judged_by_its_numbers() {
        let mut stage = Stage { name: "10x".into(), success_rate: Some(0.98), ..Stage::default() };
        stage.end_to_end.p99_ms = 2000.0;
        let met = |text: &str| threshold(text).judge(&stage).is_some();
        assert!(met("success<0.99") && !met("success<0.98") && met("success<=0.98"));
        assert!(!met("p99>2s") && met("p99>=2s") && met("p99>1999ms"));
        assert!(!met("lost>0"));
        let beyond = threshold("growth>100").judge(&stage).expect("what was not measured is no pass");
        assert_eq!((beyond.stage.as_str(), beyond.value), ("10x", None));
    }
}
