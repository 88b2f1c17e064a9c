//! The alert rules: each is said well, has its page and its unit tests, and names what exists;
//! `promtool` and `amtool` take the files and run the tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    process::have,
    prometheus::{self, Prometheus},
    promql::{self, Rule, data, files, list, path, rules, selectors, text},
};

const FOLDER: &str = "deploy/prometheus";

fn alerts() -> Vec<Rule> {
    let alerts: Vec<_> = rules().into_iter().filter(|rule| rule.is_alert).collect();
    assert!(alerts.len() >= 15, "found only {}", alerts.len());
    alerts
}

fn alert(name: &str) -> Rule {
    alerts().into_iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("there is no alert {name}"))
}

#[test]
fn every_alert_says_how_bad_it_is_what_it_is_and_where_its_page_is() {
    for Rule { name, body, .. } in alerts() {
        assert!(name.starts_with("Glassbox"), "{name}");
        let severity = body["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: {severity}");
        let summary = body["annotations"]["summary"].as_str().unwrap();
        assert!(summary.len() > 30 && summary.ends_with('.'), "{name}: {summary}");
        // A number that people read has a unit or is rounded.
        assert!(!summary.contains("$value }}"), "{name} prints a raw number: {summary}");
        assert_eq!(body["annotations"]["runbook_url"], format!("docs/runbooks/{name}.md"));
    }
}

#[test]
fn every_alert_has_its_page_and_every_page_its_alert() {
    let names: BTreeSet<_> = alerts().into_iter().map(|alert| format!("docs/runbooks/{}.md", alert.name)).collect();
    let pages: BTreeSet<_> = files("docs/runbooks", ".md").into_iter().collect();
    assert_eq!(pages, names, "left: pages, right: alerts");
    for page in pages {
        let text = text(&page);
        let title = page.rsplit('/').next().unwrap().trim_end_matches(".md");
        assert!(text.starts_with(&format!("# {title}\n")), "{page}");
        for heading in ["## What it means", "## What to look at", "## How to mitigate"] {
            let section = text.split(heading).nth(1).unwrap_or_else(|| panic!("{page} lacks {heading}"));
            assert!(section.split("\n## ").next().unwrap().trim().len() > 80, "{page}: {heading} says too little");
        }
        let commands = ["glassbox ", "curl -s 127.0.0.1:8080/"].iter().any(|command| text.contains(command));
        assert!(text.contains("```sh") && commands, "{page} shows no command of glassbox");
    }
}

#[test]
fn rules_name_metrics_and_labels_that_exist() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let named = selectors(&rule.expr);
        assert!(!named.is_empty(), "{} asks for nothing", rule.name);
        wrong.extend(named.iter().filter_map(|name| Some(format!("{}: {}", rule.name, name.problem()?))));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn recorded_names_are_of_the_form_level_metric_operation_and_unique() {
    let mut names = BTreeSet::new();
    for rule in rules().into_iter().filter(|rule| !rule.is_alert) {
        assert_eq!(rule.name.split(':').count(), 3, "{}", rule.name);
        assert!(names.insert(rule.name.clone()), "{} is recorded twice", rule.name);
    }
}

/// How often a unit test sees an alert: firing, not firing after that, and never in its group.
#[derive(Debug, Default)]
struct Seen {
    fires: bool,
    clears: bool,
    stays_silent: bool,
}

/// A time of a unit test in seconds: `2h5m`, `90s`.
fn seconds(text: &str) -> u64 {
    let (mut sum, mut number) = (0, 0);
    for letter in text.chars() {
        match letter {
            '0'..='9' => number = number * 10 + u64::from(letter.to_digit(10).unwrap()),
            _ => {
                sum += number * [('s', 1), ('m', 60), ('h', 3600)].iter().find(|(unit, _)| *unit == letter).unwrap().1;
                number = 0;
            }
        }
    }
    sum
}

fn seen_in_unit_tests() -> BTreeMap<String, Seen> {
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    for group in files("deploy/prometheus/tests", ".yml").iter().flat_map(|file| list(&data(file)["tests"]).to_vec()) {
        let mut of_alert: BTreeMap<String, Vec<(u64, bool)>> = BTreeMap::new();
        for test in list(&group["alert_rule_test"]) {
            let name = test["alertname"].as_str().unwrap().to_owned();
            let at = seconds(test["eval_time"].as_str().unwrap());
            of_alert.entry(name).or_default().push((at, !list(&test["exp_alerts"]).is_empty()));
        }
        for (name, times) in of_alert {
            let seen = seen.entry(name).or_default();
            let first = times.iter().filter(|(_, fires)| *fires).map(|(at, _)| *at).min();
            seen.fires |= first.is_some();
            seen.clears |= times.iter().any(|(at, fires)| !fires && first.is_some_and(|first| first < *at));
            seen.stays_silent |= first.is_none();
        }
    }
    seen
}

