//! What the service refuses before anything happens: pages of other sites, and requests that ask
//! for what it cannot do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use serde_json::json;

use crate::process::{Answer, Home, Server};

const JSON: (&str, &str) = ("content-type", "application/json");

fn assert_problem(answer: &Answer, status: u16, word: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    let problem = answer.json();
    assert!(problem["detail"].as_str().unwrap().contains(word), "{word:?} is not in {problem}");
}

fn assert_nothing_began(server: &Server<'_>) {
    assert_eq!(server.get("/v1/sessions").json()["sessions"], json!([]));
}

#[test]
fn a_name_that_is_made_to_lead_here_is_refused() {
    let home = Home::new();
    let server = home.serve();
    let body = json!({"task": "hi"}).to_string();
    for host in ["evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "0.0.0.0", "[::2]:80"] {
        for (method, path) in [("POST", "/v1/sessions"), ("GET", "/v1/sessions"), ("GET", "/metrics"), ("GET", "/no")] {
            let answer = server.request(method, path, &[("host", host), JSON], &body);
            assert_problem(&answer, 421, "localhost");
            assert!(answer.header("x-request-id").is_some(), "{answer:?}");
        }
    }
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.9.9.9:8080", "[::1]", "[::1]:8080"] {
        assert_eq!(server.request("GET", "/v1/sessions", &[("host", host)], "").status, 200, "{host}");
    }
    assert_nothing_began(&server);
}

#[test]
fn a_page_of_another_site_changes_nothing() {
    let home = Home::new();
    let server = home.serve();
    let body = json!({"task": "hi"}).to_string();
    for origin in
        ["https://evil.example", "null", "http://localhost.evil.example", "http://localhost:8080", "", "\u{e9}"]
    {
        for (method, path) in [
            ("POST", "/v1/sessions"),
            ("POST", "/v1/sessions/sess_00000000000000000000000000000000/cancel"),
            ("POST", "/v1/circuits/tool/txn_sum"),
            ("DELETE", "/v1/principals/C-001"),
            ("PUT", "/v1/sessions"),
            ("PATCH", "/v1/sessions"),
        ] {
            // The service is called by its address, which is another host than its name.
            let answer = server.request(method, path, &[("origin", origin), JSON], &body);
            assert_problem(&answer, 403, "same loopback host");
        }
    }
    assert_nothing_began(&server);
    let own = format!("http://{}", server.address());
    for headers in [[("origin", own.as_str()), JSON], [("origin", "http://127.0.0.1:3000"), JSON]] {
        assert_eq!(server.request("POST", "/v1/sessions", &headers, &body).status, 202, "{headers:?}");
    }
    let named = [("host", "localhost:80"), ("origin", "http://localhost:8080"), JSON];
    assert_eq!(server.request("POST", "/v1/sessions", &named, &body).status, 202);
    assert_eq!(server.request("GET", "/v1/sessions", &[("origin", "https://evil.example")], "").status, 200);
}

#[test]
fn a_body_must_be_called_json_wherever_it_is_posted() {
    let home = Home::new();
    let server = home.serve();
    let session = server.begin("hi");
    for path in [
        "/v1/sessions".to_owned(),
        "/v1/circuits/tool/txn_sum".to_owned(),
        format!("/v1/sessions/{session}/cancel"),
        format!("/v1/sessions/{session}/confirmations/call_1_1"),
    ] {
        for headers in [&[("content-type", "text/plain")][..], &[]] {
            assert_problem(&server.request("POST", &path, headers, "{}"), 415, "application/json");
        }
    }
    // What has no body needs no name for it.
    let cancelled = server.request("POST", &format!("/v1/sessions/{session}/cancel"), &[], "");
    assert!([200, 202].contains(&cancelled.status), "{cancelled:?}");
}

#[test]
fn what_cannot_be_done_is_not_taken_for_something_else() {
    let home = Home::new();
    let server = home.serve();
    let post = |body: &str| server.post("/v1/sessions", body);
    assert_problem(&post(r#"["hi"]"#), 422, "no object");
    assert_problem(&post(r#""hi""#), 422, "no object");
    assert_problem(&post("[1"), 400, "JSON object");
    assert_problem(&post(r#"{"task": "hi", "conversation_id": ""}"#), 422, "conversation_id");
    let confirm = "/v1/sessions/sess_00000000000000000000000000000000/confirmations/call_1_1";
    assert_problem(&server.post(confirm, r#"["approve"]"#), 422, "no object");
    let long = "k".repeat(256);
    for key in ["", &long, "ключ"] {
        let once = server.request("POST", "/v1/sessions", &[("idempotency-key", key), JSON], r#"{"task": "hi"}"#);
        assert_problem(&once, 400, "1 to 255");
    }
    assert_nothing_began(&server);
    let waited = server.post("/v1/sessions?wait=1m", r#"{"task": "hi"}"#);
    assert_eq!((waited.status, &waited.json()["status"]), (200, &"done".into()), "{waited:?}");
}
