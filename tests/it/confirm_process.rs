//! Calls that wait for a person, at the built program: the command line and the service.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use serde_json::{Value, json};

use crate::process::{Home, Running, have};

const BLOCK: &str = "Заблокируй мою карту";
const BLOCKED: &str = "Готово: карта заблокирована.";

/// The bank assistant, whose block of the card waits for a person.
fn bank() -> Home {
    let config = glassbox::config::DEFAULT_YAML.replace("confirm: ask_customer", "confirm: suspend");
    Home::configured(&config)
}

/// Blocks of cards that happened, and the state of the customer's card.
fn blocks(home: &Home) -> (i64, String) {
    let bank = rusqlite::Connection::open(home.data().join("bank.sqlite")).unwrap();
    let one = |sql: &str| bank.query_row(sql, [], |row| row.get(0));
    let blocks = one("SELECT count(*) FROM card_blocks").unwrap_or(0);
    let state = bank.query_row("SELECT state FROM cards WHERE customer_id = 'C-001'", [], |row| row.get(0));
    (blocks, state.unwrap_or_else(|_| "untouched".to_owned()))
}

fn session_of(out: &str) -> String {
    let at = out.find("sess_").expect("the session is named");
    out[at..at + 37].to_owned()
}

#[test]
fn in_a_pipe_run_suspends_and_confirm_approves_once() {
    let home = bank();
    let finished = home.run(&["run", BLOCK]);
    assert_eq!(finished.code, Some(4), "{finished:?}");
    let id = session_of(&finished.out);
    let hint = format!("`glassbox session confirm {id} --approve` lets it run, `--deny` does not");
    assert!(finished.out.contains(&hint), "{}", finished.out);
    assert_eq!(blocks(&home).0, 0);
    let shown = home.ask(&["session", "show", &id]);
    assert!(shown.contains("? card_block {} · call_1_1 · until ") && shown.contains(&hint), "{shown}");
    assert_eq!(home.run(&["session", "resume", &id]).code, Some(1), "only a decision makes it go on");
    assert_eq!(home.run(&["session", "confirm", &id]).code, Some(64), "yes or no must be said");

    let approved = home.run(&["session", "confirm", &id, "--approve"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(approved.out.ends_with(BLOCKED), "{}", approved.out);
    assert_eq!(blocks(&home), (1, "blocked".to_owned()));

    let again = home.run(&["session", "confirm", &id, "--call", "call_1_1", "--approve"]);
    assert_eq!((again.code, again.out), (Some(0), format!("call_1_1 is approved; {id} is done")));
    let denied = home.run(&["session", "confirm", &id, "--call", "call_1_1", "--deny"]);
    assert_eq!((denied.code, denied.err.as_str()), (Some(1), "glassbox: call \"call_1_1\" is approved already"));
    assert_eq!(blocks(&home), (1, "blocked".to_owned()));
}

#[test]
fn json_tells_what_waits_and_a_denial_reaches_the_model() {
    let home = bank();
    let finished = home.run(&["run", "--json", BLOCK]);
    assert_eq!(finished.code, Some(4), "{finished:?}");
    let report: Value = serde_json::from_str(&finished.out).unwrap();
    assert_eq!(report["status"], "awaiting_confirmation");
    assert_eq!(report["pending_confirmations"][0]["tool"], "card_block");
    let id = report["session_id"].as_str().unwrap();
    let denied = home.run(&["session", "confirm", id, "--deny", "--comment", "это не я"]);
    assert_eq!(denied.code, Some(0), "{denied:?}");
    assert!(denied.out.contains("They say: это не я"), "{}", denied.out);
    assert_eq!(blocks(&home).0, 0);
}

#[test]
fn the_service_shows_what_waits_and_takes_one_decision() {
    let home = bank();
    let server = home.serve();
    let id = server.begin(BLOCK);
    let path = format!("/v1/sessions/{id}");
    let waits = |answer: &crate::process::Answer| answer.json()["status"] == "awaiting_confirmation";
    let report = server.get_until(&path, waits).json();
    let call = &report["pending_confirmations"][0];
    assert_eq!(
        (&call["call_id"], &call["tool"], &call["arguments"]),
        (&json!("call_1_1"), &json!("card_block"), &json!({}))
    );
    assert!(call["expires_at"].as_str().is_some_and(|time| time.ends_with('Z')));
    let listed = server.get("/v1/confirmations").json();
    assert_eq!(listed["confirmations"][0]["session_id"], json!(id));
    assert_eq!(listed["confirmations"][0]["arguments_hash"], call["arguments_hash"]);

    let decide = format!("{path}/confirmations/call_1_1");
    let post = |path: &str, body: Value| server.post(path, &body.to_string());
    let other = format!("sha256:{}", "0".repeat(64));
    let wrong = post(&decide, json!({"decision": "approve", "arguments_hash": other}));
    assert_eq!((wrong.status, &wrong.json()["arguments_hash"]), (409, &call["arguments_hash"]));
    assert_eq!(post(&decide, json!({"decision": "perhaps"})).status, 422);
    assert_eq!(server.request("POST", &decide, &[], r#"{"decision":"approve"}"#).status, 415);
    assert_eq!(post(&format!("{path}/confirmations/call_9"), json!({"decision": "approve"})).status, 404);
    let nobody = format!("/v1/sessions/sess_{}/confirmations/call_1_1", "0".repeat(32));
    assert_eq!(post(&nobody, json!({"decision": "approve"})).status, 404);
    assert!(server.get("/metrics").body.contains("\nglassbox_confirmations_pending 1\n"));

    let right = json!({"decision": "approve", "arguments_hash": call["arguments_hash"]});
    let approved = post(&decide, right.clone());
    assert_eq!((approved.status, &approved.json()["decision"]), (200, &json!("approved")));
    assert_eq!(post(&decide, right).json(), approved.json(), "the same again changes nothing");
    let no = post(&decide, json!({"decision": "deny"}));
    assert_eq!((no.status, &no.json()["decision"]), (409, &json!("approved")));
    let report = server.get_until(&path, |answer| answer.json()["status"] == "done").json();
    assert_eq!((&report["answer"], &report["pending_confirmations"]), (&json!(BLOCKED), &json!([])));
    assert_eq!(server.get("/v1/confirmations").json(), json!({"confirmations": []}));
    assert_eq!(blocks(&home), (1, "blocked".to_owned()));

    // What waits can be stopped, too.
    let id = server.begin(BLOCK);
    server.get_until(&format!("/v1/sessions/{id}"), waits);
    assert_eq!(server.post(&format!("/v1/sessions/{id}/cancel"), "").status, 202);
    server.get_until(&format!("/v1/sessions/{id}"), |answer| answer.json()["status"] == "cancelled");
    assert_eq!(server.stop().code, Some(0));
}

/// `run` on a real terminal at which somebody types this.
fn at_a_terminal(home: &Home, typed: &str) -> crate::process::Finished {
    let mut command = std::process::Command::new("sh");
    home.dress(&mut command);
    let run = format!("{} run '{BLOCK}'", env!("CARGO_BIN_EXE_glassbox"));
    let script = format!("printf '{typed}' | script -qec \"{run}\" /dev/null");
    Running::start(command.args(["-c", &script]).env("TERM", "xterm-256color")).end()
}

#[test]
fn at_a_terminal_the_person_is_asked() {
    if !have("script") {
        return;
    }
    let home = bank();
    let yes = at_a_terminal(&home, "y\\n");
    assert_eq!(yes.code, Some(0), "{yes:?}");
    assert!(yes.out.contains("run it? [y/N]") && yes.out.contains(BLOCKED), "{}", yes.out);
    assert_eq!(blocks(&home), (1, "blocked".to_owned()));

    let no = at_a_terminal(&home, "n\\n");
    assert_eq!(no.code, Some(0), "{no:?}");
    assert!(no.out.contains("A person said no to this call of card_block"), "{}", no.out);
    // Whoever goes away leaves it waiting.
    let gone = at_a_terminal(&home, "");
    assert_eq!(gone.code, Some(4), "{gone:?}");
    assert!(gone.out.contains("glassbox session confirm sess_"), "{}", gone.out);
    assert_eq!(blocks(&home).0, 1);
}
