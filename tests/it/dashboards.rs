//! The dashboards: each can be imported, explains itself, and asks for what exists.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

use crate::promql::{dashboards, list, queries, selectors, text};

/// The columns of Grafana's grid.
const COLUMNS: u64 = 24;

/// Variables that Grafana sets.
const BUILT_IN: &[&str] = &["__rate_interval", "__all"];

/// Panels that show numbers: all but the headings of rows.
fn panels(dashboard: &Value) -> Vec<&Value> {
    list(&dashboard["panels"]).iter().filter(|panel| panel["type"] != "row").collect()
}

fn title(value: &Value) -> &str {
    value["title"].as_str().unwrap()
}

#[test]
fn the_four_dashboards_can_be_imported_and_lead_to_each_other() {
    let (mut uids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    for (file, dashboard) in dashboards() {
        assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39, "{file}");
        assert!(uids.insert(dashboard["uid"].as_str().unwrap().to_owned()), "{file} has the uid of another");
        assert!(titles.insert(title(&dashboard).to_owned()), "{file} has the title of another");
        assert!(dashboard["uid"].as_str().unwrap().len() <= 40, "{file}: a uid has 40 characters at most");
        assert!(dashboard.get("id").is_none_or(Value::is_null), "{file}: an id belongs to one Grafana");
        assert!(!dashboard["description"].as_str().unwrap().is_empty(), "{file}");
        assert!(list(&dashboard["tags"]).contains(&"glassbox".into()), "{file}: the menu finds dashboards by this tag");
        let links: Vec<_> = list(&dashboard["links"]).iter().map(|link| link["type"].as_str().unwrap()).collect();
        assert_eq!(links, ["dashboards", "link"], "{file}");
        let trace = &list(&dashboard["links"])[1]["url"];
        assert_eq!(trace, "${jaeger_url}/trace/${trace}", "{file}");
    }
    let wanted = ["glassbox / Models", "glassbox / Overview", "glassbox / Runtime", "glassbox / Tools and circuits"];
    assert_eq!(titles.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
}

#[test]
fn panels_have_their_own_ids_and_places() {
    for (file, dashboard) in dashboards() {
        let mut ids = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for panel in list(&dashboard["panels"]) {
            let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{file}: {} has the id of another", title(panel));
            let (x, y, w, h) = (place("x"), place("y"), place("w"), place("h"));
            assert!(w > 0 && h > 0 && x + w <= COLUMNS, "{file}: {} leaves the grid", title(panel));
            for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(taken.insert(cell), "{file}: {} covers another panel at {cell:?}", title(panel));
            }
        }
        let titles: BTreeSet<_> = panels(&dashboard).into_iter().map(title).collect();
        assert_eq!(titles.len(), panels(&dashboard).len(), "{file}: two panels have one title");
    }
}

#[test]
fn panels_say_what_they_show_in_which_unit_and_what_is_good() {
    let known = ["timeseries", "stat", "table", "state-timeline"];
    for (file, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            let place = format!("{file}: {}", title(panel));
            assert!(known.contains(&panel["type"].as_str().unwrap()), "{place}: {}", panel["type"]);
            let description = panel["description"].as_str().unwrap_or_default();
            assert!(description.len() > 20 && description.ends_with('.'), "{place} does not explain itself");
            let defaults = &panel["fieldConfig"]["defaults"];
            assert!(!defaults["unit"].as_str().unwrap_or_default().is_empty(), "{place} has no unit");
            let steps = list(&defaults["thresholds"]["steps"]);
            assert!(steps.first().is_some_and(|step| step["value"].is_null()), "{place} has no first threshold");
            let values: Vec<f64> = steps.iter().filter_map(|step| step["value"].as_f64()).collect();
            assert!(values.is_sorted() && values.len() + 1 == steps.len(), "{place}: thresholds out of order");
        }
    }
}

#[test]
fn every_query_goes_to_a_data_source_that_can_be_chosen() {
    for (file, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            let place = format!("{file}: {}", title(panel));
            let targets = list(&panel["targets"]);
            assert!(!targets.is_empty(), "{place} asks for nothing");
            let mut names = BTreeSet::new();
            for target in targets {
                assert!(names.insert(target["refId"].as_str().unwrap()), "{place}: two queries of one name");
                assert_eq!(target["datasource"], panel["datasource"], "{place}");
                match target["datasource"]["type"].as_str().unwrap() {
                    "prometheus" => {
                        assert_eq!(target["datasource"]["uid"], "${datasource}", "{place}");
                        assert!(!target["legendFormat"].as_str().unwrap().is_empty(), "{place} names no line");
                    }
                    "jaeger" => assert_eq!(target["datasource"]["uid"], "${traces}", "{place}"),
                    other => panic!("{place}: {other}"),
                }
            }
        }
        for variable in list(&dashboard["templating"]["list"]).iter().filter(|variable| variable["type"] == "query") {
            assert_eq!(variable["datasource"]["uid"], "${datasource}", "{file}");
            assert_eq!(variable["allValue"], ".*", "{file}: all must match a label that is not there");
        }
    }
}

