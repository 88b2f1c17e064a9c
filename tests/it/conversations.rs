//! Conversations over a real socket: one owner, one session at a time, a history that is carried on.

mod carried;
mod history;

use std::thread;

use serde_json::json;

use crate::process::{Answer, Client, Home, Server};

const SCRIPT: &str = "
name: talk
rules:
  - when: {task_matches: for ever}
    delay: 1h
    text: Never.
  - text: Done.
";

fn config(principal: &str) -> String {
    format!(
        "
agents:
  talk: {{system_prompt: Hello., model: talk, language: en, tools: [txn_sum], task_types: [other], limits: {{token_budget: 50000}}}}
models:
  talk: {{provider: scripted, script: talk.yaml}}
tools:
  txn_sum: {{builtin: txn_sum, scopes: [spending:read]}}
auth:
  default_principal: {{id: {principal}, scopes: [spending:read], roles: [user]}}
"
    )
}

fn home(principal: &str) -> Home {
    let home = Home::configured(&config(principal));
    home.write("talk.yaml", SCRIPT);
    home
}

fn say(client: &Client, path: &str, conversation: &str, task: &str) -> Answer {
    client.post(path, &json!({"task": task, "conversation_id": conversation}).to_string())
}

fn id(answer: &Answer) -> String {
    answer.json()["session_id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

fn end(server: &Server<'_>, session: &str) {
    let place = format!("/v1/sessions/{session}");
    assert_eq!(server.post(&format!("{place}/cancel"), "").status, 202);
    server.get_until(&place, |answer| answer.json()["status"] == "cancelled");
}

#[test]
fn a_conversation_runs_one_session_at_a_time() {
    let home = home("C-001");
    let server = home.serve();
    let first = say(&server, "/v1/sessions", "c-1", "for ever");
    assert_eq!(first.status, 202, "{first:?}");
    let second = say(&server, "/v1/sessions", "c-1", "hi");
    assert_eq!((second.status, second.header("content-type")), (409, Some("application/problem+json")), "{second:?}");
    assert_eq!(id(&second), id(&first));
    assert_eq!(say(&server, "/v1/sessions?wait=15s", "c-2", "hi").status, 200, "another conversation is free");
    assert_eq!(server.post("/v1/sessions?wait=15s", r#"{"task": "hi"}"#).status, 200, "and so is none");

    end(&server, &id(&first));
    let next = say(&server, "/v1/sessions?wait=15s", "c-1", "hi");
    assert_eq!(next.status, 200, "{next:?}");
    let rows = server.get("/v1/sessions?conversation_id=c-1").json();
    let rows: Vec<_> = rows["sessions"].as_array().unwrap().iter().map(|row| row["session_id"].clone()).collect();
    assert_eq!(rows, [id(&next), id(&first)]);
}

#[test]
fn the_same_request_in_a_conversation_is_no_second_session() {
    let home = home("C-001");
    let server = home.serve();
    let body = json!({"task": "for ever", "conversation_id": "c-1"}).to_string();
    let headers = [("idempotency-key", "k-1"), ("content-type", "application/json")];
    let ask = || server.request("POST", "/v1/sessions", &headers, &body);
    let (first, again) = (ask(), ask());
    assert_eq!((first.status, again.status), (202, 202), "{again:?}");
    assert_eq!(id(&again), id(&first));
}

/// Two processes on one folder, each asked by several threads at once.
#[test]
fn of_sessions_that_begin_at_once_in_a_conversation_one_does() {
    let home = home("C-001");
    let (one, other) = (home.serve(), home.serve());
    let clients: [Client; 2] = [*one, *other];
    for round in 0..5 {
        let conversation = format!("c-{round}");
        let answers: Vec<Answer> = thread::scope(|scope| {
            let ask = |client: Client| {
                let conversation = &conversation;
                scope.spawn(move || say(&client, "/v1/sessions", conversation, "for ever"))
            };
            let asks: Vec<_> = (0..8).map(|n| ask(clients[n % 2])).collect();
            asks.into_iter().map(|ask| ask.join().unwrap()).collect()
        });
        let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [202, 409, 409, 409, 409, 409, 409, 409], "{answers:?}");
        let begun = answers.iter().find(|answer| answer.status == 202).map(id).unwrap();
        assert!(answers.iter().all(|answer| id(answer) == begun), "{answers:?}");
    }
}

#[test]
fn the_conversation_of_another_principal_is_as_none() {
    let owner = home("C-001");
    let server = owner.serve();
    let begun = say(&server, "/v1/sessions", "c-1", "for ever");
    assert_eq!(begun.status, 202, "{begun:?}");

    let stranger = home("C-002").data_in(owner.data());
    let theirs = stranger.serve();
    let answer = say(&theirs, "/v1/sessions", "c-1", "hi");
    assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/problem+json")), "{answer:?}");
    assert!(!answer.body.contains("sess_"), "nothing is told of it: {answer:?}");
    assert_eq!(theirs.get("/v1/sessions?conversation_id=c-1").json()["sessions"], json!([]));
    end(&server, &id(&begun));
    assert_eq!(say(&theirs, "/v1/sessions", "c-1", "hi").status, 404, "also once nothing runs in it");
    assert_eq!(say(&theirs, "/v1/sessions?wait=15s", "c-2", "hi").status, 200);
}
