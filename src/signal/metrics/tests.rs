//! Facts by hand, numbers by hand.

mod catalogue;
mod health;
mod sessions;

use std::sync::Arc;

use super::{MetricLabels, Metrics};
use crate::core::{Entry, circuit::CircuitId};

fn metrics() -> Metrics {
    Metrics::new(&MetricLabels {
        agents: vec![("bank".into(), vec!["spending".into(), "cards".into()])],
        models: vec![("main".into(), "anthropic".into(), "claude-x".into())],
        tools: vec!["search".into(), "pay".into()],
        mcp_servers: vec!["files".into()],
        fallbacks: vec![("main".into(), "backup".into())],
        circuits: vec![CircuitId::tool("search"), CircuitId::model("main")],
        sinks: vec!["lines", "feed"],
        version: "1.2.3".into(),
    })
    .expect("a right catalogue")
}

fn publish(metrics: &Metrics, entries: &[Entry]) {
    let entries: Vec<Arc<Entry>> = entries.iter().cloned().map(Arc::new).collect();
    metrics.sink().publish(&entries);
}

/// The value of a series as it stands in the text format.
fn value(metrics: &Metrics, series: &str) -> Option<f64> {
    let text = metrics.render();
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
        .map(|value| value.parse().expect("a number"))
}

#[track_caller]
fn check(metrics: &Metrics, expected: &[(&str, f64)]) {
    for (series, number) in expected {
        assert_eq!(value(metrics, series), Some(*number), "{series}");
    }
}
