//! Export, erasure and cancelling of sessions, as the command line and the API offer them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::process::{Home, Server};

const QUESTION: &str = "Сколько я потратил на такси в сентябре?";

/// The bank, and an agent that never answers; its caller is no operator.
const CONFIG: &str = "
agents:
  bank: {system_prompt: Hello., model: bank, language: ru, tools: [txn_sum], task_types: [spending, other], limits: {token_budget: 50000}}
  slow: {system_prompt: Wait., model: slow, language: en, tools: [], task_types: [other], limits: {token_budget: 50000}}
models:
  bank: {provider: scripted, script: bank}
  slow: {provider: scripted, script: slow.yaml}
tools:
  txn_sum: {builtin: txn_sum, scopes: [spending:read]}
auth:
  default_principal: {id: C-001, scopes: [spending:read], roles: [user]}
server: {grace_period: 1s}
";

fn home() -> Home {
    let home = Home::configured(CONFIG);
    home.write("slow.yaml", "name: slow\nrules:\n  - {delay: 1h, text: Never.}\n");
    home
}

fn ask(home: &Home) -> String {
    let out = home.ask(&["run", "--json", "--agent", "bank", QUESTION]);
    json_of(&out)["session_id"].as_str().unwrap().to_owned()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn begin(server: &Server<'_>, agent: &str) -> String {
    let answer = server.post("/v1/sessions", &json!({"agent": agent, "task": QUESTION}).to_string());
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["session_id"].as_str().unwrap().to_owned()
}

/// Whether a file of the journal holds these bytes.
fn on_disk(home: &Home, text: &str) -> bool {
    let files = std::fs::read_dir(home.data()).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("glassbox.db"));
    files.map(|path| std::fs::read(path).unwrap()).any(|bytes| bytes.windows(text.len()).any(|w| w == text.as_bytes()))
}

/// Holds the lines of one session against each other; gives the facts.
fn whole(lines: &[Value], id: &str) -> Vec<Value> {
    let header = &lines[0];
    assert_eq!((&header["export"], &header["session_id"]), (&json!(1), &json!(id)));
    assert_eq!((&header["principal"], &header["status"]), (&json!("C-001"), &json!("done")));
    let facts: Vec<Value> = lines.iter().filter(|line| line.get("fact").is_some()).cloned().collect();
    assert_eq!(header["facts"], facts.len());
    for (seq, fact) in facts.iter().enumerate() {
        assert_eq!((&fact["stream"], &fact["seq"]), (&json!(id), &json!(seq)));
        let at = fact["at"].as_str().unwrap();
        assert!(at.len() == "2026-02-18T10:23:45.123456789Z".len() && at.ends_with('Z'), "{at}");
    }
    let texts: BTreeMap<&str, &str> = lines
        .iter()
        .filter_map(|line| Some((line.get("blob")?.as_str().unwrap(), line["text"].as_str().unwrap())))
        .collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (hash, text) in &texts {
        assert_eq!(*hash, format!("sha256:{}", hex(&Sha256::digest(text.as_bytes()))));
    }
    let started = &facts[0]["fact"]["session_started"];
    for name in [&started["prompt"]["hash"], &started["tools_hash"], &started["config_hash"]] {
        assert!(texts.contains_key(name.as_str().unwrap()), "{name} is missing");
    }
    assert_eq!(texts[started["prompt"]["hash"].as_str().unwrap()], "Hello.");
    facts
}

#[test]
fn an_export_is_whole_and_one_line_a_fact() {
    let home = home();
    let (first, second) = (ask(&home), ask(&home));
    let lines: Vec<_> = home.ask(&["session", "export", &first]).lines().map(json_of).collect();
    let facts = whole(&lines, &first);
    let shown = json_of(&home.ask(&["session", "show", "--json", &first]));
    let shown: Vec<_> = shown["facts"].as_array().unwrap().iter().map(|fact| fact["fact"].clone()).collect();
    assert_eq!(facts.iter().map(|line| line["fact"].clone()).collect::<Vec<_>>(), shown);

    let all: Vec<_> = home.ask(&["session", "export", "--all"]).lines().map(json_of).collect();
    let place = all.iter().rposition(|line| line.get("export").is_some()).unwrap();
    whole(&all[..place], &second);
    whole(&all[place..], &first);
    assert_eq!(home.ask(&["session", "export", "--principal", "C-001"]).lines().count(), all.len());
    assert_eq!(home.ask(&["session", "export", "--principal", "C-002"]), "");
    for wrong in [&["session", "export"][..], &["session", "export", "--all", &first], &["session", "erase", "--yes"]] {
        assert_eq!(home.run(wrong).code, Some(64), "{wrong:?}");
    }
}

