//! `glassbox session` against a server that runs, at the built program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::process::{Answer, Finished, Home, Server};

const BLOCK: &str = "Заблокируй мою карту";
const QUESTION: &str = "Сколько я потратил на такси в сентябре?";

fn key() -> String {
    format!("gbx_{}", BASE64_URL_SAFE_NO_PAD.encode([7; 32]))
}

/// The bank, whose block of the card waits for a person, and one key, of the customer.
fn bank() -> Home {
    let hash: String = Sha256::digest(key()).iter().map(|byte| format!("{byte:02x}")).collect();
    let principal = "{id: C-001, scopes: [spending:read, card:block], roles: [user]}";
    let auth = format!("auth:\n  api_keys:\n    app: {{hash: \"sha256:{hash}\", principal: {principal}}}\n");
    let config = glassbox::config::DEFAULT_YAML
        .replace("confirm: ask_customer", "confirm: suspend")
        .replace("auth: # who callers are\n", &auth);
    Home::configured(&config)
}

/// The command line of somebody on another machine, who has the key and no data.
fn far(server: &Server<'_>, arguments: &[&str]) -> Finished {
    // Nobody listens there: a proxy of the environment is not asked the way to this machine.
    let far = Home::new().variable("GLASSBOX_API_KEY", key()).variable("http_proxy", "http://127.0.0.1:9");
    let place = format!("http://{}", server.address());
    let finished = far.run(&[&["session", "--server", &place], arguments].concat());
    assert!(!far.data().exists(), "nothing is opened here");
    assert!(!finished.out.contains("gbx_") && !finished.err.contains("gbx_"), "{finished:?}");
    finished
}

fn good(server: &Server<'_>, arguments: &[&str]) -> String {
    let finished = far(server, arguments);
    assert_eq!(finished.code, Some(0), "{arguments:?} gives {finished:?}");
    finished.out
}

fn begin(server: &Server<'_>, task: &str, until: &str) -> String {
    let bearer = format!("Bearer {}", key());
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let body = serde_json::json!({"task": task}).to_string();
    let begun = server.request("POST", "/v1/sessions?wait=15s", &headers, &body);
    let id = begun.json()["session_id"].as_str().unwrap().to_owned();
    let stands = |answer: &Answer| answer.json()["status"] == until;
    let path = format!("/v1/sessions/{id}");
    assert!((0..4000).any(|_| stands(&server.request("GET", &path, &headers, ""))), "{id} never is {until}");
    id
}

#[test]
fn a_session_far_away_looks_as_one_at_hand() {
    let home = bank();
    let server = home.serve();
    let id = begin(&server, QUESTION, "done");
    let (listed, shown) = (good(&server, &["list"]), good(&server, &["show", &id[..14]]));
    let json: Value = serde_json::from_str(&good(&server, &["show", &id, "--json"])).unwrap();
    assert_eq!(server.stop().code, Some(0));
    assert_eq!(listed, home.ask(&["session", "list"]));
    assert_eq!(shown, home.ask(&["session", "show", &id]));
    assert!(shown.contains("Такси в сентябре: 2 поездки, 5000 ₸."), "{shown}");
    let near: Value = serde_json::from_str(&home.ask(&["session", "show", &id, "--json"])).unwrap();
    assert_eq!(json["session"], near["session"]);
    assert_eq!(json["facts"], near["facts"]);
}

#[test]
fn a_call_is_agreed_to_from_far_away_once() {
    let home = bank();
    let server = home.serve();
    let id = begin(&server, BLOCK, "awaiting_confirmation");
    let shown = good(&server, &["show", &id]);
    assert!(shown.contains("? card_block {} · call_1_1"), "{shown}");
    assert_eq!(good(&server, &["confirm", &id, "--approve", "--comment", "by phone"]), "call_1_1 is approved");
    let late = far(&server, &["confirm", &id, "--call", "call_1_1", "--deny"]);
    assert_eq!(late.code, Some(1));
    assert!(late.err.contains("answers 409: call \"call_1_1\" is approved already"), "{}", late.err);

    let second = begin(&server, BLOCK, "awaiting_confirmation");
    let cancelled = good(&server, &["cancel", &second]);
    assert!(cancelled.contains(&format!("{second} is asked to stop")), "{cancelled}");
    let rows = good(&server, &["list", "--status", "awaiting_confirmation"]);
    assert!(!rows.contains(&id), "{rows}");
}

#[test]
fn what_goes_wrong_far_away_is_said_here() {
    let home = bank();
    let server = home.serve();
    let unknown = "sess_00000000000000000000000000000000";
    let finished = far(&server, &["show", unknown]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.err.contains("answers 404:") && finished.err.contains(unknown), "{}", finished.err);

    let place = format!("http://{}", server.address());
    let nobody = Home::new().run(&["session", "--server", &place, "list"]);
    assert!(nobody.err.contains("answers 401:") && nobody.err.contains("GLASSBOX_API_KEY"), "{}", nobody.err);
    for (command, hint) in [
        (&["show", unknown, "--raw"][..], "without --server"),
        (&["resume"], "name one session"),
        (&["export", "--all"], "without --server"),
    ] {
        let finished = far(&server, command);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.err.contains(hint), "{}", finished.err);
    }
    let address = server.address();
    assert_eq!(server.stop().code, Some(0));
    let gone = Home::new().variable("GLASSBOX_SERVER", format!("http://{address}")).run(&["session", "list"]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.err.contains(&format!("http://{address}/ does not answer")), "{}", gone.err);
}
