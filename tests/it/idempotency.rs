//! `Idempotency-Key` over a real socket: one session for one key, whoever asks how often, at once,
//! of which process, and after a restart.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{collections::BTreeSet, thread};

use crate::process::{Answer, Client, Home};

const JSON: (&str, &str) = ("content-type", "application/json");
const QUESTION: &str = r#"{"task": "hi", "metadata": {"a": 1, "b": [2]}}"#;

fn post(client: &Client, path: &str, key: &str, body: &str) -> Answer {
    client.request("POST", path, &[("idempotency-key", key), JSON], body)
}

fn id(answer: &Answer) -> String {
    answer.json()["session_id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

fn sessions(client: &Client) -> usize {
    client.get("/v1/sessions").json()["sessions"].as_array().unwrap().len()
}

#[test]
fn the_same_request_gets_the_same_session() {
    let home = Home::new();
    let server = home.serve();
    let first = post(&server, "/v1/sessions", "k-1", QUESTION);
    assert_eq!((first.status, first.header("idempotency-replayed")), (202, None), "{first:?}");
    // The same body, written otherwise.
    let again = post(&server, "/v1/sessions", "k-1", r#"{"metadata":{"b":[2],"a":1},"task":"hi"}"#);
    assert_eq!((again.status, again.header("idempotency-replayed")), (202, Some("true")), "{again:?}");
    assert_eq!((id(&again), again.header("location")), (id(&first), first.header("location")));
    let waited = post(&server, "/v1/sessions?wait=15s", "k-1", QUESTION);
    assert_eq!((waited.status, id(&waited)), (200, id(&first)), "{waited:?}");
    assert_eq!(waited.json()["status"], "done");
    assert_eq!(sessions(&server), 1);

    assert_ne!(id(&post(&server, "/v1/sessions", "k-2", QUESTION)), id(&first));
    assert_ne!(id(&server.post("/v1/sessions", QUESTION)), id(&first));
    assert_eq!(sessions(&server), 3);
}

#[test]
fn another_body_under_the_same_key_is_refused() {
    let home = Home::new();
    let server = home.serve();
    let first = post(&server, "/v1/sessions", "k-1", QUESTION);
    let other = post(&server, "/v1/sessions", "k-1", r#"{"task": "ho"}"#);
    assert_eq!((other.status, other.header("content-type")), (422, Some("application/problem+json")), "{other:?}");
    assert!(other.json()["detail"].as_str().unwrap().contains("another body"), "{other:?}");
    assert_eq!(sessions(&server), 1);
    assert_eq!(id(&post(&server, "/v1/sessions", "k-1", QUESTION)), id(&first), "the key is still the first one's");
}

#[test]
fn a_request_that_began_nothing_leaves_its_key_unused() {
    let home = Home::new();
    let server = home.serve();
    let refused = post(&server, "/v1/sessions", "k-1", r#"{"task": "hi", "agent": "nobody"}"#);
    assert_eq!(refused.status, 422, "{refused:?}");
    let begun = post(&server, "/v1/sessions", "k-1", QUESTION);
    assert_eq!((begun.status, begun.header("idempotency-replayed")), (202, None), "{begun:?}");
}

#[test]
fn the_key_outlives_its_process_but_not_its_session() {
    let home = Home::new();
    let server = home.serve();
    let first = post(&server, "/v1/sessions?wait=15s", "k-1", QUESTION);
    assert_eq!(first.status, 200, "{first:?}");
    server.process.signal("KILL");
    server.process.end();

    let server = home.serve();
    assert_eq!(id(&post(&server, "/v1/sessions", "k-1", QUESTION)), id(&first));
    assert_eq!(post(&server, "/v1/sessions", "k-1", r#"{"task": "ho"}"#).status, 422);
    let place = format!("/v1/sessions/{}", id(&first));
    assert_eq!(server.request("DELETE", &place, &[], "").status, 204);
    let anew = post(&server, "/v1/sessions", "k-1", QUESTION);
    assert_eq!((anew.status, anew.header("idempotency-replayed")), (202, None), "{anew:?}");
    assert_ne!(id(&anew), id(&first));
}

/// Two processes on one folder, each asked by several threads at once.
#[test]
fn equal_requests_at_once_begin_one_session() {
    let home = Home::new();
    let (one, other) = (home.serve(), home.serve());
    let clients: [Client; 2] = [*one, *other];
    for round in 0..5 {
        let key = format!("k-{round}");
        let answers: Vec<Answer> = thread::scope(|scope| {
            let asks: Vec<_> = (0..8).map(|n| (clients[n % 2], &key)).collect();
            let asks: Vec<_> = asks
                .into_iter()
                .map(|(client, key)| scope.spawn(move || post(&client, "/v1/sessions", key, QUESTION)))
                .collect();
            asks.into_iter().map(|ask| ask.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
        assert_eq!(answers.iter().map(id).collect::<BTreeSet<_>>().len(), 1, "{answers:?}");
        let begun = answers.iter().filter(|answer| answer.header("idempotency-replayed").is_none()).count();
        assert_eq!(begun, 1, "{answers:?}");
        assert_eq!(sessions(&one), round + 1);
    }
    // A session that may not begin is no trouble of the journal.
    let journal_errors = |client: &Client| -> Vec<String> {
        let page = client.get("/metrics").body;
        let errors = page.lines().filter(|line| line.starts_with("glassbox_journal_errors_total{"));
        errors.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
    };
    assert_eq!(clients.map(|client| journal_errors(&client)), [Vec::<String>::new(), Vec::new()]);
    assert_eq!(one.get("/readyz").status, 200);
}
