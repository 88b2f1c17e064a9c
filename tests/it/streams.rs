//! A thousand sessions that stream at once from an endpoint of the test, which decides itself
//! when it goes on: no piece is sent before every reader has the one before.
//!
//! It runs in a process of its own, for its memory and its thousands of sockets are nobody else's.

#![expect(clippy::print_stdout, reason = "the test reports what it measured")]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::Uri,
    response::Response,
};
use futures_util::stream;
use glassbox::{
    Config, Runtime, Setup, Task,
    core::SessionId,
    session::Ended,
    signal::{FeedItem, FeedReader},
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

const SESSIONS: usize = 1000;
const PIECES: usize = 8;
/// Far more than it takes, even on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(90);
/// Set in the process that does it.
const INSIDE: &str = "STREAMS_INSIDE";
const NAME: &str = "streams::a_thousand_sessions_stream_at_once_and_no_text_is_lost_or_doubled";

/// Half of them over each wire.
const CONFIG: &str = "
agents:
  even: {system_prompt: Help., model: even}
  odd: {system_prompt: Help., model: odd}
models:
  even: {provider: anthropic, model: m-1, base_url: URL, timeout: 120s}
  odd: {provider: openai, model: m-1, base_url: URL/v1, timeout: 120s}
store: {kind: memory}
rate_limits: {sessions_per_user_per_hour: unlimited}
server: {max_sessions: 2000}
llm_retry_policy: {max_attempts: 1}
";

#[test]
fn a_thousand_sessions_stream_at_once_and_no_text_is_lost_or_doubled() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("an async runtime").block_on(async {
            tokio::time::timeout(PATIENCE, all_at_once()).await.expect("a few seconds are enough");
        });
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let raised = "ulimit -n 4096 2>/dev/null; exec \"$0\" --exact \"$1\" --nocapture --test-threads 1";
    let mut inside = Command::new("sh");
    inside.args(["-c", raised]).arg(program).arg(NAME).env(INSIDE, "1");
    let output = inside.output().expect("a shell");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let figure = out.lines().find(|line| line.starts_with("kib_per_streaming_session ")).expect("a figure");
    println!("{figure}");
}

/// The pieces of a session's text: of different lengths, no two the same.
fn piece(session: usize, number: usize) -> String {
    format!("[{session}.{number} {}]", "щ€z".repeat((session + number) % 7))
}

fn text(session: usize, pieces: usize) -> String {
    (0..pieces).map(|number| piece(session, number)).collect()
}

/// What the endpoint waits for: how many pieces may go out.
type Gate = watch::Receiver<usize>;

/// Which session asks, by its task.
fn number_in(body: &Value) -> usize {
    let task = body["messages"].as_array().and_then(|messages| messages.last()).map(Value::to_string);
    let digits = |task: String| task.chars().filter(char::is_ascii_digit).collect::<String>();
    task.map(digits).and_then(|digits| digits.parse().ok()).expect("a task with its number")
}

fn events(anthropic: bool, number: usize, place: usize) -> Vec<Value> {
    let text = piece(number, place);
    let (first, last) = (place == 0, place + 1 == PIECES);
    if !anthropic {
        let mut events = vec![json!({"choices": [{"index": 0, "delta": {"content": text}}]})];
        if last {
            events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5}}));
        }
        return events;
    }
    let mut events = Vec::new();
    if first {
        events.push(json!({"type": "message_start", "message": {"model": "m-1", "content": [],
            "usage": {"input_tokens": 10, "output_tokens": 1}}}));
        events.push(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
    }
    events.push(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}));
    if last {
        events.push(
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        );
        events.push(json!({"type": "message_stop"}));
    }
    events
}

fn answer(uri: &Uri, body: &Bytes, gate: Gate) -> Response {
    let anthropic = uri.path() == "/v1/messages";
    let number = number_in(&serde_json::from_slice(body).expect("JSON"));
    let pieces = stream::unfold((0, gate), move |(place, mut gate)| async move {
        if place == PIECES {
            return None;
        }
        gate.wait_for(|open| *open > place).await.ok()?;
        let data: String = events(anthropic, number, place).iter().map(|event| format!("data: {event}\n\n")).collect();
        Some((Ok::<_, Infallible>(Bytes::from(data)), (place + 1, gate)))
    });
    let response = Response::builder().header("content-type", "text/event-stream");
    response.body(Body::from_stream(pieces)).expect("a good answer")
}

