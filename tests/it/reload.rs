//! A service that is told to read its configuration again (SIGHUP), at the built program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::process::{Answer, Home, Server};

/// One agent, which says one word; one more that waits until it is asked to stop.
const CONFIG: &str = "
agents:
  echo: {system_prompt: Hello., model: echo, language: en, task_types: [other], limits: {token_budget: 50000}}
  slow: {system_prompt: Wait., model: slow, language: en, task_types: [other], limits: {token_budget: 50000}}
models:
  echo: {provider: scripted, script: old.yaml}
  slow: {provider: scripted, script: slow.yaml}
";
const SLOW: &str = "{name: slow, rules: [{when: {step: 1}, delay: 1s, text: the old way}]}";

fn home(more: &str) -> Home {
    let home = Home::configured(&format!("{CONFIG}{more}"));
    home.write("old.yaml", "{name: echo, rules: [{text: old}]}");
    home.write("new.yaml", "{name: echo, rules: [{text: new}]}");
    home.write("slow.yaml", SLOW);
    home
}

/// Tells the service to read its file again, and waits for what it says of that.
fn hang_up(server: &mut Server<'_>) -> String {
    server.process.signal("HUP");
    server.process.err.until(|line| line.contains("the configuration was read again"))
}

fn gauge(server: &Server<'_>, name: &str) -> f64 {
    let scraped = server.get("/metrics").body;
    let line = scraped.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap().to_owned();
    line.parse().unwrap()
}

fn taken(server: &Server<'_>) -> f64 {
    gauge(server, "glassbox_config_last_reload_successful")
}

/// What the system journal says of readings: nothing, or why one was refused.
fn readings(home: &Home) -> Vec<Value> {
    let store = rusqlite::Connection::open(home.data().join("glassbox.db")).unwrap();
    let mut query = store.prepare("SELECT body FROM fact WHERE name = 'config_reloaded' ORDER BY stream, seq").unwrap();
    let rows = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|row| serde_json::from_str::<Value>(&row.unwrap()).unwrap()["config_reloaded"].clone()).collect()
}

#[test]
fn sessions_that_begin_get_the_new_and_those_that_run_keep_the_old() {
    let home = home("");
    let mut server = home.serve();
    assert_eq!(server.run_as("echo", "hi")["answer"], "old");
    assert_eq!(taken(&server), 1.0);
    let begun = gauge(&server, "glassbox_config_last_reload_success_timestamp_seconds");
    let running = server.post("/v1/sessions", &json!({"agent": "slow", "task": "hi"}).to_string());
    let running = running.json()["session_id"].as_str().unwrap().to_owned();

    home.write("slow.yaml", "{name: slow, rules: [{text: the new way}]}");
    let more =
        "  late: {system_prompt: Hello., model: echo, language: en, task_types: [x], limits: {token_budget: 9000}}\n";
    let changed = CONFIG.replace("old.yaml", "new.yaml").replace("models:\n", &format!("{more}models:\n"));
    home.write("glassbox.yaml", &changed);
    let said = hang_up(&mut server);
    assert!(said.contains("taken over"), "{said}");

    assert_eq!(server.run_as("echo", "hi")["answer"], "new");
    assert_eq!(server.run_as("slow", "hi")["answer"], "the new way");
    assert_eq!(server.run_as("late", "hi")["answer"], "new");
    let done = |answer: &Answer| answer.json()["status"] == "done";
    let running = server.get_until(&format!("/v1/sessions/{running}"), done);
    assert_eq!(running.json()["answer"], "the old way");
    let agents = server.get("/v1/agents").json();
    let names: Vec<_> = agents["agents"].as_array().unwrap().iter().map(|agent| agent["name"].clone()).collect();
    assert_eq!(names, ["echo", "late", "slow"]);
    let scraped = server.get("/metrics").body;
    let late = "glassbox_sessions_total{agent=\"late\",status=\"done\",task_type=\"x\"} 1";
    assert!(scraped.lines().any(|line| line == late), "{scraped}");
    assert!(gauge(&server, "glassbox_config_last_reload_success_timestamp_seconds") >= begun);
    assert_eq!(server.stop().code, Some(0));
    assert_eq!(readings(&home), [json!({})]);
}

