//! What stands in rule files and dashboards, and as much of PromQL as tests need to know: which
//! metrics an expression names with which labels, and how to make its windows shorter.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use glassbox::signal::metrics::catalogue::{FAMILIES, Kind};
use regex::{Captures, Regex};
use serde_json::Value;

/// Metrics that rules and dashboards already ask for, with what will bring them.
pub const COMING: &[(&str, &[&str], &str)] = &[("glassbox_cost_usd_total", &["model"], "prices of models")];

/// What Prometheus itself makes.
const OF_PROMETHEUS: &[(&str, &[&str])] = &[("up", &[]), ("ALERTS", &["alertname", "alertstate"])];

/// Labels that every scraped series has.
const OF_THE_SCRAPE: &[&str] = &["job", "instance"];

/// One rule of a file.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The name of the alert, or of the series that it records.
    pub name: String,
    pub is_alert: bool,
    pub expr: String,
    pub body: Value,
}

/// One query of a dashboard.
#[derive(Clone, Debug)]
pub struct Query {
    /// Dashboard and panel.
    pub place: String,
    pub expr: String,
}

/// A metric as an expression names it: `up{job="glassbox"}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    pub name: String,
    /// What stands between the braces.
    pub matchers: String,
}

pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A file of the repository as data, YAML or JSON.
pub fn data(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Files of a folder with this ending, in order.
pub fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path(folder))
        .unwrap()
        .map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy()))
        .filter(|name| name.ends_with(ending))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "{folder} has no {ending}");
    names
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The rules of `deploy/prometheus`, recording rules first.
pub fn rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    for file in ["deploy/prometheus/recording.yml", "deploy/prometheus/alerts.yml"] {
        for body in list(&data(file)["groups"]).iter().flat_map(|group| list(&group["rules"])) {
            let name = body["record"].as_str().or(body["alert"].as_str()).unwrap();
            let expr = body["expr"].as_str().unwrap();
            let is_alert = body["alert"].is_string();
            rules.push(Rule { name: name.into(), is_alert, expr: expr.into(), body: body.clone() });
        }
    }
    rules
}

/// The dashboards, by file name.
pub fn dashboards() -> BTreeMap<String, Value> {
    files("dashboards", ".json").into_iter().map(|name| (name.clone(), data(&name))).collect()
}

/// Every query that dashboards send to Prometheus, annotations apart.
pub fn queries() -> Vec<Query> {
    let mut queries = Vec::new();
    for (file, dashboard) in dashboards() {
        for panel in list(&dashboard["panels"]) {
            for expr in list(&panel["targets"]).iter().filter_map(|target| target["expr"].as_str()) {
                let place = format!("{file}: {}", panel["title"].as_str().unwrap());
                queries.push(Query { place, expr: expr.into() });
            }
        }
    }
    queries
}

