//! The live feed as its readers meet it: they leave and come back, come late, are slow, are many,
//! and are told when the service stops.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod reader;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
};

use serde_json::{Value, json};

use self::reader::{Reader, Said, places};
use crate::process::{Home, PATIENCE, Server};

const QUESTION: &str = "Сколько я потратил на такси в сентябре?";

/// The bank; an agent whose second step takes an hour; one that talks while it is listened to.
const CONFIG: &str = "
agents:
  bank: {system_prompt: Hello., model: bank, language: ru, tools: [txn_sum, card_block], task_types: [spending, other], limits: {token_budget: 50000}}
  slow: {system_prompt: Wait., model: slow, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
models:
  bank: {provider: scripted, script: bank}
  slow: {provider: scripted, script: slow.yaml, context_window: 100000000}
tools:
  txn_sum: {builtin: txn_sum, scopes: [spending:read]}
  card_block: {builtin: card_block, scopes: [card:block], confirm: suspend}
llm_retry_policy: {max_attempts: 3, initial_delay_ms: 1}
auth:
  default_principal: {id: C-001, scopes: [spending:read]}
server: {grace_period: 20s}
";
const SLOW_SCRIPT: &str = "
name: slow
rules:
  - when: {task_matches: talk}
    stream: {letters: 6, pause: 100ms}
    text: One word and another, until all is said.
    fault: {kind: overloaded, after: 3, times: 1}
  - when: {step: 1, task_matches: two steps}
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

fn slow(task: &str) -> Value {
    json!({"agent": "slow", "task": task})
}

/// What the journal of a session holds, as the stream would tell it.
fn journal(server: &Server<'_>, session: &str) -> Vec<Said> {
    let journal = server.get(&format!("/v1/sessions/{session}/journal")).json();
    let told = |entry: &Value| Said::Fact {
        seq: entry["seq"].as_u64().unwrap(),
        name: entry["fact"].as_object().unwrap().keys().next().unwrap().clone(),
        data: entry.clone(),
    };
    journal["facts"].as_array().unwrap().iter().map(told).collect()
}

fn facts(said: Vec<Said>) -> Vec<Said> {
    said.into_iter().filter(|said| matches!(said, Said::Fact { .. })).collect()
}

/// Who leaves at event 7 and comes back with its id gets 8 and later, each once; the session went
/// on meanwhile.
#[test]
fn a_reader_that_leaves_comes_back_to_where_it_was() {
    let home = home();
    let server = home.serve();
    let mut reader = Reader::begin(&server, &slow("two steps"));
    assert_eq!(reader.status, 200);
    assert_eq!(reader.header("content-type"), "text/event-stream");
    assert_eq!(reader.header("cache-control"), "no-cache");
    let session = reader.session();
    let first: Vec<_> = reader.facts_until(7).into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(first, (0..8).collect::<Vec<_>>());
    drop(reader);
    // The second step's call of the model is the 10th and 11th fact.
    let there = |answer: &crate::process::Answer| answer.body.matches("model_attempt_started").count() == 2;
    server.get_until(&format!("/v1/sessions/{session}/journal"), there);
    let mut reader = Reader::of(&server, &session, Some(7));
    assert_eq!(reader.facts_until(10).iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [8, 9, 10]);
    assert_eq!(server.post(&format!("/v1/sessions/{session}/cancel"), "").status, 202);
    let rest = facts(reader.rest());
    let all = journal(&server, &session);
    assert_eq!(rest, all[11..], "what was live is what is kept");
    assert!(matches!(rest.last(), Some(Said::Fact { name, .. }) if name == "session_finished"), "{rest:?}");
}

#[test]
fn a_late_reader_gets_all_of_a_finished_session_and_then_is_told_that_this_was_all() {
    let home = home();
    let server = home.serve();
    let report = server.run_as("bank", QUESTION);
    let session = report["session_id"].as_str().unwrap();
    let all = journal(&server, session);
    assert_eq!(Reader::of(&server, session, None).rest(), all);
    assert_eq!(Reader::of(&server, session, Some(3)).rest(), all[4..]);
    let last = all.len() as u64 - 1;
    for beyond in [last, last + 1, u64::MAX] {
        assert_eq!(Reader::of(&server, session, Some(beyond)).status, 204, "a browser does not ask again");
    }
    let wrong = server.request("GET", &format!("/v1/sessions/{session}/events"), &[("last-event-id", "x")], "");
    assert_eq!(wrong.status, 400, "{wrong:?}");
    for nobody in ["sess_00000000000000000000000000000000", "yesterday"] {
        assert_eq!(Reader::of(&server, nobody, None).status, 404);
    }
}

#[test]
fn a_place_that_is_not_reached_yet_is_none() {
    let home = home();
    let server = home.serve();
    let session = Reader::begin(&server, &slow("for ever")).session();
    let place = format!("/v1/sessions/{session}");
    server.get_until(&format!("{place}/journal"), |answer| answer.body.contains("model_attempt_started"));
    let reader = Reader::of(&server, &session, Some(u64::MAX));
    server.post(&format!("{place}/cancel"), "");
    let places = places(&reader.rest());
    assert_eq!((places[0], *places.last().unwrap()), (3, journal(&server, &session).len() as u64 - 1));
}

#[test]
fn many_readers_get_the_same() {
    let home = home();
    let server = home.serve();
    let session = Reader::begin(&server, &slow("two steps")).session();
    let readers: Vec<_> = (0..50).map(|_| Reader::of(&server, &session, None)).collect();
    let place = format!("/v1/sessions/{session}");
    server.get_until(&format!("{place}/journal"), |answer| answer.body.matches("model_attempt_started").count() == 2);
    server.post(&format!("{place}/cancel"), "");
    let all: Vec<_> = readers.into_iter().map(|reader| facts(reader.rest())).collect();
    let kept = journal(&server, &session);
    assert!(all.iter().all(|facts| *facts == kept), "one of them got other facts");
}

/// Text while it comes, without a place; a broken attempt makes it void; the fact replaces it.
#[test]
fn a_text_is_heard_before_its_reply_is_kept() {
    let home = home();
    let server = home.serve();
    let said = Reader::begin(&server, &slow("talk")).rest();
    let name = |said: &Said| match said {
        Said::Fact { name, .. } | Said::Text { name, .. } => name.clone(),
        Said::Comment(_) => String::new(),
    };
    let names: Vec<_> = said.iter().map(name).collect();
    let at = |wanted: &str| names.iter().position(|name| name == wanted).unwrap_or_else(|| panic!("{names:?}"));
    let (restart, end) = (at("restart"), at("model_call_finished"));
    assert!(names[..restart].contains(&"delta".to_owned()) && restart < end, "{names:?}");
    let pieces: Vec<_> = said[restart..end].iter().filter(|said| name(said) == "delta").collect();
    let Said::Text { data: restart, .. } = &said[restart] else { panic!("a restart has no place") };
    let mut text = String::new();
    for piece in pieces {
        let Said::Text { data, .. } = piece else { panic!("a piece has no place: {piece:?}") };
        assert_eq!((&data["call"], data["at"].as_u64()), (&restart["call"], Some(text.len() as u64)));
        text.push_str(data["text"].as_str().unwrap());
    }
    assert_eq!(text, "One word and another, until all is said.");
    assert!(!names[end..].contains(&"delta".to_owned()), "{names:?}");
    let Said::Fact { data, .. } = &said[end] else { panic!("the end is a fact") };
    assert!(data.to_string().contains(&text), "{data}");
    assert_eq!(places(&said), (0..names.len() as u64).take(places(&said).len()).collect::<Vec<_>>());
}

/// 700 calls of 10 KB each are more than the sockets hold and more facts than wait for a reader.
#[test]
fn a_slow_reader_is_cut_off_and_harms_nobody() {
    let home = home();
    let noise = "x".repeat(10_000);
    let calls: String = (0..700)
        .map(|number| {
            format!("      - {{tool: txn_sum, arguments: {{category: {number}{noise}, month: '2026-09'}}}}\n")
        })
        .collect();
    let script = format!("name: loud\nrules:\n  - when: {{step: 1}}\n    calls:\n{calls}  - text: Done.\n");
    home.write("slow.yaml", &script);
    let server = home.serve();
    let mut sleeper = Reader::begin(&server, &slow("all at once"));
    let session = sleeper.session();
    let place = format!("/v1/sessions/{session}");
    let ended = server.get_until(&place, |answer| !answer.json()["finished_at"].is_null()).json();
    assert_ne!(ended["status"], "running", "nobody waited for the sleeper");
    server.get_until("/metrics", |answer| answer.body.contains("glassbox_telemetry_dropped_total{sink=\"feed\"} 1"));
    let mut got = Vec::new();
    let mut last_words = None;
    while let Some(said) = sleeper.next() {
        match said {
            Said::Fact { seq, .. } => got.push(seq),
            Said::Comment(words) => last_words = Some(words),
            Said::Text { .. } => {}
        }
    }
    assert!(last_words.as_ref().is_some_and(|words| words.contains("too slow")), "{last_words:?}");
    let all = journal(&server, &session).len() as u64;
    assert!((got.len() as u64) < all, "it was cut off before the end");
    let back = Reader::of(&server, &session, got.last().copied()).rest();
    got.extend(places(&back));
    assert_eq!(got, (0..all).collect::<Vec<_>>(), "with what it came back for it has each fact once");
}

/// A stop ends the streams after the last fact that is kept, with a word and in order.
#[test]
fn a_stop_ends_streams_in_order_so_that_readers_come_back() {
    let home = home();
    let server = home.serve();
    let mut reader = Reader::begin(&server, &slow("two steps"));
    let session = reader.session();
    reader.facts_until(2);
    server.process.signal("TERM");
    let rest = reader.rest();
    let Some((Said::Comment(words), before)) = rest.split_last() else { panic!("{rest:?}") };
    assert!(words.contains("come back"), "{words}");
    let names: Vec<_> =
        before.iter().filter_map(|said| if let Said::Fact { name, .. } = said { Some(name) } else { None }).collect();
    assert_eq!(names, ["model_attempt_finished", "model_call_finished", "session_suspended"]);
    let finished = server.process.end();
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    let last = *places(before).last().unwrap();

    let server = home.serve();
    let mut reader = Reader::of(&server, &session, Some(last));
    let next = reader.facts_until(last + 1);
    assert_eq!(next, [(last + 1, "session_resumed".to_owned())]);
}

/// Signs of life come for longer than any request may take.
#[test]
fn a_quiet_stream_stays_open_and_gives_signs_of_life() {
    let home = home().variable("GLASSBOX__SERVER__HEARTBEAT", "1s").variable("GLASSBOX__SERVER__REQUEST_TIMEOUT", "1s");
    let server = home.serve();
    let mut reader = Reader::begin(&server, &slow("for ever"));
    reader.facts_until(2);
    assert_eq!([reader.next(), reader.next()], [(); 2].map(|()| Some(Said::Comment("alive".into()))));
}

/// A connection must bring a whole head in time, and then the next one.
#[test]
fn a_connection_on_which_nothing_moves_is_closed() {
    let home = home().variable("GLASSBOX__SERVER__IDLE_TIMEOUT", "1s");
    let server = home.serve();
    let idle = ["", "GET /healthz HTTP/1.1\r\nhost: loc", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"];
    let connections = idle.map(|begin| {
        let mut socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(begin.as_bytes()).unwrap();
        thread::spawn(move || {
            let mut answer = String::new();
            socket.read_to_string(&mut answer).map(|_| answer)
        })
    });
    let answers = connections.map(|connection| connection.join().unwrap().unwrap());
    assert_eq!((answers[0].as_str(), answers[1].as_str()), ("", ""));
    assert!(answers[2].starts_with("HTTP/1.1 200 OK"), "{answers:?}");
}

#[test]
fn a_stream_is_not_waited_for() {
    let home = home();
    let server = home.serve();
    let headers = [("accept", "text/event-stream"), ("content-type", "application/json")];
    let answer = server.request("POST", "/v1/sessions?wait=1s", &headers, &slow("for ever").to_string());
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.json()["detail"].as_str().unwrap().contains("wait"));
    assert_eq!(server.get("/v1/sessions").json()["sessions"], json!([]));
}

/// What is shown depends on who asks: this principal may not block cards.
#[test]
fn agents_and_tools_are_those_that_the_caller_may_use() {
    let home = home();
    let server = home.serve();
    let agents = server.get("/v1/agents").json();
    let row = |agent: &Value| (agent["name"].clone(), agent["model"].clone(), agent["tools"].clone());
    let rows: Vec<_> = agents["agents"].as_array().unwrap().iter().map(row).collect();
    let tools = json!(["txn_sum"]);
    assert_eq!(rows, [(json!("bank"), json!("bank"), tools.clone()), (json!("slow"), json!("slow"), tools)]);
    assert_eq!(agents["agents"][0]["task_types"], json!(["spending", "other"]));
    let shown = server.get("/v1/tools").json();
    assert_eq!(shown["tools"].as_array().unwrap().len(), 1, "{shown}");
    let tool = &shown["tools"][0];
    assert_eq!((&tool["name"], &tool["kind"], &tool["effect"]), (&json!("txn_sum"), &json!("builtin"), &json!("read")));
    assert_eq!((&tool["scopes"], &tool["agents"]), (&json!(["spending:read"]), &json!(["bank", "slow"])));
    assert_eq!(tool["input_schema"]["additionalProperties"], json!(false));
    assert!(!tool["description"].as_str().unwrap().is_empty());

    let home = home.variable("GLASSBOX__AUTH__DEFAULT_PRINCIPAL__SCOPES", "[card:block]");
    let server = home.serve();
    let shown = server.get("/v1/tools").json();
    let tool = &shown["tools"][0];
    assert_eq!((&tool["name"], &tool["confirm"]), (&json!("card_block"), &json!("suspend")), "{shown}");
    assert_eq!(server.get("/v1/agents").json()["agents"][1]["tools"], json!([]));
}
