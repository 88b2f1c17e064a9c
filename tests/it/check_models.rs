//! `glassbox check models`: every model is tried with its agents' tool definitions, what came of
//! it is kept, and a start without it is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use serde_json::Value;

use crate::process::{Home, Server};

const CONFIG: &str = "
agents:
  bank: {system_prompt: Hello., model: main, fallback: backup, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
models:
  main: {provider: scripted, script: main.yaml}
  backup: {provider: scripted, script: backup.yaml, model: backup-2026}
tools:
  txn_sum: {builtin: txn_sum}
";
/// Refuses every request that offers tools, as a server does that does not know a keyword.
const PICKY: &str = "
name: picky
rules:
  - when: {tools_offered: true}
    fault: {status: 400, detail: 'tools.0.input_schema: additionalProperties is not supported'}
  - text: ok
";
const GOOD: &str = "{name: good, rules: [{text: ok}]}";

fn home() -> Home {
    let home = Home::configured(CONFIG);
    home.write("main.yaml", GOOD);
    home.write("backup.yaml", PICKY);
    home
}

/// The gauge of the fallback, and whether the start warned of it.
fn start_tells(home: &Home) -> (String, bool) {
    let server: Server<'_> = home.serve();
    let series = r#"glassbox_model_fallback_untested{model="backup"} "#;
    let metrics = server.get("/metrics").body;
    let gauge = metrics.lines().find_map(|line| line.strip_prefix(series)).unwrap().to_owned();
    let finished = server.stop();
    (gauge, finished.err.contains("glassbox check models"))
}

#[test]
fn a_fallback_is_untested_until_it_took_the_definitions_of_now() {
    let home = home();
    assert_eq!(start_tells(&home), ("1".into(), true), "nobody tried it");

    let refused = home.run(&["check", "models"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let rows: Vec<Vec<&str>> = refused.out.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "a head and two models: {refused:?}");
    assert_eq!(rows[1][..3], ["bank", "main", "scripted"]);
    assert_eq!(rows[1][4..], ["ok", "answers", "as", "main"]);
    assert_eq!(rows[2][..4], ["bank", "backup", "(fallback)", "scripted"]);
    assert_eq!(rows[2][4], rows[1][3], "the same definitions");
    assert!(rows[1][3].len() == 12 && rows[1][3].chars().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(rows[2][5..].join(" "), "refused tools.0.input_schema: additionalProperties is not supported");
    assert_eq!(start_tells(&home), ("1".into(), true), "it refused them");

    home.write("backup.yaml", GOOD);
    let lines = home.ask(&["--json", "check", "models"]);
    let checks: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(checks.len(), 2);
    assert_eq!((&checks[1]["fallback"], &checks[1]["ok"]), (&true.into(), &true.into()));
    assert_eq!(checks[1]["response_model"], "backup-2026");
    assert_eq!(start_tells(&home), ("0".into(), false));

    home.write("glassbox.yaml", &CONFIG.replace("builtin: txn_sum", "builtin: txn_sum, description: Sums."));
    assert_eq!(start_tells(&home), ("1".into(), true), "the definitions are others");
}

#[test]
fn a_model_that_cannot_be_reached_is_told_and_its_key_is_not() {
    let config = CONFIG.replace(
        "provider: scripted, script: backup.yaml",
        "provider: anthropic, base_url: 'http://127.0.0.1:1', api_key: {env: BACKUP_KEY}",
    );
    let home = Home::configured(&config).variable("BACKUP_KEY", "sk-only-for-this-test");
    home.write("main.yaml", GOOD);
    let told = home.run(&["check", "models"]);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.out.lines().nth(2).unwrap().contains(" connection "), "{told:?}");
    assert!(!format!("{told:?}").contains("sk-only"), "{told:?}");
}

#[test]
fn a_model_is_no_fallback_of_itself() {
    let home = Home::configured(&CONFIG.replace("fallback: backup", "fallback: main"));
    let told = home.run(&["check"]);
    assert_eq!(told.code, Some(64));
    assert!(told.err.contains("agents.bank.fallback") && told.err.contains("must be another model"), "{told:?}");
}
