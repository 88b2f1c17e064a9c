//! Makes families in a registry, each as the catalogue describes it.

use prometheus::{
    CounterVec, Gauge, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::catalogue::{Family, Kind};

/// Makes a family of counters.
pub(super) fn counters(registry: &Registry, family: &Family) -> Result<IntCounterVec, prometheus::Error> {
    let made = IntCounterVec::new(Opts::new(family.name, family.meaning), family.labels)?;
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}

/// Makes a family of counters that count in fractions.
pub(super) fn amounts(registry: &Registry, family: &Family) -> Result<CounterVec, prometheus::Error> {
    let made = CounterVec::new(Opts::new(family.name, family.meaning), family.labels)?;
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}

/// Makes a family of histograms.
pub(super) fn histograms(registry: &Registry, family: &Family) -> Result<HistogramVec, prometheus::Error> {
    let made = HistogramVec::new(histogram_opts(family), family.labels)?;
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}

/// Makes a family of gauges.
pub(super) fn gauges(registry: &Registry, family: &Family) -> Result<IntGaugeVec, prometheus::Error> {
    let made = IntGaugeVec::new(Opts::new(family.name, family.meaning), family.labels)?;
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}

/// Makes a gauge without labels.
pub(super) fn gauge(registry: &Registry, family: &Family) -> Result<IntGauge, prometheus::Error> {
    let made = IntGauge::new(family.name, family.meaning)?;
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}

/// Makes a gauge without labels that holds fractions.
pub(super) fn number(registry: &Registry, family: &Family) -> Result<Gauge, prometheus::Error> {
    let made = Gauge::new(family.name, family.meaning)?;
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}

/// The bounds of the catalogue.
fn histogram_opts(family: &Family) -> HistogramOpts {
    let opts = HistogramOpts::new(family.name, family.meaning);
    match family.kind {
        Kind::Histogram(bounds) => opts.buckets(bounds.to_vec()),
        Kind::Counter | Kind::Gauge => opts,
    }
}