#[test]
fn every_alert_is_tested_to_fire_to_clear_and_to_stay_silent() {
    let seen = seen_in_unit_tests();
    let names: BTreeSet<_> = alerts().into_iter().map(|alert| alert.name).collect();
    assert_eq!(seen.keys().cloned().collect::<BTreeSet<_>>(), names, "left: tested, right: alerts");
    for (name, seen) in seen {
        assert!(seen.fires && seen.clears && seen.stays_silent, "{name}: {seen:?}");
    }
    assert_eq!((seconds("25h15m"), seconds("90s"), seconds("2m30s")), (90_900, 90, 150));
}

/// The numbers of the seed's checklist stand in the rules as they are said.
#[test]
fn thresholds_are_those_that_were_asked_for() {
    for (name, parts) in [
        ("GlassboxToolErrorRateHigh", ["unserved_ratio_5m > 0.10", "increase_5m >= 10"]),
        ("GlassboxSessionSuccessLow", ["success_ratio_15m < 0.90", "increase_15m >= 20"]),
        ("GlassboxStepsGrow", ["> 1.5 * task_type:glassbox_session_steps:p95_1h offset 1d", ">= 50"]),
        ("GlassboxContextNearlyFull", ["p90_1h > 0.70", ">= 20"]),
    ] {
        for part in parts {
            assert!(alert(name).expr.contains(part), "{name} does not say {part}");
        }
    }
}

/// A factor is how much faster than allowed the budget burns when a share of it goes in a window.
#[test]
fn factors_of_the_burn_alerts_follow_from_the_objective() {
    const HOURS: f64 = 30.0 * 24.0;
    for (name, share, window, short) in
        [("GlassboxErrorBudgetBurnsFast", 0.02, 1.0, "5m"), ("GlassboxErrorBudgetBurnsSlowly", 0.05, 6.0, "30m")]
    {
        let factor = share * HOURS / window;
        let threshold = format!("> {} * (1 - 0.99)", (factor * 10.0_f64).round() / 10.0);
        let expr = alert(name).expr;
        for range in [&format!("{window}h"), short] {
            let condition = format!("glassbox:sessions:failure_ratio_{range} {threshold}");
            assert!(expr.contains(&condition), "{name} does not say {condition}");
        }
    }
}

#[test]
fn the_rules_for_kubernetes_are_the_same() {
    let mut right = text("deploy/kubernetes/prometheusrule.yaml");
    let head = right.find("  groups:\n").unwrap() + "  groups:\n".len();
    right.truncate(head);
    for file in ["recording.yml", "alerts.yml"] {
        let text = text(&format!("{FOLDER}/{file}"));
        let (_, groups) = text.split_once("\ngroups:\n").unwrap();
        for line in groups.lines() {
            let indent = if line.is_empty() { "" } else { "  " };
            right.push_str(&format!("{indent}{line}\n"));
        }
    }
    promql::check_printed("deploy/kubernetes/prometheusrule.yaml", &right);
    let groups = |file: &str| list(&data(file)["groups"]).to_vec();
    let all = [groups("deploy/prometheus/recording.yml"), groups("deploy/prometheus/alerts.yml")].concat();
    assert_eq!(data("deploy/kubernetes/prometheusrule.yaml")["spec"]["groups"], Value::Array(all));
}

/// Runs a tool; gives whether it was content, and what it said.
fn ask(mut tool: Command, arguments: &[&str], folder: &Path) -> (bool, String) {
    let said = tool.args(arguments).current_dir(folder).output().unwrap();
    (said.status.success(), String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned())
}

/// The rules and their tests in a folder of their own, where one may be changed.
fn copied() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tests")).unwrap();
    for file in [files(FOLDER, ".yml"), files("deploy/prometheus/tests", ".yml")].concat() {
        fs::copy(path(&file), folder.path().join(file.strip_prefix(FOLDER).unwrap().trim_start_matches('/'))).unwrap();
    }
    folder
}