/// Compares a file with what it is made from. Where they differ, the right text is left under
/// `target/printed` to be copied.
#[track_caller]
pub fn check_printed(name: &str, printed: &str) {
    if text(name) != printed {
        let right = path("target/printed").join(name);
        fs::create_dir_all(right.parent().unwrap()).unwrap();
        fs::write(&right, printed).unwrap();
        panic!("{name} differs from what it is made from: run `cp target/printed/{name} {name}`");
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

/// The metrics that an expression names, each with its matchers.
pub fn selectors(expr: &str) -> BTreeSet<Selector> {
    static GROUPING: LazyLock<Regex> =
        LazyLock::new(|| regex(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"));
    static RANGE: LazyLock<Regex> = LazyLock::new(|| regex(r"\[[^\]]*\]"));
    static NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"([A-Za-z_:][\w:]*)\s*(\(|\{[^}]*\})?"));
    const WORDS: &[&str] = &["and", "or", "unless", "offset", "bool"];
    let expr = RANGE.replace_all(expr, "");
    let expr = GROUPING.replace_all(&expr, "");
    NAME.captures_iter(&expr)
        .filter(|found| !follows_a_digit(&expr, found) && found.get(2).is_none_or(|after| after.as_str() != "("))
        .filter(|found| !WORDS.contains(&&found[1]))
        .map(|found| Selector {
            name: found[1].to_owned(),
            matchers: found.get(2).map_or("", |braces| braces.as_str().trim_matches(['{', '}'])).to_owned(),
        })
        .collect()
}

/// `1d` is a duration and no metric.
fn follows_a_digit(expr: &str, found: &Captures<'_>) -> bool {
    expr[..found.get(0).unwrap().start()].ends_with(|before: char| before.is_ascii_digit() || before == '.')
}

impl Selector {
    /// The labels that it asks for.
    pub fn labels(&self) -> Vec<String> {
        static LABEL: LazyLock<Regex> = LazyLock::new(|| regex(r#"(\w+)\s*(=~|!~|!=|=)\s*""#));
        LABEL.captures_iter(&self.matchers).map(|found| found[1].to_owned()).collect()
    }

    /// The same once for each of the values that a matcher lists, so that each must be there.
    pub fn each_value(&self) -> Vec<String> {
        static CHOICE: LazyLock<Regex> = LazyLock::new(|| regex(r#"(\w+)(?:=~|!~)"([\w|]+)""#));
        let Some(found) = CHOICE.captures(&self.matchers) else {
            let matchers = self.matchers.replace("!=", "=");
            return vec![format!("{}{{{matchers}}}", self.name)];
        };
        let with = |value: &str| self.matchers.replace(&found[0], &format!("{}=\"{value}\"", &found[1]));
        found[2].split('|').map(|value| format!("{}{{{}}}", self.name, with(value))).collect()
    }

    /// What is wrong with it: a metric that nothing makes, or a label that it has not.
    pub fn problem(&self) -> Option<String> {
        let Some(known) = labels_of(&self.name) else { return Some(format!("no metric is called {}", self.name)) };
        let unknown = self.labels().into_iter().find(|label| !known.contains(label));
        unknown.map(|label| format!("{} has no label {label}", self.name))
    }
}

/// The labels of a metric; nothing where it does not exist.
fn labels_of(name: &str) -> Option<Vec<String>> {
    let owned = |labels: &[&str]| labels.iter().chain(OF_THE_SCRAPE).map(|label| (*label).to_owned()).collect();
    if let Some(family) = FAMILIES.iter().find(|family| family.name == name) {
        return (!matches!(family.kind, Kind::Histogram(_))).then(|| owned(family.labels));
    }
    for (ending, more) in [("_bucket", &["le"][..]), ("_sum", &[]), ("_count", &[])] {
        let base = name.strip_suffix(ending);
        let family = FAMILIES.iter().find(|family| Some(family.name) == base);
        if let Some(family) = family.filter(|family| matches!(family.kind, Kind::Histogram(_))) {
            return Some(owned(&[family.labels, more].concat()));
        }
    }
    if let Some((_, labels, _)) = COMING.iter().find(|(coming, ..)| *coming == name) {
        return Some(owned(labels));
    }
    if let Some((_, labels)) = OF_PROMETHEUS.iter().find(|(own, _)| *own == name) {
        return Some(owned(labels));
    }
    // A recorded series has the labels that its level names: `tool:...` has `tool`.
    let recorded = rules().iter().any(|rule| !rule.is_alert && rule.name == name);
    recorded.then(|| vec![name.split(':').next().unwrap().to_owned()])
}

/// Whether an expression asks for what is not there yet.
pub fn is_coming(expr: &str) -> bool {
    let made = |name: &str| FAMILIES.iter().any(|family| family.name == name);
    selectors(expr).iter().any(|selector| COMING.iter().any(|(name, ..)| *name == selector.name && !made(name)))
}

/// Every duration of a text so many times shorter.
pub fn shorten(text: &str, times: u64) -> String {
    static DURATION: LazyLock<Regex> = LazyLock::new(|| regex(r"\b(\d+)(s|m|h|d)\b"));
    let shorter = |found: &Captures<'_>| {
        let seconds = match &found[2] {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => 86_400,
        };
        format!("{}ms", found[1].parse::<u64>().unwrap() * seconds * 1000 / times)
    };
    DURATION.replace_all(text, shorter).into_owned()
}

#[test]
fn names_labels_and_durations_are_found_in_expressions() {
    let named = |expr: &str| {
        let found = selectors(expr).into_iter().map(|selector| format!("{}|{}", selector.name, selector.matchers));
        found.collect::<Vec<_>>()
    };
    assert_eq!(named("sum by (tool) (rate(a_total[5m])) / (b:c:d offset 1d > 0)"), ["a_total|", "b:c:d|"]);
    assert_eq!(named(r#"up{job="x"} == 0 or absent(up{job="x"})"#), [r#"up|job="x""#]);
    assert_eq!(named("2 * max without (le) (x) and on (a, b) y * 1e3"), ["x|", "y|"]);
    let selector = |name: &str, matchers: &str| Selector { name: name.into(), matchers: matchers.into() };
    let chosen = selector("a", r#"b="c", status!~"done|cancelled""#);
    assert_eq!(chosen.each_value(), [r#"a{b="c", status="done"}"#, r#"a{b="c", status="cancelled"}"#]);
    assert_eq!(selector("a", r#"x!="y""#).each_value(), [r#"a{x="y"}"#]);
    for (name, matchers, word) in [
        ("glassbox_tool_calls_total", r#"tool="x", job="y""#, None),
        ("glassbox_tool_calls_total", r#"status="ok""#, Some("status")),
        ("glassbox_tool_calls", "", Some("no metric")),
        ("glassbox_session_steps_bucket", r#"le="1""#, None),
        ("glassbox_session_steps", "", Some("no metric")),
        ("tool:glassbox_tool_calls:error_ratio_5m", r#"tool="x""#, None),
        ("tool:glassbox_tool_calls:error_ratio_9m", "", Some("no metric")),
    ] {
        let problem = selector(name, matchers).problem();
        assert_eq!(problem.is_some(), word.is_some(), "{name}{{{matchers}}}: {problem:?}");
        assert!(problem.unwrap_or_default().contains(word.unwrap_or_default()));
    }
    assert_eq!(shorten("x[5m] offset 1d, for: 90s", 60), "x[5000ms] offset 1440000ms, for: 1500ms");
}