#[test]
fn a_wrong_file_changes_nothing_and_says_what_is_wrong() {
    let home = home("");
    let mut server = home.serve();
    home.write("glassbox.yaml", &CONFIG.replace("old.yaml", "new.yaml").replace("model: slow", "modle: slow"));
    let said = hang_up(&mut server);
    assert!(said.contains("refused as a whole") && said.contains("agents.slow.modle"), "{said}");
    assert_eq!((server.run_as("echo", "hi")["answer"].clone(), taken(&server)), (json!("old"), 0.0));

    // A file that is there and a script that is not: found only when the parts are built.
    home.write("glassbox.yaml", &CONFIG.replace("old.yaml", "gone.yaml"));
    let said = hang_up(&mut server);
    assert!(said.contains("refused as a whole") && said.contains("gone.yaml cannot be read"), "{said}");
    assert_eq!((server.run_as("echo", "hi")["answer"].clone(), taken(&server)), (json!("old"), 0.0));

    home.write("glassbox.yaml", &CONFIG.replace("old.yaml", "new.yaml"));
    assert!(hang_up(&mut server).contains("taken over"));
    assert_eq!((server.run_as("echo", "hi")["answer"].clone(), taken(&server)), (json!("new"), 1.0));
    assert_eq!(server.stop().code, Some(0));
    let readings = readings(&home);
    assert_eq!(readings.len(), 3);
    assert!(readings[0]["refused"].as_str().unwrap().contains("agents.slow.modle"), "{readings:?}");
    assert_eq!(readings[2], json!({}));
}

#[test]
fn what_needs_a_restart_is_named_and_nothing_else_is_taken_over() {
    let home = home("server: {max_sessions: 7}\n");
    let mut server = home.serve();
    let other = format!("{}server: {{max_sessions: 8}}\nretention: {{sessions: 9d}}\n", CONFIG.replace("old.", "new."));
    home.write("glassbox.yaml", &other);
    let said = hang_up(&mut server);
    assert!(said.contains("these changes need a restart: server"), "{said}");
    assert_eq!((server.run_as("echo", "hi")["answer"].clone(), taken(&server)), (json!("old"), 0.0));
}

/// A key of 32 equal bytes, and the lines that make it C-001's.
fn key(byte: u8) -> (String, String) {
    let key = format!("gbx_{}", BASE64_URL_SAFE_NO_PAD.encode([byte; 32]));
    let hash: String = Sha256::digest(&key).iter().map(|byte| format!("{byte:02x}")).collect();
    let lines = format!(
        "auth: {{api_keys: {{app: {{hash: \"sha256:{hash}\", principal: {{id: C-001, roles: [user], scopes: []}}}}}}}}\n"
    );
    (key, lines)
}

#[test]
fn a_key_that_was_taken_out_opens_nothing_from_then_on() {
    let ((first, old), (second, new)) = (key(1), key(2));
    let home = home(&old);
    let mut server = home.serve();
    let status = |server: &Server<'_>, key: &str| {
        let bearer = format!("Bearer {key}");
        server.request("GET", "/v1/sessions", &[("authorization", &bearer)], "").status
    };
    assert_eq!((status(&server, &first), status(&server, &second)), (200, 401));
    home.write("glassbox.yaml", &format!("{CONFIG}{new}"));
    assert!(hang_up(&mut server).contains("taken over"));
    assert_eq!((status(&server, &first), status(&server, &second)), (401, 200));

    home.write("glassbox.yaml", CONFIG);
    let said = hang_up(&mut server);
    assert!(said.contains("auth (whether there is a login)"), "{said}");
    assert_eq!((status(&server, &first), status(&server, &second)), (401, 200));
}
