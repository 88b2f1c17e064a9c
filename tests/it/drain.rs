//! A service that is stopped, or killed, while many sessions run: none is lost, no effect happens
//! twice, and each goes on in the next life as if nothing had been.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt as _};

use serde_json::Value;

use crate::process::{Answer, Client, Home};

const SESSIONS: usize = 40;
const STEPS: usize = 3;

/// Every session makes three steps, each with a call that changes something.
const CONFIG: &str = "
agents:
  worker: {system_prompt: Work., model: worker, language: en, tools: [note], task_types: [other], limits: {token_budget: 50000}}
models:
  worker: {provider: scripted, script: worker.yaml}
tools:
  note:
    description: Writes a line.
    command: {argv: [./note.sh, '{idempotency_key}'], cwd: FOLDER}
    scopes: []
    effect: unsafe
server: {grace_period: 20s, lease: 2s}
";
/// One line a run; what is so short is written by one call of the system.
const NOTE: &str = "#!/bin/sh\nprintf '%s\\n' \"$1\" >> notes.txt\necho done\n";

fn home() -> Home {
    let home = Home::configured(CONFIG);
    let config = CONFIG.replace("FOLDER", home.path("").to_str().unwrap());
    home.write("glassbox.yaml", &config);
    let step =
        |step: usize| format!("  - {{when: {{step: {step}}}, delay: 400ms, call: {{tool: note, arguments: {{}}}}}}\n");
    let steps: String = (1..=STEPS).map(step).collect();
    home.write("worker.yaml", &format!("name: worker\nrules:\n{steps}  - text: all done\n"));
    let program = home.write("note.sh", NOTE);
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    home
}

/// Begins all sessions and waits until the last of them is in its first steps.
fn begin_all(client: &Client) -> Vec<String> {
    let ids: Vec<_> = (0..SESSIONS).map(|_| client.begin("work")).collect();
    let runs = |answer: &Answer| answer.body.contains("model_attempt_started");
    client.get_until(&format!("/v1/sessions/{}/journal", ids[SESSIONS - 1]), runs);
    ids
}

fn status(client: &Client, id: &str) -> String {
    client.get(&format!("/v1/sessions/{id}")).json()["status"].as_str().unwrap().to_owned()
}

fn facts(client: &Client, id: &str) -> Vec<Value> {
    let journal = client.get(&format!("/v1/sessions/{id}/journal")).json();
    journal["facts"].as_array().unwrap().iter().map(|entry| entry["fact"].clone()).collect()
}

fn count(facts: &[Value], name: &str) -> usize {
    facts.iter().filter(|fact| fact.get(name).is_some()).count()
}

/// The keys of the runs of the tool that happened.
fn notes(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.path("notes.txt")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn all_done(client: &Client, ids: &[String]) {
    let done = |answer: &Answer| answer.json()["status"] == "done";
    for id in ids {
        client.get_until(&format!("/v1/sessions/{id}"), done);
    }
}

#[test]
fn a_stop_under_load_loses_nothing_and_the_next_life_goes_on() {
    let home = home();
    let server = home.serve();
    let ids = begin_all(&server);
    let stopped = server.stop();
    assert_eq!(stopped.code, Some(0), "{}", stopped.err);
    assert!(!stopped.err.contains("in the middle of a step"), "{}", stopped.err);

    let server = home.serve();
    let begun: BTreeSet<_> = ids.iter().cloned().collect();
    assert_eq!(begun.len(), SESSIONS);
    all_done(&server, &ids);
    let mut suspended = 0;
    for id in &ids {
        let facts = facts(&server, id);
        suspended += count(&facts, "session_suspended");
        assert_eq!(count(&facts, "session_suspended"), count(&facts, "session_resumed"), "{id}");
        assert_eq!((count(&facts, "session_started"), count(&facts, "session_finished")), (1, 1), "{id}");
        assert_eq!(count(&facts, "tool_attempt_started"), STEPS, "{id}: no step is run again");
    }
    assert!(suspended > 0, "the stop came while sessions ran");
    let notes = notes(&home);
    let different: BTreeSet<_> = notes.iter().collect();
    assert_eq!((notes.len(), different.len()), (SESSIONS * STEPS, SESSIONS * STEPS), "each effect once");
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_kill_under_load_repeats_no_effect_and_leaves_no_doubt_unsaid() {
    let home = home();
    let server = home.serve();
    let ids = begin_all(&server);
    server.process.signal("KILL");
    server.process.end();

    let server = home.serve();
    let ended = |answer: &Answer| {
        let report = answer.json();
        matches!(report["status"].as_str().unwrap(), "done" | "awaiting_confirmation")
    };
    let (mut attempts, mut unknown, mut waiting) = (0, 0, 0);
    for id in &ids {
        server.get_until(&format!("/v1/sessions/{id}"), ended);
        let facts = facts(&server, id);
        attempts += count(&facts, "tool_attempt_started");
        let doubts =
            facts.iter().filter(|fact| fact["tool_call_finished"]["end"]["outcome"] == "unknown_outcome").count();
        assert_eq!(count(&facts, "handed_over"), doubts, "{id}: every doubt is handed over");
        unknown += doubts;
        // After a doubt the next call of the tool waits for a person; after the last one none comes.
        let waits = status(&server, id) == "awaiting_confirmation";
        let in_the_last_step = count(&facts, "tool_attempt_started") == STEPS;
        assert_eq!(waits, doubts > 0 && !in_the_last_step, "{id}");
        waiting += usize::from(waits);
    }
    let notes = notes(&home);
    let different: BTreeSet<_> = notes.iter().collect();
    assert_eq!(notes.len(), different.len(), "no effect happened twice");
    assert!(
        notes.len() <= attempts && notes.len() + unknown >= attempts,
        "{} of {attempts}, {unknown} in doubt",
        notes.len()
    );
    let pending = server.get("/v1/confirmations").json()["confirmations"].as_array().unwrap().len();
    assert_eq!(pending, waiting);
    assert_eq!(server.stop().code, Some(0));
}
