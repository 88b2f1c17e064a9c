//! The report as one page that needs nothing else: no script, no font, no picture from elsewhere.

use askama::Template;

use super::{
    Report, Stage,
    chart::{Axes, Curve, svg},
    rows::{Row, time},
};

#[derive(Template)]
#[template(path = "load.html")]
struct Page<'a> {
    report: &'a Report,
    head: &'a Row,
    rows: &'a [Row],
    /// Name, sentence and picture.
    charts: Vec<(&'static str, &'static str, String)>,
}

/// The page.
///
/// # Errors
/// None in practice: writing into a text does not fail.
pub fn html(report: &Report) -> Result<String, askama::Error> {
    let rows = report.rows();
    let (head, rows) = rows.split_first().expect("the first row holds the names of the stages");
    let latency = |of: fn(&Stage) -> &super::Latency, title| {
        let curve = |stage: &Stage| Curve {
            name: stage.name.clone(),
            points: of(stage).curve.iter().map(|(percentile, ms)| (nines(*percentile), *ms)).collect(),
        };
        svg(&percentiles(title), &report.stages.iter().map(curve).collect::<Vec<_>>())
    };
    let sentence = "Milliseconds or seconds by percentile; each step to the right is ten times as rare.";
    let charts = vec![
        ("End to end", sentence, latency(|stage| &stage.end_to_end, "End to end latency by percentile")),
        ("Accepted", sentence, latency(|stage| &stage.accepted, "Latency until accepted by percentile")),
        ("Memory", "Resident memory of the service over the stage.", memory(report)),
    ];
    Page { report, head, rows, charts }.render()
}

/// Where a percentile stands: 0 for p0, 1 for p90, 2 for p99.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).max(1e-6).log10()
}

fn percentiles(title: &'static str) -> Axes {
    let across = [("0", 0.0), ("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];
    let across = across.map(|(words, percentile)| (nines(percentile), words.to_owned())).into();
    Axes { title, across, write: time }
}

fn memory(report: &Report) -> String {
    let curves: Vec<_> = report
        .stages
        .iter()
        .filter_map(|stage| {
            Some(Curve { name: stage.name.clone(), points: stage.server.as_ref()?.resident_curve.clone() })
        })
        .collect();
    let longest = curves.iter().flat_map(|curve| &curve.points).map(|(at, _)| *at).fold(0.0, f64::max);
    let across = (0..=4).map(|quarter| longest * f64::from(quarter) / 4.0).map(|at| (at, format!("{at:.0} s")));
    let axes =
        Axes { title: "Resident memory over time", across: across.collect(), write: |mib| format!("{mib:.0} MiB") };
    svg(&axes, &curves)
}
