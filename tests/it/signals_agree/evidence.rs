//! What a process left behind of its sessions, read as a stranger would: JSON, SQL, text. Shares
//! no code with what wrote it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{collections::BTreeMap, path::Path};

use opentelemetry_proto::tonic::{common::v1::any_value, trace::v1::Span};
use serde_json::Value;

use crate::collector::Collector;

/// Series and their values, as `/metrics` spells them.
pub type Counts = BTreeMap<String, u64>;

pub struct Evidence {
    pub lines: Vec<Value>,
    pub journal: Vec<Row>,
    pub metrics: String,
    pub spans: Vec<Seen>,
}

/// A fact in the store.
#[derive(Debug)]
pub struct Row {
    pub stream: String,
    pub seq: u64,
    pub at: u64,
    pub name: String,
    pub body: Value,
}

/// A span that the collector took.
pub struct Seen {
    /// Whether it is one of the program's own and not one that a tool opened.
    pub own: bool,
    pub span: Span,
}

pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

pub fn journal(path: &Path) -> Vec<Row> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = rusqlite::Connection::open_with_flags(path, flags).unwrap();
    let mut rows = conn.prepare("SELECT stream, seq, at, name, body FROM fact ORDER BY stream, seq").unwrap();
    let read = rows.query_map([], |row| {
        let (name, body): (String, String) = (row.get(3)?, row.get(4)?);
        let body: Value = serde_json::from_str(&body).unwrap();
        let body = body[name.as_str()].clone();
        let number = |column| Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(column)?).unwrap());
        Ok(Row { stream: row.get(0)?, seq: number(1)?, at: number(2)?, name, body })
    });
    read.unwrap().map(Result::unwrap).collect()
}

pub fn spans(collector: &Collector) -> Vec<Seen> {
    let resources = collector.resources();
    let scopes = resources.into_iter().flat_map(|resource| resource.scope_spans);
    let seen = scopes.flat_map(|scope| {
        // What a tool opens comes through the bridge, under the same name but with what it calls itself.
        let name = scope.scope.map(|scope| scope.name).unwrap_or_default();
        scope.spans.into_iter().map(move |span| Seen { own: is_own(&name, &span), span })
    });
    seen.collect()
}

fn is_own(scope: &str, span: &Span) -> bool {
    scope == "glassbox" && span.attributes.iter().any(|attribute| attribute.key == "gen_ai.operation.name")
}

impl Seen {
    pub fn id(&self) -> String {
        hex(&self.span.span_id)
    }

    pub fn parent(&self) -> String {
        hex(&self.span.parent_span_id)
    }

    pub fn trace(&self) -> String {
        hex(&self.span.trace_id)
    }

    /// The text, number or truth of an attribute.
    pub fn attribute(&self, key: &str) -> Option<Value> {
        let found = self.span.attributes.iter().find(|attribute| attribute.key == key)?;
        match found.value.as_ref()?.value.as_ref()? {
            any_value::Value::StringValue(text) => Some(text.as_str().into()),
            any_value::Value::IntValue(number) => Some((*number).into()),
            any_value::Value::DoubleValue(number) => Some((*number).into()),
            any_value::Value::BoolValue(truth) => Some((*truth).into()),
            other => panic!("{key} is {other:?}"),
        }
    }

    /// Failed, as the status says.
    pub fn failed(&self) -> bool {
        self.span.status.as_ref().is_some_and(|status| status.code == 2)
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A series as `/metrics` spells it: labels in the order of the alphabet.
pub fn series(name: &str, labels: &[(&str, &str)]) -> String {
    let mut labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
    labels.sort();
    format!("{name}{{{}}}", labels.join(","))
}

/// Adds to a series.
pub fn add(counts: &mut Counts, name: &str, labels: &[(&str, &str)], count: u64) {
    if count > 0 {
        *counts.entry(series(name, labels)).or_default() += count;
    }
}

/// What `/metrics` says of these families, series that are not zero.
pub fn scraped(text: &str, families: &[&str]) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (key, value) = line.rsplit_once(' ').unwrap();
        let name = key.split('{').next().unwrap();
        let value: f64 = value.parse().unwrap();
        if families.contains(&name) && value != 0.0 {
            assert!(value.fract() == 0.0 && value > 0.0, "{line}");
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
            counts.insert(key.to_owned(), value as u64);
        }
    }
    counts
}

pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is no text in {value}"))
}

pub fn number(value: &Value, key: &str) -> u64 {
    match &value[key] {
        Value::Null => 0,
        found => found.as_u64().unwrap_or_else(|| panic!("{key} is no number in {value}")),
    }
}
