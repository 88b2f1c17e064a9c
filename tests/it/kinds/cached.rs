//! Results that are given again, through whole sessions over a database that changes meanwhile:
//! what a session reads tells whether its call ran.

use std::{collections::BTreeMap, path::Path};

use glassbox::{Config, Principal, Runtime, Setup, Task, core::fact::SessionEnd, session::Ended};
use serde_json::{Value, json};

use crate::process::Home;

const CONFIG: &str = r#"
agents:
  clerk: {system_prompt: Tell., model: clerk, language: en, tools: [rate]}
models:
  clerk: {provider: scripted, script: clerk.yaml}
tools:
  rate:
    description: The rate.
    effect: read
    sql: {database: rates.sqlite, statement: "select value from rates"}
    cache: {ttl: 1h}
"#;
const SCRIPT: &str =
    "name: t\nrules:\n- {when: {call_count: 0}, call: {tool: rate, arguments: {}}}\n- {text: '{{ result }}'}\n";

struct Place {
    folder: tempfile::TempDir,
    runtime: Runtime,
}

impl Place {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        std::fs::write(path.join("clerk.yaml"), SCRIPT).expect("written");
        sql(path, "create table rates (value integer); insert into rates values (1)");
        let config = Config::from_text("t", config.as_bytes(), path, &BTreeMap::new());
        let config = config.unwrap_or_else(|wrong| panic!("{wrong}"));
        let runtime = Runtime::start(&config, Setup::run(path)).expect("a runtime");
        Self { folder, runtime }
    }

    fn set(&self, value: u32) {
        sql(self.folder.path(), &format!("update rates set value = {value}"));
    }

    /// What a session of this principal reads.
    async fn read(&self, id: &str, claim: &str) -> String {
        let attributes = [("branch".to_owned(), claim.to_owned())].into();
        let principal = Principal { id: id.into(), scopes: Vec::new(), roles: Vec::new(), attributes };
        let mut handle = self.runtime.open(Task::new("tell", principal)).await.expect("begun");
        match handle.ended().await.expect("durable") {
            Ended::Finished(end) => answer(&end),
            other => panic!("{other:?}"),
        }
    }
}

fn sql(folder: &Path, text: &str) {
    let file = rusqlite::Connection::open(folder.join("rates.sqlite")).expect("a file");
    file.execute_batch(text).expect("good SQL");
}

fn answer(end: &SessionEnd) -> String {
    end.answer.as_ref().map(|answer| answer.expose().clone()).unwrap_or_default()
}

fn rows(value: u32) -> String {
    format!(r#"{{"rows":[{{"value":{value}}}]}}"#)
}

#[tokio::test]
async fn a_result_is_given_again_to_the_same_login_alone() {
    let place = Place::new(CONFIG);
    assert_eq!(place.read("C-1", "north").await, rows(1));
    place.set(2);
    assert_eq!(place.read("C-1", "north").await, rows(1), "known from before");
    assert_eq!(place.read("C-2", "north").await, rows(2), "another customer");
    assert_eq!(place.read("C-1", "south").await, rows(2), "another claim");
}

#[tokio::test]
async fn what_is_the_same_for_all_can_be_shared() {
    let place = Place::new(&CONFIG.replace("ttl: 1h", "ttl: 1h, shared: true"));
    assert_eq!(place.read("C-1", "north").await, rows(1));
    place.set(2);
    assert_eq!(place.read("C-2", "south").await, rows(1));
}

#[tokio::test]
async fn without_a_cache_every_call_runs() {
    let place = Place::new(&CONFIG.replace("    cache: {ttl: 1h}\n", ""));
    assert_eq!(place.read("C-1", "north").await, rows(1));
    place.set(2);
    assert_eq!(place.read("C-1", "north").await, rows(2));
}

#[test]
fn the_event_of_a_call_says_whether_its_result_was_known() {
    let home = Home::configured(CONFIG).variable("GLASSBOX__TELEMETRY__EVENTS", "events.jsonl");
    home.write("clerk.yaml", SCRIPT);
    std::fs::create_dir(home.data()).expect("a folder");
    sql(home.data(), "create table rates (value integer); insert into rates values (1)");
    let server = home.serve();
    let sessions = [(); 3].map(|()| server.run("tell")["session_id"].clone());
    assert_eq!(server.stop().code, Some(0));
    let lines = std::fs::read_to_string(home.path("events.jsonl")).expect("lines");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told = sessions.map(|session| -> Vec<_> {
        let called = lines.iter().filter(|line| line["event"] == "tool_called" && line["session_id"] == session);
        called.map(|line| (line["cached"].clone(), line["attempts"].clone(), line["is_error"].clone())).collect()
    });
    let known = |cached: bool, attempts: u32| vec![(json!(cached), json!(attempts), json!(false))];
    assert_eq!(told, [known(false, 1), known(true, 0), known(true, 0)]);
}

#[test]
fn a_cache_is_refused_where_it_could_do_harm() {
    for (old, new, wrong) in [
        ("effect: read", "effect: unsafe", "tools.rate.cache: is for tools with effect: read"),
        ("cache: {ttl: 1h}", "cache: {max_entries: 5}", "tools.rate.cache.ttl: is missing"),
        (
            r#"statement: "select value from rates"}
    cache: {ttl: 1h}"#,
            r#"statement: "select value from rates where id = :who"}
    bind: {who: "{{ principal.id }}"}
    cache: {ttl: 1h, shared: true}"#,
            "tools.rate.cache: must not be shared",
        ),
    ] {
        let text = CONFIG.replace(old, new);
        let report = Config::from_text("t", text.as_bytes(), Path::new(""), &BTreeMap::new()).expect_err("refused");
        assert!(report.to_string().contains(wrong), "{report}");
    }
}