/// From the slowest line of a panel one click leads to a trace of its bucket.
#[test]
fn panels_of_durations_show_exemplars() {
    // Their buckets carry trace ids; no other does.
    let families = ["session_duration", "session_active", "tool_duration", "client_operation_duration"];
    let carries = |expr: &str| families.iter().any(|family| expr.contains(&format!("{family}_seconds_bucket")));
    let mut shown = 0;
    for (file, dashboard) in dashboards() {
        for panel in panels(&dashboard).into_iter().filter(|panel| panel["type"] == "timeseries") {
            let place = format!("{file}: {}", title(panel));
            let targets = list(&panel["targets"]);
            let with = targets.iter().filter(|target| target["exemplar"] == true).collect::<Vec<_>>();
            let of_durations = targets.iter().any(|target| carries(target["expr"].as_str().unwrap_or_default()));
            assert_eq!(with.len(), usize::from(of_durations), "{place}: each dot once");
            assert!(with.iter().all(|target| carries(target["expr"].as_str().unwrap())), "{place}");
            shown += with.len();
        }
    }
    assert!(shown >= 4, "{shown} panels");
    let sources: Value =
        serde_saphyr::from_str(&text("deploy/grafana/provisioning/datasources/glassbox.yaml")).unwrap();
    let sources = list(&sources["datasources"]);
    let of = |kind: &str| sources.iter().find(|source| source["type"] == kind).expect("the data source");
    let leads = &of("prometheus")["jsonData"]["exemplarTraceIdDestinations"][0];
    assert_eq!((&leads["name"], &leads["datasourceUid"]), (&"trace_id".into(), &of("jaeger")["uid"]));
}

#[test]
fn every_variable_is_declared_and_every_declared_one_is_used() {
    let pattern = Regex::new(r"\$\{?(\w+)\}?").unwrap();
    for (file, dashboard) in dashboards() {
        let used: BTreeSet<String> = pattern
            .captures_iter(&text(&file))
            .map(|found| found[1].to_owned())
            .filter(|name| !BUILT_IN.contains(&name.as_str()))
            .collect();
        let declared: BTreeSet<String> = list(&dashboard["templating"]["list"])
            .iter()
            .map(|variable| variable["name"].as_str().unwrap().to_owned())
            // Each dashboard lets one choose where traces are, whether or not a panel shows some.
            .filter(|name| name != "traces" || used.contains("traces"))
            .collect();
        assert_eq!(used, declared, "{file}: left is used, right declared");
    }
}

#[test]
fn queries_name_metrics_and_labels_that_exist() {
    let mut wrong = Vec::new();
    for query in queries() {
        let named = selectors(&query.expr);
        assert!(!named.is_empty(), "{}", query.place);
        wrong.extend(named.iter().filter_map(|name| Some(format!("{}: {}", query.place, name.problem()?))));
    }
    let expressions = |dashboard: &Value| -> Vec<String> {
        let annotations = list(&dashboard["annotations"]["list"]).iter().map(|note| note["expr"].as_str().unwrap());
        let variables = list(&dashboard["templating"]["list"]).iter().filter_map(|one| one["query"]["query"].as_str());
        let of = |query: &str| query.trim_start_matches("label_values(").split(',').next().unwrap().to_owned();
        annotations.map(str::to_owned).chain(variables.map(of)).collect()
    };
    for (file, dashboard) in dashboards() {
        for expr in expressions(&dashboard) {
            let named = selectors(&expr);
            assert_eq!(named.len(), 1, "{file}: {expr}");
            wrong.extend(named.iter().filter_map(|name| Some(format!("{file}: {}", name.problem()?))));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The four signals that the seed asks a dashboard for, and the circuits in time.
#[test]
fn the_signals_that_were_asked_for_are_there() {
    for (place, part) in [
        ("overview.json: Success rate by task type", "task_type:glassbox_sessions:success_ratio_15m"),
        ("overview.json: Steps per session", "histogram_quantile(0.5,"),
        ("overview.json: Steps per session", "histogram_quantile(0.95,"),
        ("overview.json: Steps per session", "histogram_quantile(0.99,"),
        ("overview.json: Context window, p90", "agent:glassbox_context_utilization:p90_1h"),
        ("tools-and-circuits.json: Error rate by tool", "tool:glassbox_tool_calls:error_ratio_5m"),
        ("tools-and-circuits.json: Circuits", "glassbox_circuit_state"),
    ] {
        let found = queries().into_iter().any(|query| query.place.ends_with(place) && query.expr.contains(part));
        assert!(found, "{place} does not ask for {part}");
    }
    for (file, dashboard) in dashboards() {
        let notes: Vec<_> = list(&dashboard["annotations"]["list"]).iter().map(|note| &note["name"]).collect();
        assert_eq!(notes, ["Circuit changes"], "{file}");
    }
}
