//! Writes gathered families as text: in the format of Prometheus, or as OpenMetrics 1.0, which
//! has room for exemplars.
//!
//! One writer for both, so that they differ only where the formats do; bounds of buckets above
//! all are spelled alike, or a scraper that changes its mind would begin new series.

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

use super::{
    catalogue::FAMILIES,
    exemplars::{Exemplar, Timings},
};
use crate::core::Timestamp;

/// How the metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

struct Page<'a> {
    format: Format,
    timings: &'a [&'a Timings],
    text: String,
}

impl Format {
    /// The media type of the page.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The whole page, with the exemplars that these families have.
pub(super) fn write(format: Format, families: &[MetricFamily], timings: &[&Timings]) -> String {
    let mut page = Page { format, timings, text: String::new() };
    families.iter().for_each(|family| page.family(family));
    if format == Format::OpenMetrics {
        page.text.push_str("# EOF\n");
    }
    page.text
}

impl Page<'_> {
    fn family(&mut self, family: &MetricFamily) {
        let (name, sort) = (family.name(), family.get_field_type());
        // In OpenMetrics the ending belongs to the sample.
        let named = match (self.format, sort) {
            (Format::OpenMetrics, MetricType::COUNTER) => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        let help = self.escaped(family.help());
        self.line(&format!("# HELP {named} {help}"));
        self.line(&format!("# TYPE {named} {}", format!("{sort:?}").to_lowercase()));
        if let (Format::OpenMetrics, Some(unit)) = (self.format, unit(name, named)) {
            self.line(&format!("# UNIT {named} {unit}"));
        }
        let timings = self.timings.iter().copied().find(|timings| timings.name() == name);
        for series in family.get_metric() {
            match sort {
                MetricType::COUNTER => self.sample(name, series, None, series.get_counter().get_value(), None),
                MetricType::HISTOGRAM => self.histogram(name, series, timings),
                // There is nothing else in the catalogue.
                _ => self.sample(name, series, None, series.get_gauge().get_value(), None),
            }
        }
    }

    fn histogram(&mut self, name: &str, series: &Metric, timings: Option<&Timings>) {
        let (histogram, bucket) = (series.get_histogram(), format!("{name}_bucket"));
        let exemplars = timings.map_or_else(Vec::new, |timings| timings.exemplars(series));
        let exemplar = |place: usize| exemplars.get(place).and_then(Option::as_ref);
        let buckets = histogram.get_bucket();
        for (place, one) in buckets.iter().enumerate() {
            self.sample(&bucket, series, Some(one.upper_bound()), count(one.cumulative_count()), exemplar(place));
        }
        let all = count(histogram.get_sample_count());
        self.sample(&bucket, series, Some(f64::INFINITY), all, exemplar(buckets.len()));
        self.sample(&format!("{name}_sum"), series, None, histogram.get_sample_sum(), None);
        self.sample(&format!("{name}_count"), series, None, all, None);
    }

    fn sample(&mut self, name: &str, series: &Metric, le: Option<f64>, value: f64, exemplar: Option<&Exemplar>) {
        let pair = |pair: &LabelPair| format!("{}=\"{}\"", pair.name(), escaped_value(pair.value()));
        let mut labels: Vec<_> = series.get_label().iter().map(pair).collect();
        labels.extend(le.map(|le| format!("le=\"{}\"", bound(le))));
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let exemplar = exemplar.filter(|_| self.format == Format::OpenMetrics).map_or_else(String::new, written);
        self.line(&format!("{name}{labels} {}{exemplar}", number(value)));
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn escaped(&self, help: &str) -> String {
        match self.format {
            Format::Prometheus => help.replace('\\', "\\\\").replace('\n', "\\n"),
            Format::OpenMetrics => escaped_value(help),
        }
    }
}

/// The unit of a family, where its name ends with it, as OpenMetrics demands.
fn unit(name: &str, named: &str) -> Option<&'static str> {
    let unit = FAMILIES.iter().find(|family| family.name == name)?.unit;
    named.strip_suffix(unit)?.ends_with('_').then_some(unit)
}

fn escaped_value(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        (if value > 0.0 { "+Inf" } else { "-Inf" }).to_owned()
    } else {
        value.to_string()
    }
}

/// A bound in the canonical form of OpenMetrics: as Go prints it, and seen to be a float.
fn bound(value: f64) -> String {
    if value.is_finite() && value != 0.0 && !(1e-4..1e6).contains(&value.abs()) {
        let scientific = format!("{value:e}");
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    let plain = number(value);
    if value.is_finite() && !plain.contains('.') { plain + ".0" } else { plain }
}

fn written(exemplar: &Exemplar) -> String {
    let Exemplar { trace, span, value, at } = exemplar;
    format!(" # {{trace_id=\"{trace}\",span_id=\"{span}\"}} {} {}", number(*value), seconds(*at))
}

/// Seconds since the epoch, to the millisecond.
fn seconds(at: Timestamp) -> String {
    let millis = at.as_nanos() / 1_000_000;
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

#[expect(clippy::cast_precision_loss, reason = "the text formats know floats only")]
const fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_spelled_as_the_standard_asks() {
        let spelled = [
            (1.0, "1.0"),
            (0.005, "0.005"),
            (0.0005, "0.0005"),
            (0.00001, "1e-05"),
            (262_144.0, "262144.0"),
            (1_048_576.0, "1.048576e+06"),
            (67_108_864.0, "6.7108864e+07"),
            (10.24, "10.24"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, text) in spelled {
            assert_eq!(bound(value), text);
        }
    }

    #[test]
    fn times_keep_their_milliseconds() {
        assert_eq!(seconds(Timestamp::from_nanos(1_771_410_225_007_999_999)), "1771410225.007");
    }

    #[test]
    fn a_unit_is_told_where_the_name_ends_with_it() {
        assert_eq!(unit("glassbox_tool_duration_seconds", "glassbox_tool_duration_seconds"), Some("seconds"));
        assert_eq!(unit("process_cpu_seconds_total", "process_cpu_seconds"), Some("seconds"));
        assert_eq!(unit("gen_ai_client_token_usage", "gen_ai_client_token_usage"), None);
        assert_eq!(unit("glassbox_sessions_active", "glassbox_sessions_active"), None);
    }
}
