//! The report as a table: a row a number, a column a stage, and what ten times the load does to it.

use super::{Latency, Report, Stage};

/// A number of all stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is.
    pub label: String,
    /// One a stage.
    pub cells: Vec<String>,
    /// The last stage by the first, where there are two and that says something.
    pub ratio: String,
}

/// How a number is written.
type Write = fn(f64) -> String;

/// One of the times of a latency.
type Percentile = fn(&Latency) -> f64;

impl Report {
    /// The lines for a terminal.
    pub fn text(&self) -> String {
        let rows = self.rows();
        let mut columns = vec![rows.iter().map(|row| row.label.chars().count()).max().unwrap_or_default()];
        for index in 0..self.stages.len() {
            columns.push(rows.iter().map(|row| row.cells[index].chars().count()).max().unwrap_or_default());
        }
        let mut text = format!("glassbox load, {}, seed {}\n", self.whose(), self.seed);
        for row in &rows {
            let mut line = format!("{:width$}", row.label, width = columns[0]);
            for (cell, width) in row.cells.iter().zip(&columns[1..]) {
                line += &format!("  {cell:>width$}");
            }
            text += format!("{line}  {}", row.ratio).trim_end();
            text.push('\n');
        }
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        for beyond in &self.beyond {
            let value = beyond.value.map_or_else(|| "not measured".to_owned(), number);
            text += &format!("beyond {}: {} in stage {}\n", beyond.threshold, value, beyond.stage);
        }
        text
    }

    /// Whose service it was.
    pub fn whose(&self) -> String {
        match &self.own_server {
            Some(faults) => format!("a service of its own ({faults})"),
            None => self.server.clone(),
        }
    }

    /// The table, its head first.
    pub fn rows(&self) -> Vec<Row> {
        let mut table = Table { stages: &self.stages, rows: Vec::new() };
        table.text("", |stage| stage.name.clone());
        table.text("sessions wanted", |stage| {
            stage.rate.map_or_else(|| "as many as could be".to_owned(), |rate| format!("{}/s", number(rate)))
        });
        table.text("arrivals", |stage| stage.arrivals.unwrap_or("closed loop").to_owned());
        table.text("sessions", |stage| stage.sessions.to_string());
        table.text("seconds", |stage| number(stage.seconds));
        table.number("success", |stage| stage.success_rate, |rate| format!("{:.2} %", rate * 100.0), false);
        table.each("ended ", |stage| stage.statuses.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect());
        table.each("refused, status ", |stage| {
            stage.refused.iter().map(|(key, count)| (key.to_string(), *count)).collect()
        });
        table.each("failed, ", |stage| stage.failed.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect());
        table.text("lost", |stage| stage.lost.len().to_string());
        table.text("late starts", |stage| match stage.late.count {
            0 => "0".to_owned(),
            count => format!("{count}, worst {}", time(stage.late.worst_ms)),
        });
        table.latency("accepted", |stage| &stage.accepted);
        table.latency("end to end", |stage| &stage.end_to_end);
        table.number("telemetry dropped", |stage| stage.telemetry.dropped, number, false);
        table.text("spans arrived of expected", |stage| {
            let (arrived, expected) = (stage.telemetry.spans_arrived, stage.telemetry.spans_expected);
            arrived
                .zip(expected)
                .map_or_else(|| "-".to_owned(), |(arrived, expected)| format!("{arrived} of {expected}"))
        });
        table.server();
        table.rows
    }
}

struct Table<'a> {
    stages: &'a [Stage],
    rows: Vec<Row>,
}

impl Table<'_> {
    fn text(&mut self, label: &str, of: impl Fn(&Stage) -> String) {
        let cells = self.stages.iter().map(of).collect();
        self.rows.push(Row { label: label.to_owned(), cells, ratio: String::new() });
    }

    fn number(&mut self, label: &str, of: impl Fn(&Stage) -> Option<f64>, write: Write, compared: bool) {
        let values: Vec<_> = self.stages.iter().map(of).collect();
        let ratio = match values.as_slice() {
            [Some(first), .., Some(last)] if compared && *first > 0.0 => format!("x{:.2}", last / first),
            _ => String::new(),
        };
        let cells = values.into_iter().map(|value| value.map_or_else(|| "-".to_owned(), write)).collect();
        self.rows.push(Row { label: label.to_owned(), cells, ratio });
    }

    /// A row for each key that any stage has.
    fn each(&mut self, label: &str, of: impl Fn(&Stage) -> Vec<(String, u64)>) {
        let counts: Vec<_> = self.stages.iter().map(of).collect();
        let mut keys: Vec<&String> = counts.iter().flatten().map(|(key, _)| key).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let count =
                |counts: &Vec<(String, u64)>| counts.iter().find(|(name, _)| name == key).map_or(0, |(_, n)| *n);
            let cells = counts.iter().map(|counts| count(counts).to_string()).collect();
            self.rows.push(Row { label: format!("{label}{key}"), cells, ratio: String::new() });
        }
    }

    fn latency(&mut self, label: &str, of: impl Fn(&Stage) -> &Latency) {
        let percentiles: [(&str, Percentile); 6] = [
            ("p50", |latency| latency.p50_ms),
            ("p90", |latency| latency.p90_ms),
            ("p95", |latency| latency.p95_ms),
            ("p99", |latency| latency.p99_ms),
            ("p99.9", |latency| latency.p99_9_ms),
            ("max", |latency| latency.max_ms),
        ];
        for (name, percentile) in percentiles {
            let value = |stage: &Stage| Some(of(stage)).filter(|latency| latency.count > 0).map(percentile);
            self.number(&format!("{label} {name}"), value, time, true);
        }
    }

    fn server(&mut self) {
        let of = |read: fn(&super::Server) -> Option<f64>| move |stage: &Stage| stage.server.as_ref().and_then(read);
        let mib: Write = |mib| format!("{mib:.1} MiB");
        self.number("processors used", of(|server| Some(server.cpu_share)), |share| format!("{share:.2}"), true);
        self.number("processor time a session", of(|server| server.cpu_ms_per_session), time, true);
        self.number("memory at the start", of(|server| Some(server.resident_start_mib)), mib, true);
        self.number("memory at the end", of(|server| Some(server.resident_end_mib)), mib, true);
        self.number("memory at its peak", of(|server| Some(server.resident_peak_mib)), mib, true);
        let growth: Write = |growth| format!("{growth:.0} KiB/min");
        self.number("memory growth", of(|server| server.growth_kib_per_minute), growth, false);
    }
}

/// Milliseconds, with as many digits as say something.
pub(super) fn time(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.2} s", ms / 1000.0),
    }
}

fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
