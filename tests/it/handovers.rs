//! Hand-overs at the built program: listed, claimed and closed over HTTP and on the command line,
//! told to a webhook that is down for a while, and seen in the metrics after a restart.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod receiver;

use std::{sync::Barrier, thread};

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD as STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

use self::receiver::{Receiver, free_port};
use crate::process::{Answer, Client, Home, Server};

/// The key of the hand-overs' signatures, and that of the confirmations'.
const SECRETS: [[u8; 32]; 2] = [[7; 32], [9; 32]];

/// An agent whose only step allowed asks for a tool, so that every session is handed over; and the
/// bank, whose block of the card waits for a person. Two operators, a user.
const CONFIG: &str = "
agents:
  lost: {system_prompt: x, model: lost, language: en, tools: [txn_sum], task_types: [other], limits: {max_iterations: 1, token_budget: 50000}}
  bank: {system_prompt: x, model: bank, language: ru, tools: [card_block], task_types: [card], limits: {token_budget: 50000}}
models:
  lost: {provider: scripted, script: lost.yaml}
  bank: {provider: scripted, script: bank}
tools:
  txn_sum: {builtin: txn_sum, scopes: []}
  card_block: {builtin: card_block, confirm: suspend, confirm_expires: EXPIRES, scopes: []}
server: {lease: 1s}
store: {synchronous: normal}
";
const LOST: &str = "
name: lost
rules:
  - when: {tools_offered: false}
    text: Nothing is known.
  - call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}
";

fn home(more: &str) -> Home {
    let home = Home::configured(&format!("{}{more}", CONFIG.replace("EXPIRES", "1h")));
    home.write("lost.yaml", LOST);
    home
}

/// Keys of two operators, an approver who is none, and a user.
fn logins() -> String {
    let key = |name: &str, roles: &str| {
        let hash = glassbox::core::BlobHash::from_bytes(sha(&key_of(name)));
        format!("    {name}: {{hash: \"{hash}\", principal: {{id: {name}, roles: [{roles}]}}}}\n")
    };
    let keys = [("anna", "operator"), ("boris", "operator"), ("user", "user")].map(|(name, roles)| key(name, roles));
    format!("auth:\n  api_keys:\n{}", keys.concat())
}

fn sha(text: &str) -> [u8; 32] {
    ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref().try_into().unwrap()
}

fn key_of(name: &str) -> String {
    format!("gbx_{}", BASE64_URL_SAFE_NO_PAD.encode([name.as_bytes()[0]; 32]))
}

fn webhooks(port: u16) -> String {
    let hook = |name: &str| {
        format!(
            "{name}:\n  webhook: {{url: \"http://127.0.0.1:{port}/{name}\", secret: {{env: SECRET_{name}}}, timeout: 2s}}\n"
        )
    };
    format!("{}{}", hook("handovers"), hook("confirmations"))
}

fn with_secrets(home: Home) -> Home {
    let secret = |bytes: [u8; 32]| format!("whsec_{}", STANDARD.encode(bytes));
    home.variable("SECRET_handovers", secret(SECRETS[0])).variable("SECRET_confirmations", secret(SECRETS[1]))
}

fn as_who(client: &Client, who: &str, method: &str, path: &str, body: &str) -> Answer {
    let authorization = format!("Bearer {}", key_of(who));
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    client.request(method, path, &headers, body)
}

/// A session that ends without its answer; gives its id.
fn hand_over(client: &Client) -> String {
    let report = client.run_as("lost", "find it");
    assert_eq!(report["status"], "max_iterations", "{report}");
    report["session_id"].as_str().unwrap().to_owned()
}

