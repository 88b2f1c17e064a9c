//! The service as a client, a scraper and an operator meet it, over a real socket.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{collections::BTreeSet, io::Write as _, process::Stdio};

use serde_json::{Value, json};

use crate::{
    process::{Answer, Home, Server},
    prometheus,
};

const QUESTION: &str = "Сколько я потратил на такси в сентябре?";
const ANSWER: &str = "Такси в сентябре: 2 поездки, 5000 ₸.";
const NOBODY: &str = "/v1/sessions/sess_00000000000000000000000000000000";

/// The bank, and an agent whose every step takes a while.
const CONFIG: &str = "
agents:
  bank: {system_prompt: Hello., model: bank, language: ru, tools: [txn_sum], task_types: [spending, other], limits: {token_budget: 50000}}
  slow: {system_prompt: Wait., model: slow, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
models:
  bank: {provider: scripted, script: bank}
  slow: {provider: scripted, script: slow.yaml}
tools:
  txn_sum: {builtin: txn_sum, scopes: [spending:read]}
auth:
  default_principal: {id: C-001, scopes: [spending:read]}
server:
  max_body_bytes: 1KiB
  grace_period: 20s
";
const SLOW_SCRIPT: &str = "
name: slow
rules:
  - when: {task_matches: for ever}
    delay: 1h
    text: Never.
  - when: {step: 1}
    delay: 600ms
    call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}
  - delay: 1h
    text: Never.
";

fn home() -> Home {
    let home = Home::configured(CONFIG);
    home.write("slow.yaml", SLOW_SCRIPT);
    home
}

fn task(text: &str, more: Value) -> String {
    let mut body = json!({"agent": "bank", "task": text});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string()
}

fn id(answer: &Answer) -> String {
    answer.json()["session_id"].as_str().unwrap().to_owned()
}

/// Begins a session of the slow agent and waits until its model is asked.
fn begin_thinking(server: &Server<'_>, task: &str) -> String {
    let session = id(&server.post("/v1/sessions", &json!({"agent": "slow", "task": task}).to_string()));
    let journal = format!("/v1/sessions/{session}/journal");
    server.get_until(&journal, |answer| answer.body.contains("model_attempt_started"));
    session
}

#[test]
fn a_session_is_begun_waited_for_listed_and_read() {
    let home = home();
    let server = home.serve();
    let more = json!({"task_type": "spending", "metadata": {"ticket": 7}, "conversation_id": "c-1"});
    let begun = server.post("/v1/sessions", &task(QUESTION, more));
    assert_eq!(begun.status, 202, "{begun:?}");
    let session = id(&begun);
    let place = format!("/v1/sessions/{session}");
    assert_eq!(begun.header("location"), Some(place.as_str()));
    assert_eq!(begun.header("content-type"), Some("application/json"));

    let done = server.get_until(&place, |answer| answer.json()["status"] != "running").json();
    assert_eq!((&done["status"], &done["answer"], &done["total_steps"]), (&"done".into(), &ANSWER.into(), &2.into()));
    assert_eq!((&done["agent"], &done["task_type"]), (&"bank".into(), &"spending".into()));
    assert_eq!((&done["metadata"]["ticket"], &done["conversation_id"]), (&7.into(), &"c-1".into()));
    assert_eq!(done["trace_id"].as_str(), session.strip_prefix("sess_"));
    assert!(done["finished_at"].as_str() >= done["started_at"].as_str());

    let waited = server.post("/v1/sessions?wait=15s", &task(QUESTION, json!({})));
    assert_eq!((waited.status, &waited.json()["answer"]), (200, &ANSWER.into()), "{waited:?}");
    assert_eq!(waited.header("location").unwrap(), format!("/v1/sessions/{}", id(&waited)));
    let gone_on = server.post("/v1/sessions?wait=1ms", &json!({"agent": "slow", "task": "for ever"}).to_string());
    assert_eq!((gone_on.status, &gone_on.json()["status"]), (202, &"running".into()), "{gone_on:?}");

    let journal = server.get(&format!("{place}/journal")).json();
    let facts = journal["facts"].as_array().unwrap();
    let places: Vec<_> = facts.iter().map(|fact| fact["seq"].as_u64().unwrap()).collect();
    assert_eq!(places, (0..facts.len() as u64).collect::<Vec<_>>());
    assert!(facts[0]["fact"].get("session_started").is_some());
    assert!(facts.last().unwrap()["fact"].get("session_finished").is_some());
    assert_eq!(journal["session_id"], json!(session));
}