#[test]
fn erasing_asks_for_a_word_and_leaves_no_byte() {
    let home = home();
    let (first, second) = (ask(&home), ask(&home));
    let planned = home.run(&["session", "erase", &first]);
    assert_eq!(planned.code, Some(64), "{planned:?}");
    assert!(planned.out.starts_with(&format!("{first} done of C-001, ")), "{}", planned.out);
    assert!(planned.out.ends_with("nothing is erased yet: --yes erases 1 session for good"), "{}", planned.out);
    assert!(on_disk(&home, &first) && on_disk(&home, QUESTION));

    assert_eq!(home.ask(&["session", "erase", "--yes", &first]), "erased 1 session");
    assert!(!on_disk(&home, &first), "its id is gone");
    assert!(on_disk(&home, &second) && on_disk(&home, "Hello."));
    let gone = home.run(&["session", "erase", "--yes", &first]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.err.contains(&format!("there is no session {first}")), "{}", gone.err);

    assert_eq!(home.ask(&["session", "erase", "--yes", "--json", "--principal", "C-001"]), r#"{"erased":1,"held":[]}"#);
    for text in [&*second, QUESTION, "Hello."] {
        assert!(!on_disk(&home, text), "{text}");
    }
    assert_eq!(home.ask(&["session", "list", "--json"]), "");
}

#[test]
fn a_session_that_is_left_is_cancelled_and_one_that_is_driven_names_its_owner() {
    let home = home();
    let server = home.serve();
    let id = begin(&server, "slow");
    let held = home.run(&["session", "cancel", &id]);
    assert_eq!(held.code, Some(1), "{held:?}");
    assert!(held.err.contains(&format!("{id} is driven by proc_")) && held.err.contains(" until 20"), "{}", held.err);
    assert!(held.err.contains(&format!("POST /v1/sessions/{id}/cancel")), "{}", held.err);
    let stays = home.run(&["session", "erase", "--yes", &id]);
    assert_eq!(stays.code, Some(1), "{stays:?}");
    assert!(stays.out.contains(&format!("{id} stays: it is driven by proc_")), "{}", stays.out);
    server.stop();

    assert_eq!(home.ask(&["session", "cancel", &id]), format!("{id} is cancelled"));
    let shown = json_of(&home.ask(&["session", "show", "--json", &id]));
    assert_eq!(shown["session"]["status"], "cancelled");
    let names: Vec<_> = shown["facts"].as_array().unwrap().iter().map(|fact| fact["fact"].clone()).collect();
    assert!(names.iter().any(|fact| fact["cancel_requested"]["by"] == "command line"), "{names:#?}");
    let ended = home.run(&["session", "cancel", &id]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("has ended"), "{}", ended.err);
}

#[test]
fn the_api_erases_what_has_ended_and_only_of_the_caller() {
    let home = home();
    let server = home.serve();
    let id = begin(&server, "slow");
    let place = format!("/v1/sessions/{id}");
    let delete = |path: &str| server.request("DELETE", path, &[], "");
    let running = delete(&place);
    assert_eq!(running.status, 409, "{running:?}");
    assert_eq!(running.header("content-type"), Some("application/problem+json"));
    server.post(&format!("{place}/cancel"), "");
    server.get_until(&place, |answer| answer.json()["status"] == "cancelled");
    assert_eq!(delete(&place).status, 204);
    assert_eq!((server.get(&place).status, delete(&place).status), (404, 404));
    assert_eq!(delete("/v1/sessions/nonsense").status, 404);
    assert!(server.get("/metrics").body.contains("glassbox_sessions_erased_total{cause=\"request\"} 1\n"));
    for (method, path) in [("GET", "/v1/principals/C-002/export"), ("DELETE", "/v1/principals/C-002")] {
        assert_eq!(server.request(method, path, &[], "").status, 403, "{method} {path}");
    }
}

#[test]
fn a_principal_takes_its_sessions_along_and_has_them_erased() {
    let home = home();
    let first = ask(&home);
    let server = home.serve();
    let exported = server.get("/v1/principals/C-001/export");
    assert_eq!((exported.status, exported.header("content-type")), (200, Some("application/x-ndjson")));
    let lines = home.ask(&["session", "export", &first]);
    let body = &exported.body;
    assert!(lines.lines().all(|line| body.contains(line)), "the same lines as on the command line: {body}");

    let running = begin(&server, "slow");
    let erased = server.request("DELETE", "/v1/principals/C-001", &[], "");
    assert_eq!(erased.status, 409, "{erased:?}");
    assert_eq!((&erased.json()["erased"], &erased.json()["running"]), (&json!(1), &json!([running])));
    assert_eq!(server.get(&format!("/v1/sessions/{first}")).status, 404);
    server.post(&format!("/v1/sessions/{running}/cancel"), "");
    server.get_until(&format!("/v1/sessions/{running}"), |answer| answer.json()["status"] == "cancelled");
    let erased = server.request("DELETE", "/v1/principals/C-001", &[], "");
    assert_eq!((erased.status, erased.json()), (200, json!({"erased": 1})));
}

#[test]
fn an_operator_does_it_for_every_principal() {
    let home = Home::new();
    let id = json_of(&home.ask(&["run", "--json", QUESTION]))["session_id"].as_str().unwrap().to_owned();
    let server = home.serve();
    assert_eq!(server.get("/v1/principals/C-002/export").status, 200);
    assert!(server.get("/v1/principals/C-001/export").body.contains(&id));
    let none = server.request("DELETE", "/v1/principals/C-002", &[], "");
    assert_eq!((none.status, none.json()), (200, json!({"erased": 0})));
    assert_eq!(server.get(&format!("/v1/sessions/{id}")).status, 200);
}
