//! Who callers are, at the built program: who may do what, and which keys and tokens count.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod login_service;
mod matrix;
mod tokens;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::process::{Answer, Client, Home};

const BLOCK: &str = "Заблокируй мою карту";

/// A caller of the tests: a name, a principal, its roles, and the byte that its key is made of.
const CALLERS: [(&str, &str, &str, u8); 4] = [
    ("owner", "C-001", "user", 1),
    ("other", "C-002", "user", 2),
    ("approver", "staff-1", "approver", 3),
    ("operator", "ops-1", "operator", 4),
];

/// The key of a caller.
pub(crate) fn key(caller: &str) -> String {
    let (.., byte) = CALLERS.iter().find(|(name, ..)| *name == caller).unwrap();
    format!("gbx_{}", BASE64_URL_SAFE_NO_PAD.encode([*byte; 32]))
}

/// The hash of a caller's key, as configuration has it.
pub(crate) fn hash_of_key(caller: &str) -> String {
    let hex: String = Sha256::digest(key(caller)).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// The bank, whose block of the card waits for a person, with a key for each caller and more
/// lines under `auth`.
pub(crate) fn bank(more: &str) -> Home {
    let mut auth = "auth:\n  api_keys:\n".to_owned();
    for (name, id, role, _) in CALLERS {
        let hash = hash_of_key(name);
        let scopes = "[spending:read, card:block]";
        auth.push_str(&format!(
            "    {name}: {{hash: \"{hash}\", principal: {{id: {id}, scopes: {scopes}, roles: [{role}]}}}}\n"
        ));
    }
    let config = glassbox::config::DEFAULT_YAML
        .replace("confirm: ask_customer", "confirm: suspend")
        .replace("auth: # who callers are\n", &format!("{auth}{more}"));
    Home::configured(&config)
}

/// A request of a caller; of nobody, where it has no name.
pub(crate) fn ask(client: &Client, caller: Option<&str>, method: &str, path: &str, body: &str) -> Answer {
    let bearer = caller.map(|caller| format!("Bearer {}", key(caller)));
    shown(client, bearer.as_deref(), method, path, body)
}

/// A request with this `Authorization`.
fn shown(client: &Client, authorization: Option<&str>, method: &str, path: &str, body: &str) -> Answer {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(authorization.map(|value| ("authorization", value)));
    client.request(method, path, &headers, body)
}

/// A session of the owner that waits for a decision on `call_1_1`.
pub(crate) fn waiting(client: &Client) -> String {
    let body = json!({"task": BLOCK}).to_string();
    let answer = ask(client, Some("owner"), "POST", "/v1/sessions?wait=15s", &body);
    assert_eq!((answer.status, &answer.json()["status"]), (202, &json!("awaiting_confirmation")), "{answer:?}");
    answer.json()["session_id"].as_str().unwrap().to_owned()
}

fn detail(answer: &Answer) -> String {
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    answer.json()["detail"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_refused_says_why_and_how_to_log_in() {
    let home = bank("");
    let server = home.serve();
    for (authorization, word, error) in [
        (None, "this needs a login", false),
        (Some("Bearer"), "this needs a login", false),
        (Some("Basic dXNlcjpwYXNz"), "must be Bearer", true),
        (Some("Bearer gbx_AAAA"), "this API key is not known", true),
        (Some("Bearer a.b.c"), "tokens are not taken here", true),
    ] {
        let answer = shown(&server, authorization, "GET", "/v1/sessions", "");
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(detail(&answer).contains(word), "{answer:?}");
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer realm=\"glassbox\""), "{challenge}");
        assert_eq!(challenge.contains("error=\"invalid_token\""), error, "{challenge}");
    }
    let own_header = server.request("GET", "/v1/sessions", &[("x-api-key", &key("owner"))], "");
    assert_eq!(own_header.status, 200, "{own_header:?}");
    let by_name = server.request(
        "GET",
        "/v1/sessions",
        &[("host", "bank.example"), ("authorization", &format!("Bearer {}", key("owner")))],
        "",
    );
    assert_eq!(by_name.status, 200, "with a login the service may have any name: {by_name:?}");
}

#[test]
fn a_new_key_opens_the_service_and_is_in_no_file() {
    let made: Value = serde_json::from_str(&Home::new().ask(&["auth", "new-key", "app", "--json"])).unwrap();
    let (key, hash) = (made["key"].as_str().unwrap(), made["hash"].as_str().unwrap());
    assert!(key.starts_with("gbx_") && key.len() == 4 + 43, "{made}");
    let text = glassbox::config::DEFAULT_YAML.replace(
        "auth: # who callers are\n",
        &format!("auth:\n  api_keys: {{app: {{hash: \"{hash}\", principal: {{id: C-9}}}}}}\n"),
    );
    // Whatever is logged of a request, its key is not.
    let home = Home::configured(&text).variable("GLASSBOX__TELEMETRY__LOG", "trace");
    let server = home.serve();
    let task = json!({"task": "Сколько я потратил на такси в сентябре?"}).to_string();
    let bearer = format!("Bearer {key}");
    let answer = shown(&server, Some(&bearer), "POST", "/v1/sessions?wait=15s", &task);
    assert_eq!(answer.status, 200, "{answer:?}");
    let wrong = format!("{}{}", &key[..46], if key.ends_with('A') { "E" } else { "A" });
    assert_eq!(shown(&server, Some(&format!("Bearer {wrong}")), "GET", "/v1/sessions", "").status, 401);
    let finished = server.stop();
    for secret in [key, &wrong] {
        assert!(!finished.err.contains(secret) && !finished.out.contains(secret), "the key is in what was logged");
        for file in std::fs::read_dir(home.data()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
        }
    }
    let checked = home.ask(&["check"]);
    assert!(checked.contains(hash) && !checked.contains(key), "{checked}");
}

#[test]
fn who_decided_stands_in_the_journal() {
    let home = bank("");
    let server = home.serve();
    let id = waiting(&server);
    let listed = ask(&server, Some("approver"), "GET", "/v1/confirmations", "").json();
    let call = &listed["confirmations"][0];
    assert_eq!(
        (&call["session_id"], &call["tool"], &call["arguments"]),
        (&json!(id), &json!("card_block"), &json!({}))
    );
    let shown: Vec<_> = call.as_object().unwrap().keys().map(String::as_str).collect();
    let fields = ["call_id", "tool", "arguments", "arguments_hash", "requested_at", "expires_at", "session_id"];
    assert_eq!(shown, fields, "an approver sees the call and nothing else of the session");
    assert_eq!(ask(&server, Some("other"), "GET", "/v1/confirmations", "").json()["confirmations"], json!([]));

    let place = format!("/v1/sessions/{id}/confirmations/call_1_1");
    let yes = r#"{"decision": "approve"}"#;
    assert_eq!(ask(&server, Some("approver"), "POST", &place, yes).status, 200);
    let journal = ask(&server, Some("owner"), "GET", &format!("/v1/sessions/{id}/journal"), "");
    assert!(journal.body.contains(r#""by":"staff-1""#), "{}", journal.body);
    let elsewhere = format!("/v1/sessions/{id}/confirmations/call_9_9");
    assert_eq!(ask(&server, Some("approver"), "POST", &elsewhere, yes).status, 404);
}

#[test]
fn four_eyes_keep_everybody_from_agreeing_to_their_own() {
    let home = bank("  approvers: role\n");
    let server = home.serve();
    let id = waiting(&server);
    let place = format!("/v1/sessions/{id}/confirmations/call_1_1");
    let yes = r#"{"decision": "approve"}"#;
    let own = ask(&server, Some("owner"), "POST", &place, yes);
    assert_eq!(own.status, 403, "{own:?}");
    assert!(detail(&own).contains("someone else with the role approver"), "{own:?}");
    assert_eq!(ask(&server, Some("operator"), "POST", &place, yes).status, 403);
    assert_eq!(ask(&server, Some("other"), "POST", &place, yes).status, 404);
    assert_eq!(ask(&server, Some("approver"), "POST", &place, yes).status, 200);

    let body = json!({"task": BLOCK}).to_string();
    let own = ask(&server, Some("approver"), "POST", "/v1/sessions?wait=15s", &body).json();
    let place = format!("/v1/sessions/{}/confirmations/call_1_1", own["session_id"].as_str().unwrap());
    assert_eq!(ask(&server, Some("approver"), "POST", &place, yes).status, 403);
}

#[test]
fn where_only_owners_decide_an_approver_sees_nothing() {
    let home = bank("  approvers: owner\n");
    let server = home.serve();
    let id = waiting(&server);
    let place = format!("/v1/sessions/{id}/confirmations/call_1_1");
    let yes = r#"{"decision": "approve"}"#;
    assert_eq!(ask(&server, Some("approver"), "POST", &place, yes).status, 404);
    assert_eq!(ask(&server, Some("approver"), "GET", "/v1/confirmations", "").json()["confirmations"], json!([]));
    assert_eq!(ask(&server, Some("owner"), "POST", &place, yes).status, 200);
}