#[test]
fn promtool_takes_the_rules_and_the_configuration() {
    let folder = copied();
    let config = text("deploy/prometheus/prometheus.yml").replace("/etc/prometheus/", "");
    fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    for prometheus in [prometheus::debian(), prometheus::current()].into_iter().flatten() {
        let (good, said) = ask(prometheus.promtool(), &["check", "config", "prometheus.yml"], folder.path());
        assert!(good && said.contains("alerts.yml"), "{prometheus:?}: {said}");
        let rules = ["check", "rules", "recording.yml", "alerts.yml"];
        let (good, said) = ask(prometheus.promtool(), &rules, folder.path());
        assert!(good && said.contains(&format!("{} rules found", alerts().len())), "{prometheus:?}: {said}");
    }
}

/// The unit tests of the rules take half a minute of processor time, so each version runs them once.
#[test]
fn promtool_2_sees_every_alert_fire_clear_and_stay_silent() {
    sees_every_alert(prometheus::debian());
}

#[test]
fn promtool_3_sees_every_alert_fire_clear_and_stay_silent() {
    sees_every_alert(prometheus::current());
}

fn sees_every_alert(prometheus: Option<Prometheus>) {
    let Some(prometheus) = prometheus else { return };
    let tests = files("deploy/prometheus/tests", ".yml");
    let arguments: Vec<_> = ["test", "rules"].into_iter().chain(tests.iter().map(String::as_str)).collect();
    let (good, said) = ask(prometheus.promtool(), &arguments, &path("."));
    assert!(good, "{said}");
    assert_eq!(said.matches("SUCCESS").count(), tests.len(), "{said}");
}

/// The unit tests notice a rule that is a little wrong: each change one test, which is run alone.
#[test]
fn promtool_notices_changed_rules() {
    let Some(prometheus) = prometheus::current().or_else(prometheus::debian) else { return };
    let many = "a fifth of the calls of a tool fails for ten minutes";
    let tenth = "a tenth of the calls fails, which is not more than 10 %";
    let open = "a dead tool is refused by its open circuit";
    for (file, right, wrong, test) in [
        ("alerts.yml", "unserved_ratio_5m > 0.10", "unserved_ratio_5m > 0.25", many),
        ("alerts.yml", "unserved_ratio_5m > 0.10", "unserved_ratio_5m >= 0.10", tenth),
        ("alerts.yml", "increase_5m >= 10", "increase_5m >= 5", "five calls of five minutes fail"),
        ("recording.yml", "unknown_outcome|circuit_open\"}", "unknown_outcome\"}", open),
        ("recording.yml", "|ok|refused\"}", "|ok|refused|denied|lost\"}", "nor does it hide one"),
    ] {
        let folder = copied();
        fs::write(folder.path().join("tests/one.yml"), alone("tools.yml", test).to_string()).unwrap();
        let passes = || ask(prometheus.promtool(), &["test", "rules", "tests/one.yml"], folder.path());
        let (good, said) = passes();
        assert!(good, "{test}: {said}");
        let place = folder.path().join(file);
        let text = fs::read_to_string(&place).unwrap();
        assert!(text.contains(right), "{file} does not say {right}");
        fs::write(&place, text.replace(right, wrong)).unwrap();
        assert!(!passes().0, "{test} does not notice {right} -> {wrong}");
    }
}

/// A file of unit tests with one of its tests.
fn alone(file: &str, test: &str) -> Value {
    let mut file = data(&format!("{FOLDER}/tests/{file}"));
    let found = list(&file["tests"]).iter().find(|one| one["name"] == test);
    file["tests"] = json!([found.unwrap_or_else(|| panic!("there is no test {test:?}"))]);
    file
}

#[test]
fn amtool_takes_the_configuration_and_sends_each_severity_its_way() {
    if !have("amtool") {
        return;
    }
    let config = "deploy/alertmanager/alertmanager.yml";
    let amtool = || Command::new("amtool");
    let (good, said) = ask(amtool(), &["check-config", config], &path("."));
    assert!(good && said.contains("3 receivers"), "{said}");
    for (severity, receiver) in [("critical", "on-call"), ("warning", "working-hours"), ("info", "dashboard")] {
        let label = format!("severity={severity}");
        let file = format!("--config.file={config}");
        let (good, said) = ask(amtool(), &["config", "routes", "test", &file, &label], &path("."));
        assert!(good && said.lines().next() == Some(receiver), "{severity}: {said}");
    }
    // An alert that is named in an inhibition exists.
    let names: BTreeSet<_> = alerts().into_iter().map(|alert| alert.name).collect();
    for word in text(config).split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.starts_with("Glassbox"))
    {
        assert!(names.contains(word), "there is no alert {word}");
    }
}