#[test]
fn lists_are_filtered_and_paged() {
    let home = home();
    let server = home.serve();
    let body = |number: u32| task("hi", json!({"task_type": if number == 1 { "spending" } else { "other" }}));
    let done: Vec<String> = (0..3).map(|number| id(&server.post("/v1/sessions?wait=15s", &body(number)))).collect();
    let slow = id(&server.post("/v1/sessions", &json!({"agent": "slow", "task": "for ever"}).to_string()));
    let list = |query: &str| -> Vec<String> {
        let answer = server.get(&format!("/v1/sessions{query}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        let rows = answer.json();
        let ids = rows["sessions"].as_array().unwrap().iter();
        ids.map(|row| row["session_id"].as_str().unwrap().to_owned()).collect()
    };
    let newest_first = [&slow, &done[2], &done[1], &done[0]].map(Clone::clone);
    assert_eq!(list(""), newest_first);
    assert_eq!(list("?agent=bank"), newest_first[1..]);
    assert_eq!(list("?status=running"), newest_first[..1]);
    assert_eq!(list("?task_type=spending"), newest_first[2..3]);
    assert_eq!(list("?task_type=other&agent=bank"), [done[2].clone(), done[0].clone()]);
    assert_eq!(list("?task_type=card"), [] as [String; 0]);
    assert_eq!(list("?status=done&agent=slow"), [] as [String; 0]);
    assert_eq!(list("?limit=2"), newest_first[..2]);
    assert_eq!(list(&format!("?limit=2&before={}", newest_first[1])), newest_first[2..]);
}

#[test]
fn a_running_session_can_be_cancelled() {
    let home = home();
    let server = home.serve();
    let session = id(&server.post("/v1/sessions", &json!({"agent": "slow", "task": "for ever"}).to_string()));
    let place = format!("/v1/sessions/{session}");
    let asked = server.post(&format!("{place}/cancel"), "");
    assert_eq!(asked.status, 202, "{asked:?}");
    let ended = server.get_until(&place, |answer| answer.json()["status"] != "running").json();
    assert_eq!(ended["status"], "cancelled");
    assert!(ended["explanation"].as_str().unwrap().contains("0 of 15"), "{ended}");
    let again = server.post(&format!("{place}/cancel"), "");
    assert_eq!((again.status, &again.json()["status"]), (200, &"cancelled".into()), "asking twice changes nothing");
    assert_eq!(server.post(&format!("{NOBODY}/cancel"), "").status, 404);
}

/// Every error is a problem+json that says what is wrong, and names its request.
fn assert_problem(answer: &Answer, status: u16, word: &str) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    assert!(answer.header("x-request-id").is_some_and(|name| !name.is_empty()), "{answer:?}");
    let problem = answer.json();
    assert_eq!(problem["status"], status);
    assert!(problem["title"].is_string() && problem["type"].is_string(), "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(word), "{word:?} is not in {detail:?}");
    problem
}

#[test]
fn every_error_is_a_problem() {
    let home = home();
    let server = home.serve();
    let post = |body: &str| server.post("/v1/sessions", body);
    assert_problem(&server.get("/v1/nothing"), 404, "nothing at this path");
    assert_problem(&server.get("/"), 404, "nothing at this path");
    let wrong = server.request("PUT", "/v1/sessions", &[], "");
    assert_problem(&wrong, 405, "method");
    let allowed: BTreeSet<_> = wrong.header("allow").unwrap().split(',').map(str::trim).collect();
    assert!(allowed.is_superset(&BTreeSet::from(["GET", "POST"])), "{allowed:?}");

    for broken in ["", "{", "not json", "{\"task\": \"x\",}", "\u{0}"] {
        assert_problem(&post(broken), 400, "JSON");
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert_problem(&post(&task("x", json!({})).replace("\"x\"", &deep)), 422, "task");
    assert_problem(&post(&format!("{{\"task\": \"x\", \"metadata\": {{\"deep\": {deep}}}}}")), 400, "recursion");
    assert_problem(&post(r#"{"task": "x", "task": "y"}"#), 422, "duplicate");
    assert_problem(&post("[]"), 422, "JSON object");
    assert_problem(&post("{}"), 422, "task");
    assert_problem(&post(r#"{"task": 5}"#), 422, "string");
    assert_problem(&post(r#"{"task": "x", "user": "C-002"}"#), 422, "user");
    assert_problem(&post(&task(" \n", json!({}))), 422, "empty");
    let problem = assert_problem(&post(&task("x", json!({"agent": "nobody"}))), 422, "bank, slow");
    assert_eq!(problem["declared"], json!(["bank", "slow"]));
    let problem = assert_problem(&post(&task("x", json!({"task_type": "war"}))), 422, "spending, other");
    assert_eq!(problem["declared"], json!(["spending", "other"]));
    assert_problem(&post(r#"{"task": "x"}"#), 422, "bank, slow");
    assert_problem(&post(&task(&"x".repeat(2000), json!({}))), 413, "max_body_bytes");

    for wait in ["soon", "-1s", "30", "1.5s", ""] {
        assert_problem(&server.post(&format!("/v1/sessions?wait={wait}"), &task("x", json!({}))), 400, "wait");
    }
    assert_problem(&server.get("/v1/sessions?status=happy"), 400, "status");
    assert_problem(&server.get("/v1/sessions?limit=many"), 400, "limit");
    assert_problem(&server.get("/v1/sessions?before=yesterday"), 400, "before");
    assert_problem(&server.get("/v1/sessions?colour=red"), 400, "colour");
    for place in [NOBODY, "/v1/sessions/yesterday", "/v1/sessions/sess_%ff"] {
        for (method, part) in [("GET", ""), ("GET", "/journal"), ("POST", "/cancel")] {
            let answer = server.request(method, &format!("{place}{part}"), &[], "");
            let status = if place.ends_with("%ff") { 400 } else { 404 };
            assert_problem(&answer, status, "");
        }
    }
    assert_eq!(server.get("/v1/sessions").json()["sessions"], json!([]), "no mistake began a session");
}

#[test]
fn only_so_many_sessions_run_at_once() {
    let home = home().variable("GLASSBOX__SERVER__MAX_SESSIONS", "1");
    let server = home.serve();
    let first = id(&server.post("/v1/sessions", &json!({"agent": "slow", "task": "for ever"}).to_string()));
    let second = server.post("/v1/sessions", &task("hi", json!({})));
    assert_problem(&second, 503, "1 sessions run already");
    assert_eq!(second.header("retry-after"), Some("1"));
    server.post(&format!("/v1/sessions/{first}/cancel"), "");
    server.get_until(&format!("/v1/sessions/{first}"), |answer| answer.json()["status"] == "cancelled");
    // The end is read from the journal, which is a moment before the place is given back.
    let free = (0..200).any(|_| server.post("/v1/sessions?wait=15s", &task("hi", json!({}))).status == 200);
    assert!(free, "its place is free again");
}

#[test]
fn a_wait_is_shorter_than_the_longest_request() {
    let home = home().variable("GLASSBOX__SERVER__REQUEST_TIMEOUT", "1s");
    let server = home.serve();
    let body = json!({"agent": "slow", "task": "for ever"}).to_string();
    let answer = server.post("/v1/sessions?wait=30s", &body);
    assert_eq!((answer.status, &answer.json()["status"]), (202, &"running".into()), "{answer:?}");
}

#[test]
fn json_must_be_called_json() {
    let home = home();
    let server = home.serve();
    let body = task("hi", json!({}));
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let answer = server.request("POST", "/v1/sessions", &[("content-type", kind)], &body);
        assert_problem(&answer, 415, "application/json");
    }
    for kind in ["application/json; charset=utf-8", "application/merge-patch+json"] {
        let answer = server.request("POST", "/v1/sessions", &[("content-type", kind)], &body);
        assert_eq!(answer.status, 202, "{kind}: {answer:?}");
    }
}

#[test]
fn requests_keep_their_name_or_get_one() {
    let home = home();
    let server = home.serve();
    let named = server.request("GET", "/healthz", &[("x-request-id", "mine-1")], "");
    assert_eq!((named.body.as_str(), named.header("x-request-id")), ("ok\n", Some("mine-1")));
    let named = server.request("GET", "/nothing", &[("x-request-id", "mine-2")], "");
    assert_eq!(named.header("x-request-id"), Some("mine-2"), "errors too");
    let own: BTreeSet<_> = (0..3).map(|_| server.get("/healthz").header("x-request-id").unwrap().to_owned()).collect();
    assert_eq!(own.len(), 3, "{own:?}");
    assert_eq!(server.get("/readyz").body, "ready\n");
}

#[test]
fn a_scrape_is_clean_and_knows_the_traffic() {
    let home = home();
    let server = home.serve();
    let born = server.get("/metrics");
    assert_eq!(born.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let zero = "glassbox_sessions_total{agent=\"bank\",status=\"done\",task_type=\"spending\"} 0";
    assert!(born.body.lines().any(|line| line == zero), "series are born at zero");
    for _ in 0..2 {
        server.post("/v1/sessions?wait=15s", &task(QUESTION, json!({"task_type": "spending"})));
    }
    server.post("/v1/sessions?wait=15s", &task("loop", json!({})));
    let scraped = server.get("/metrics").body;
    for line in [
        "glassbox_sessions_total{agent=\"bank\",status=\"done\",task_type=\"spending\"} 2",
        "glassbox_sessions_total{agent=\"bank\",status=\"error\",task_type=\"other\"} 1",
        "glassbox_session_steps_sum{agent=\"bank\",task_type=\"spending\"} 4",
        "glassbox_tool_calls_total{outcome=\"ok\",tool=\"txn_sum\"} 6",
        "glassbox_limits_reached_total{limit=\"no_progress\"} 1",
        "glassbox_sessions_active 0",
        "glassbox_journal_queue_facts 0",
    ] {
        assert!(scraped.lines().any(|found| found == line), "{line} is not in\n{scraped}");
    }
    for prometheus in [prometheus::debian(), prometheus::current()].into_iter().flatten() {
        let mut command = prometheus.promtool();
        command.args(["check", "metrics"]);
        let mut promtool = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        promtool.stdin.take().unwrap().write_all(scraped.as_bytes()).unwrap();
        let said = promtool.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        assert!(said.status.success() && text.trim().is_empty(), "promtool: {text}");
    }
}

/// A stop is asked for while a session thinks: it comes to the end of its step, is kept, and the
/// process goes.
#[test]
fn a_stop_lets_sessions_reach_the_end_of_their_step() {
    let home = home();
    let server = home.serve();
    let session = begin_thinking(&server, "two steps");
    server.process.signal("TERM");
    let red = server.get_until("/readyz", |answer| answer.status != 200);
    assert_problem(&red, 503, "stopping");
    assert_eq!(server.get("/healthz").status, 200, "it still lives");
    let refused = server.post("/v1/sessions", &task("hi", json!({})));
    assert_problem(&refused, 503, "stopping");
    assert_eq!(refused.header("retry-after"), Some("5"));
    let finished = server.process.end();
    assert_eq!(finished.code, Some(0), "{}", finished.err);

    let shown: Value = serde_json::from_str(&home.ask(&["session", "show", &session, "--json"])).unwrap();
    assert_eq!(shown["session"]["status"], "suspended");
    let names: Vec<_> = shown["facts"].as_array().unwrap().iter().map(fact_name).collect();
    assert_eq!(
        names,
        [
            "session_started",
            "model_call_started",
            "model_attempt_started",
            "model_attempt_finished",
            "model_call_finished",
            "session_suspended"
        ]
    );
    let lines: Vec<Value> = finished.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["agent_session_started", "model_called", "session_suspended"]);
}

fn fact_name(entry: &Value) -> String {
    entry["fact"].as_object().unwrap().keys().next().unwrap().clone()
}

/// Whoever asks twice does not want to wait for the grace period.
#[test]
fn a_second_signal_ends_the_grace_period() {
    let home = home();
    let server = home.serve();
    let session = id(&server.post("/v1/sessions", &json!({"agent": "slow", "task": "for ever"}).to_string()));
    let asked = |answer: &Answer| answer.body.contains("model_call_started");
    server.get_until(&format!("/v1/sessions/{session}/journal"), asked);
    server.process.signal("TERM");
    server.get_until("/readyz", |answer| answer.status != 200);
    server.process.signal("TERM");
    let finished = server.process.end();
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    let shown: Value = serde_json::from_str(&home.ask(&["session", "show", &session, "--json"])).unwrap();
    assert_eq!(shown["session"]["status"], "running", "nothing is finalised that could go on");
}

/// A session in the middle of a step that outlasts the grace period is cut off, and said so.
#[test]
fn a_stop_waits_no_longer_than_the_grace_period() {
    let home = home().variable("GLASSBOX__SERVER__GRACE_PERIOD", "1s");
    let server = home.serve();
    begin_thinking(&server, "for ever");
    let finished = server.stop();
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    assert!(finished.err.contains("the grace period ended in the middle of a step"), "{}", finished.err);
    assert!(!finished.err.contains('\u{1b}'), "diagnostics in a pipe are plain: {:?}", finished.err);
}

#[test]
fn the_standard_output_is_events_and_nothing_else() {
    let home = home();
    let server = home.serve();
    server.post("/v1/sessions?wait=15s", &task(QUESTION, json!({})));
    server.post("/v1/sessions?wait=15s", &task("loop", json!({})));
    let finished = server.stop();
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    let schema = include_str!("../../docs/events.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let mut events = BTreeSet::new();
    for line in finished.out.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let problems: Vec<_> = validator.iter_errors(&event).map(|problem| problem.to_string()).collect();
        assert!(problems.is_empty(), "{line}: {problems:#?}");
        events.insert(event["event"].as_str().unwrap().to_owned());
    }
    for event in ["agent_session_started", "model_called", "tool_called", "limit_reached", "agent_session_finished"] {
        assert!(events.contains(event), "{event} is not in {events:?}");
    }
    for secret in [QUESTION, "такси", "C-001", ANSWER] {
        assert!(!finished.out.contains(secret), "{secret} is in a line");
    }
}

#[test]
fn two_services_do_not_share_a_port() {
    let home = home();
    let server = home.serve();
    let second = home.run(&["serve", "--listen", &server.address().to_string()]);
    assert_eq!(second.code, Some(1), "{second:?}");
    let wanted = format!("cannot listen on {}", server.address());
    assert!(second.err.contains(&wanted) && second.err.contains("in use"), "{}", second.err);
    assert_eq!(server.get("/readyz").status, 200, "the first one goes on");
}

/// Sessions an hour are counted in the journal: a restart forgets none.
#[test]
fn a_user_begins_only_so_many_sessions_an_hour() {
    let home = home().variable("GLASSBOX__RATE_LIMITS__SESSIONS_PER_USER_PER_HOUR", "2");
    let server = home.serve();
    let begin = |server: &Server<'_>| server.post("/v1/sessions", &task("hi", json!({})));
    assert_eq!([begin(&server).status, begin(&server).status], [202, 202]);
    server.stop();
    let server = home.serve();
    let refused = begin(&server);
    assert_problem(&refused, 429, "2 sessions were begun in the last hour");
    let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&wait), "{wait}");
    let counted = |answer: &Answer| answer.body.contains("glassbox_rate_limited_total{limit=\"sessions_per_user\"} 1");
    server.get_until("/metrics", counted);
}