fn handovers(client: &Client, query: &str) -> Vec<Value> {
    let answer = client.get(&format!("/v1/handovers{query}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["handovers"].as_array().unwrap().clone()
}

fn act(client: &Client, id: &str, action: &str) -> Answer {
    client.post(&format!("/v1/handovers/{id}"), &json!({"action": action, "comment": "я займусь"}).to_string())
}

fn metric(client: &Client, series: &str) -> f64 {
    let text = client.get("/metrics").body;
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
}

fn name_of(record: &Value) -> String {
    record["handover_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_without_its_answer_is_listed_claimed_and_closed() {
    let home = home("");
    let server = home.serve();
    assert_eq!(handovers(&server, ""), [] as [Value; 0]);
    assert_eq!(metric(&server, "glassbox_handovers_open"), 0.0);
    let session = hand_over(&server);
    let [record] = <[Value; 1]>::try_from(handovers(&server, "?status=open")).unwrap();
    let id = name_of(&record);
    assert_eq!(record["session_id"], json!(session));
    assert_eq!(
        (&record["status"], &record["cause"], &record["tool"]),
        (&json!("open"), &json!("session_ended"), &json!(null))
    );
    assert_eq!((&record["principal"], &record["agent"]), (&json!("C-001"), &json!("lost")));
    assert_eq!(metric(&server, "glassbox_handovers_open"), 1.0);

    let claimed = act(&server, &id, "claim");
    assert_eq!(claimed.status, 200, "{claimed:?}");
    assert_eq!(claimed.json()["claimed"]["by"], "C-001");
    assert_eq!(act(&server, &id, "claim").json(), claimed.json(), "asking again changes nothing");
    assert_eq!(metric(&server, "glassbox_handovers_open"), 0.0);
    assert_eq!(metric(&server, "glassbox_handover_oldest_seconds"), 0.0);
    let closed = act(&server, &id, "close");
    assert_eq!((closed.status, &closed.json()["status"]), (200, &json!("closed")));
    assert_eq!(act(&server, &id, "close").json(), closed.json());
    let refused = act(&server, &id, "claim");
    assert_eq!((refused.status, &refused.json()["handover_status"]), (409, &json!("closed")));
    assert_eq!(act(&server, &format!("hand_{}_1", "0".repeat(32)), "claim").status, 404);
    assert_eq!(act(&server, "hand_1", "claim").status, 404);
    assert_eq!(server.post(&format!("/v1/handovers/{id}"), "{}").status, 422);
    assert_eq!(handovers(&server, "?status=closed").len(), 1);
    assert_eq!(server.get("/v1/handovers?status=lost").status, 400);

    // Who did what stands in the system journal; what was said does not.
    server.stop();
    let file = rusqlite::Connection::open(home.data().join("glassbox.db")).unwrap();
    let sql = "SELECT body FROM fact WHERE name = 'handover_changed' ORDER BY seq";
    let facts: Vec<String> =
        file.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    let facts: Vec<Value> = facts.iter().map(|fact| serde_json::from_str(fact).unwrap()).collect();
    let change = |to: &str| json!({"handover_changed": {"handover": id, "to": to, "by": "C-001"}});
    assert_eq!(facts, [change("claimed"), change("closed")]);
}

#[test]
fn operators_only_and_of_two_at_once_one_wins() {
    let home = home(&logins());
    let server = home.serve();
    let task = json!({"agent": "lost", "task": "find it"}).to_string();
    assert_eq!(as_who(&server, "user", "POST", "/v1/sessions?wait=15s", &task).status, 200);
    let mut pages = Vec::new();
    assert_eq!(as_who(&server, "user", "GET", "/v1/handovers", "").status, 403);
    for _ in 0..5 {
        as_who(&server, "user", "POST", "/v1/sessions?wait=15s", &task);
    }
    let mut before = String::new();
    loop {
        let page = as_who(&server, "anna", "GET", &format!("/v1/handovers?limit=4{before}"), "").json();
        let Some(last) = page["handovers"].as_array().unwrap().last() else { break };
        before = format!("&before={}", name_of(last));
        pages.push(page["handovers"].as_array().unwrap().iter().map(name_of).collect::<Vec<_>>());
    }
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [4, 2]);
    for id in pages.concat() {
        let (start, client): (Barrier, Client) = (Barrier::new(2), *server);
        let claim = |who: &str| {
            start.wait();
            as_who(&client, who, "POST", &format!("/v1/handovers/{id}"), r#"{"action": "claim"}"#).status
        };
        let mut got = thread::scope(|scope| {
            let threads = ["anna", "boris"].map(|who| scope.spawn(move || claim(who)));
            threads.map(|thread| thread.join().unwrap())
        });
        got.sort_unstable();
        assert_eq!(got, [200, 409], "{id}");
    }
    let refused = as_who(&server, "nobody", "GET", "/v1/handovers", "");
    assert_eq!(refused.status, 401);
    assert_eq!(metric(&server, "glassbox_logins_refused_total{reason=\"invalid\"}"), 1.0);
    assert_eq!(metric(&server, "glassbox_logins_refused_total{reason=\"missing\"}"), 0.0);
}

#[test]
fn the_age_of_the_oldest_is_true_after_a_restart_and_open_ones_outlive_their_session() {
    let home = home("");
    let server = home.serve();
    let session = hand_over(&server);
    server.stop();
    // It was opened an hour ago, as far as the file says.
    let file = rusqlite::Connection::open(home.data().join("glassbox.db")).unwrap();
    file.execute("UPDATE handover SET opened = opened - 3600000000000", []).unwrap();
    drop(file);
    let server = home.serve();
    assert_eq!(metric(&server, "glassbox_handovers_open"), 1.0);
    let age = metric(&server, "glassbox_handover_oldest_seconds");
    assert!((3600.0..3700.0).contains(&age), "{age}");
    assert_eq!(server.request("DELETE", &format!("/v1/sessions/{session}"), &[], "").status, 204);
    let [record] = <[Value; 1]>::try_from(handovers(&server, "")).unwrap();
    assert_eq!(
        (&record["erased"], &record["principal"], &record["detail"]),
        (&json!(true), &json!(null), &json!(null))
    );
    assert_eq!(act(&server, &name_of(&record), "close").status, 200);
    assert_eq!(metric(&server, "glassbox_handovers_open"), 0.0);
}

#[test]
fn the_command_line_lists_claims_and_closes() {
    let home = home("");
    assert_eq!(home.ask(&["handover", "list"]), "no hand-overs");
    assert_eq!(home.run(&["run", "--agent", "lost", "find it"]).code, Some(3));
    let listed = home.ask(&["handover", "list", "--status", "open"]);
    let id = listed.split_whitespace().find(|word| word.starts_with("hand_")).unwrap().to_owned();
    assert!(listed.contains("session_ended"), "{listed}");
    assert_eq!(home.ask(&["handover", "claim", &id, "--comment", "mine"]), format!("{id} is claimed"));
    let closed: Value = serde_json::from_str(&home.ask(&["--json", "handover", "close", &id])).unwrap();
    assert_eq!((&closed["status"], &closed["claimed"]["comment"]), (&json!("closed"), &json!("mine")));
    let again = home.run(&["handover", "claim", &id]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("was closed at"), "{again:?}");
    assert_eq!(home.run(&["handover", "claim", "hand_1"]).code, Some(64));
}

#[test]
fn a_webhook_that_is_down_is_told_once_it_is_up_after_a_restart_too() {
    let port = free_port();
    let home = with_secrets(home(&webhooks(port)));
    let server = home.serve();
    let session = hand_over(&server);
    let failed = "glassbox_webhooks_total{hook=\"handovers\",outcome=\"failed\"}";
    until(&server, |server| metric(server, failed) >= 1.0);
    server.process.signal("KILL");
    drop(server);

    // It answers, but not with success; then it takes the notice.
    let receiver = Receiver::on(port, &[503, 200]);
    let server = home.serve();
    let [refused, taken] = [receiver.next(), receiver.next()];
    let record = handovers(&server, "").remove(0);
    for notice in [&refused, &taken] {
        notice.check_signature(&SECRETS[0]);
        assert_eq!(
            (notice.path.as_str(), notice.header("webhook-id")),
            ("/handovers", Some(name_of(&record).as_str()))
        );
        let body = notice.json();
        assert_eq!(body["type"], "handover.opened");
        assert_eq!(body["timestamp"], record["opened_at"]);
        let expected = json!({
            "handover_id": record["handover_id"], "session_id": session, "cause": "session_ended", "tool": null,
            "agent": "lost", "task_type": "other",
        });
        assert_eq!(body["data"], expected);
    }
    let delivered = "glassbox_webhooks_total{hook=\"handovers\",outcome=\"delivered\"}";
    until(&server, |server| metric(server, delivered) >= 1.0);
    server.stop();
    let server = home.serve();
    let second = hand_over(&server);
    assert_eq!(receiver.next().json()["data"]["session_id"], json!(second), "what was taken is not told again");
}

#[test]
fn a_call_that_waits_is_told_of_without_its_arguments() {
    let receiver = Receiver::on(free_port(), &[]);
    let home = with_secrets(home(&webhooks(receiver.port)));
    let server = home.serve();
    let begun = server.post("/v1/sessions", &json!({"agent": "bank", "task": "Заблокируй мою карту"}).to_string());
    let session = begun.json()["session_id"].clone();
    let notice = receiver.next();
    notice.check_signature(&SECRETS[1]);
    let pending = server.get("/v1/confirmations").json()["confirmations"][0].clone();
    let body = notice.json();
    assert_eq!((notice.path.as_str(), &body["type"]), ("/confirmations", &json!("confirmation.requested")));
    let expected = json!({
        "session_id": session, "call_id": pending["call_id"], "tool": "card_block", "agent": "bank",
        "arguments_hash": pending["arguments_hash"], "expires_at": pending["expires_at"],
    });
    assert_eq!(body["data"], expected);
    assert!(metric(&server, "glassbox_confirmation_oldest_seconds") < 60.0);
    assert_eq!(metric(&server, "glassbox_confirmations_pending"), 1.0);
}

#[test]
fn nobody_calls_and_what_waits_expires_all_the_same() {
    let home = Home::configured(&CONFIG.replace("EXPIRES", "1s"));
    home.write("lost.yaml", LOST);
    let mut server: Server<'_> = home.serve();
    let begun = server.post("/v1/sessions", &json!({"agent": "bank", "task": "Заблокируй мою карту"}).to_string());
    let session = begun.json()["session_id"].as_str().unwrap().to_owned();
    // The service is asked for nothing; its events say what it does by itself.
    let line = server.process.out.until(|line| line.contains("\"confirmation_decided\""));
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&event["session_id"], &event["decision"]), (&json!(session), &json!("expired")));
    server.process.out.until(|line| line.contains("\"agent_session_finished\""));
    assert_eq!(metric(&server, "glassbox_confirmations_pending"), 0.0);
    assert_eq!(metric(&server, "glassbox_confirmation_oldest_seconds"), 0.0);
}

/// Asks again until it is so.
fn until(server: &Client, wanted: impl Fn(&Client) -> bool) {
    for _ in 0..2000 {
        if wanted(server) {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never becomes so");
}
