//! Every route and every caller: a table of what they get.

use serde_json::json;

use super::{ask, bank, waiting};
use crate::process::Client;

/// Nobody, the session's owner, another user, an approver, an operator.
const WHO: [Option<&str>; 5] = [None, Some("owner"), Some("other"), Some("approver"), Some("operator")];

/// Method, route, query, body, and the status for each caller. `{id}` is a session of the owner
/// that waits, or the owner.
const TABLE: &[(&str, &str, &str, &str, [u16; 5])] = &[
    ("GET", "/healthz", "", "", [200, 200, 200, 200, 200]),
    ("GET", "/readyz", "", "", [200, 200, 200, 200, 200]),
    ("GET", "/metrics", "", "", [200, 200, 200, 200, 200]),
    ("GET", "/v1/sessions", "", "", [401, 200, 200, 200, 200]),
    ("GET", "/v1/sessions", "?principal=C-001", "", [401, 200, 403, 403, 200]),
    ("POST", "/v1/sessions", "", r#"{"task": "hi"}"#, [401, 202, 202, 202, 202]),
    ("GET", "/v1/sessions/{id}", "", "", [401, 200, 404, 404, 200]),
    ("DELETE", "/v1/sessions/{id}", "", "", [401, 204, 404, 404, 204]),
    ("GET", "/v1/sessions/{id}/journal", "", "", [401, 200, 404, 404, 200]),
    ("POST", "/v1/sessions/{id}/cancel", "", "", [401, 202, 404, 404, 202]),
    // It waits for a person, whom no resuming replaces.
    ("POST", "/v1/sessions/{id}/resume", "", "", [401, 409, 404, 404, 409]),
    ("POST", "/v1/sessions/{id}/confirmations/{call_id}", "", r#"{"decision": "deny"}"#, [401, 200, 404, 200, 403]),
    ("GET", "/v1/agents", "", "", [401, 200, 200, 200, 200]),
    ("GET", "/v1/tools", "", "", [401, 200, 200, 200, 200]),
    ("GET", "/openapi.json", "", "", [401, 200, 200, 200, 200]),
    ("GET", "/v1/confirmations", "", "", [401, 200, 200, 200, 200]),
    ("GET", "/v1/handovers", "", "", [401, 403, 403, 403, 200]),
    ("POST", "/v1/handovers/{id}", "", r#"{"action": "claim"}"#, [401, 403, 403, 403, 404]),
    ("GET", "/v1/principals/{id}/export", "", "", [401, 200, 403, 403, 200]),
    ("GET", "/v1/circuits", "", "", [401, 200, 200, 200, 200]),
    ("POST", "/v1/circuits/{kind}/{name}", "", r#"{"action": "reset"}"#, [401, 403, 403, 403, 200]),
    ("GET", "/no/such/path", "", "", [401, 404, 404, 404, 404]),
    // Last: it erases what the others began.
    ("DELETE", "/v1/principals/{id}", "", "", [401, 200, 403, 403, 200]),
];

/// The one route that is tried by itself.
const EVENTS: &str = "/v1/sessions/{id}/events";

#[test]
fn every_route_answers_each_caller_as_the_table_says() {
    let home = bank("");
    let server = home.serve();
    for (method, route, query, body, expected) in TABLE {
        let path = |session: &str| {
            let id = match *route {
                route if route.starts_with("/v1/principals") => "C-001",
                // One that is not there.
                route if route.starts_with("/v1/handovers") => "hand_00112233445566778899aabbccddeeff_1",
                _ => session,
            };
            let path = route.replace("{id}", id).replace("{call_id}", "call_1_1");
            format!("{}{query}", path.replace("{kind}", "tool").replace("{name}", "txn_sum"))
        };
        let of_session = route.starts_with("/v1/sessions/{id}");
        let reused = if of_session { waiting(&server) } else { String::new() };
        if *method == "DELETE" && route.starts_with("/v1/principals") {
            settle(&server);
        }
        let mut got = Vec::new();
        for caller in WHO {
            let fresh = of_session && *method != "GET" && matches!(caller, Some("approver" | "operator"));
            let session = if fresh { waiting(&server) } else { reused.clone() };
            got.push(ask(&server, caller, method, &path(&session), body).status);
        }
        assert_eq!(got[..], expected[..], "{method} {route}{query} for {WHO:?}");
    }
}

/// Waits until nothing of the owner runs: what runs is not erased.
fn settle(client: &Client) {
    let running = "/v1/sessions?principal=C-001&status=running";
    let is_idle = |_| ask(client, Some("operator"), "GET", running, "").json()["sessions"] == json!([]);
    assert!((0..4000).any(is_idle), "sessions never end");
}

#[test]
fn the_table_has_every_route() {
    let home = bank("");
    let server = home.serve();
    let document = ask(&server, Some("owner"), "GET", "/openapi.json", "").json();
    let paths = document["paths"].as_object().unwrap();
    let methods = |item: &serde_json::Value| item.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let routes: Vec<_> =
        paths.iter().flat_map(|(path, item)| methods(item).into_iter().map(move |it| (it, path))).collect();
    assert!(routes.len() > 10, "{routes:?}");
    let is_known = |(method, path): &(String, &String)| {
        *path == EVENTS || TABLE.iter().any(|row| row.0.eq_ignore_ascii_case(method) && row.1 == *path)
    };
    let missing: Vec<_> = routes.into_iter().filter(|route| !is_known(route)).collect();
    assert!(missing.is_empty(), "who may ask for {missing:?}?");
}

/// A stream has no end while its session waits, so those who get one are not in the table.
#[test]
fn events_are_streamed_to_whoever_may_see_the_session() {
    let home = bank("");
    let server = home.serve();
    let session = waiting(&server);
    let path = EVENTS.replace("{id}", &session);
    let refused = [None, Some("other"), Some("approver")].map(|who| ask(&server, who, "GET", &path, "").status);
    assert_eq!(refused, [401, 404, 404]);
    assert_eq!(ask(&server, Some("owner"), "POST", &format!("/v1/sessions/{session}/cancel"), "").status, 202);
    let ended = |answer: &crate::process::Answer| answer.json()["status"] == "cancelled";
    assert!((0..4000).any(|_| ended(&ask(&server, Some("owner"), "GET", &format!("/v1/sessions/{session}"), ""))));
    let served = [Some("owner"), Some("operator")].map(|who| ask(&server, who, "GET", &path, "").status);
    assert_eq!(served, [200, 200]);
}

#[test]
fn a_foreign_session_looks_like_one_that_is_not_there() {
    let home = bank("");
    let server = home.serve();
    let (foreign, missing) = (waiting(&server), format!("sess_{}", "0".repeat(32)));
    let yes = r#"{"decision": "approve"}"#;
    for (method, path, body) in [
        ("GET", "", ""),
        ("GET", "/journal", ""),
        ("POST", "/cancel", ""),
        ("POST", "/resume", ""),
        ("DELETE", "", ""),
        ("POST", "/confirmations/call_1_1", yes),
        ("POST", "/confirmations/call_7_7", yes),
    ] {
        let answers = [&foreign, &missing].map(|id| {
            let answer = ask(&server, Some("other"), method, &format!("/v1/sessions/{id}{path}"), body);
            let names = answer.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            (answer.status, answer.body.replace(id.as_str(), "ID"), names)
        });
        assert_eq!(answers[0].0, 404, "{answers:?}");
        assert_eq!(answers[0], answers[1], "{method} {path}");
    }
    let report = ask(&server, Some("owner"), "GET", &format!("/v1/sessions/{foreign}"), "").json();
    assert_eq!(report["status"], "awaiting_confirmation", "nothing of it happened");
}

#[test]
fn operators_list_every_session_and_whose_it_is() {
    let home = bank("");
    let server = home.serve();
    let begun = ["owner", "other"].map(|who| {
        let begun = ask(&server, Some(who), "POST", "/v1/sessions?wait=15s", r#"{"task": "hi"}"#);
        begun.json()["session_id"].clone()
    });
    let list = |who: &str, query: &str| {
        let rows = ask(&server, Some(who), "GET", &format!("/v1/sessions{query}"), "").json();
        let rows = rows["sessions"].as_array().expect("a list").clone();
        rows.iter().map(|row| (row["session_id"].clone(), row["principal"].clone())).collect::<Vec<_>>()
    };
    let [owners, others] = begun;
    let all = [(others.clone(), json!("C-002")), (owners.clone(), json!("C-001"))];
    assert_eq!(list("operator", ""), all);
    assert_eq!(list("operator", "?principal=C-001"), all[1..]);
    assert_eq!(list("owner", ""), [(owners, json!(null))]);
    assert_eq!(list("other", "?principal=C-002"), [(others, json!(null))]);
}

#[test]
fn what_operators_ask_can_need_a_login_too() {
    let home = bank("  protect_ops: true\n");
    let server = home.serve();
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(ask(&server, None, "GET", path, "").status, 401, "{path}");
        assert_eq!(ask(&server, Some("other"), "GET", path, "").status, 200, "{path}");
    }
}