async fn endpoint(gate: Gate) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let router = Router::new().fallback(move |uri: Uri, body: Bytes| async move { answer(&uri, &body, gate.clone()) });
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Reads a session to its end, and tells how much of its text is there.
async fn read(number: usize, mut reader: FeedReader, told: mpsc::UnboundedSender<(usize, usize)>) -> String {
    let mut text = String::new();
    loop {
        match reader.next().await.expect("a reader that keeps up") {
            FeedItem::Delta(delta) => {
                assert_eq!(delta.at, text.len() as u64, "session {number}: a piece is lost or doubled");
                text.push_str(&delta.text);
                told.send((number, text.len())).expect("somebody counts");
            }
            FeedItem::Restart { .. } => panic!("session {number} was told to begin anew"),
            FeedItem::Entry(entry) if entry.fact.name() == "session_finished" => return text,
            FeedItem::Entry(_) => {}
        }
    }
}

/// Waits until every session has so many pieces.
async fn until_all_have(pieces: usize, lengths: &mut [usize], heard: &mut mpsc::UnboundedReceiver<(usize, usize)>) {
    let enough: Vec<_> = (0..SESSIONS).map(|number| text(number, pieces).len()).collect();
    let mut missing = (0..SESSIONS).filter(|number| lengths[*number] < enough[*number]).count();
    while missing > 0 {
        let (number, length) = heard.recv().await.expect("the readers live");
        let before = std::mem::replace(&mut lengths[number], length);
        missing -= usize::from(before < enough[number] && length >= enough[number]);
        assert!(length <= enough[number], "session {number} has a piece that was not sent yet");
    }
}

async fn all_at_once() {
    let (open, gate) = watch::channel(0);
    let yaml = CONFIG.replace("URL", &endpoint(gate).await);
    let config = Config::from_text("test.yaml", yaml.as_bytes(), Path::new(""), &BTreeMap::new())
        .unwrap_or_else(|report| panic!("{report}"));
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = Runtime::start(&config, Setup::run(folder.path())).expect("a runtime");
    let (told, mut heard) = mpsc::unbounded_channel();
    let (begun, before) = (Instant::now(), resident_kib());
    let (mut handles, mut readers) = (Vec::new(), Vec::new());
    for number in 0..SESSIONS {
        let agent = if number % 2 == 0 { "even" } else { "odd" };
        let task = Task::new(format!("session {number}"), config.auth.default_principal.clone());
        let handle = runtime.open(Task { agent: Some(agent.into()), ..task }).await.expect("begun");
        let reader: FeedReader = runtime.feed().subscribe_with_text(Some(handle.id()));
        readers.push(tokio::spawn(read(number, reader, told.clone())));
        handles.push(handle);
    }
    let mut lengths = vec![0; SESSIONS];
    let mut streaming = 0.0;
    for pieces in 1..=PIECES {
        if pieces == PIECES {
            // All of them have a text that is not at its end.
            streaming = resident_kib() - before;
        }
        open.send_replace(pieces);
        until_all_have(pieces, &mut lengths, &mut heard).await;
    }
    for (number, (mut handle, reader)) in handles.into_iter().zip(readers).enumerate() {
        let whole = text(number, PIECES);
        assert_eq!(reader.await.expect("no panic"), whole, "session {number}");
        let id: SessionId = handle.id();
        let Ok(Ended::Finished(end)) = handle.ended().await else { panic!("{id} did not end") };
        assert_eq!(end.answer.expect("an answer").expose(), &whole);
        assert!(!end.usage.estimated);
    }
    println!("# {SESSIONS} sessions, {PIECES} pieces each, in {:?}", begun.elapsed());
    println!("# memory of a session that streams, with its reader and the endpoint's side of its connection");
    println!("kib_per_streaming_session {:.1}", streaming / SESSIONS as f64);
    runtime.stop(PATIENCE).await.expect("closed");
}

/// Resident memory of this process; 0 where the system does not tell.
fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0.0)
}
