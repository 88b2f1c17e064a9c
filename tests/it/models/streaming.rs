//! Text that reaches its readers while it comes, over both wires, and what a stream costs that
//! is cut off in the middle.

use std::{sync::Arc, time::Duration};

use glassbox::{
    Config, Runtime, Setup, Task,
    core::{EndReason, Fact, SessionId, SessionStatus, SpanId, StreamId, Usage, fact::SessionEnd},
    runtime::SessionHandle,
    session::Ended,
    signal::{FeedItem, FeedReader},
};
use serde_json::{Value, json};

use super::{
    Provider, WIRES, Wire,
    broken::two_words,
    provider::Play,
    sessions::{TASK, asks, config, says, yaml},
};

/// The longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A runtime with this provider, and somebody who reads everything along.
struct Scene {
    runtime: Runtime,
    config: Config,
    reader: FeedReader,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new(yaml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(yaml);
        let runtime = Runtime::start(&config, Setup::run(folder.path())).expect("a runtime");
        let reader = runtime.feed().subscribe_with_text(None);
        Self { runtime, config, reader, _folder: folder }
    }

    async fn begin(&self) -> SessionHandle {
        self.runtime.open(Task::new(TASK, self.config.auth.default_principal.clone())).await.expect("begun")
    }

    async fn run(&self) -> (SessionId, Box<SessionEnd>) {
        end_of(self.begin().await).await
    }

    /// What the reader sees until a fact of this name.
    async fn until(&mut self, name: &str) -> Seen {
        let mut seen = Seen::default();
        let reading = async {
            loop {
                let item = self.reader.next().await.expect("a reader that keeps up");
                let found = matches!(&item, FeedItem::Entry(entry) if entry.fact.name() == name);
                seen.take(item);
                if found {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("in time");
        seen
    }

    /// Waits until the two words are read.
    async fn until_two_words(&mut self) {
        let mut text = String::new();
        let reading = async {
            while text != "Hello, world" {
                if let FeedItem::Delta(delta) = self.reader.next().await.expect("a reader that keeps up") {
                    assert_eq!(delta.at, text.len() as u64, "no piece is lost or doubled: {delta:?}");
                    text.push_str(&delta.text);
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("in time");
    }

    /// The replies that the journal holds.
    fn replies(&self, id: SessionId) -> Vec<String> {
        let entries = self.runtime.store().load(StreamId::Session(id)).expect("a journal");
        let replies = entries.into_iter().filter_map(|entry| match entry.fact {
            Fact::ModelCallFinished { end, .. } => end.reply.map(|reply| reply.text),
            _ => None,
        });
        replies.collect()
    }

    async fn stop(self) {
        self.runtime.stop(PATIENCE).await.expect("closed");
    }
}

/// What a reader saw: each text from its beginning, a new one after every restart and every end
/// of a call; and how often it was told to forget one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    texts: Vec<String>,
    restarts: usize,
    /// The call whose text the last one is.
    open: Option<SpanId>,
}

impl Seen {
    fn take(&mut self, item: FeedItem) {
        match item {
            FeedItem::Delta(delta) => {
                if self.open.replace(delta.call) != Some(delta.call) {
                    self.texts.push(String::new());
                }
                let text = self.texts.last_mut().expect("there is one now");
                assert_eq!(delta.at, text.len() as u64, "no piece is lost or doubled: {delta:?}");
                text.push_str(&delta.text);
            }
            FeedItem::Restart { call, .. } => {
                self.close(call);
                self.restarts += 1;
            }
            FeedItem::Entry(entry) => {
                if let Fact::ModelCallFinished { op, .. } = &entry.fact {
                    self.close(*op);
                }
            }
        }
    }

    /// The text of the next call may come before the end of this one, which waits for the disk.
    fn close(&mut self, call: SpanId) {
        self.open = self.open.filter(|open| *open != call);
    }

    fn of(texts: &[&str], restarts: usize) -> Self {
        Self { texts: texts.iter().map(|text| (*text).to_owned()).collect(), restarts, open: None }
    }
}

async fn end_of(mut handle: SessionHandle) -> (SessionId, Box<SessionEnd>) {
    let ended = tokio::time::timeout(PATIENCE, handle.ended()).await.expect("in time").expect("durable");
    let Ended::Finished(end) = ended else { panic!("not finished: {ended:?}") };
    (handle.id(), end)
}

fn overloaded() -> Value {
    json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
}

/// What "Hello, world" costs of an answer that never ends: what the wire told of the input, else
/// a quarter of the bytes that were sent; twelve letters are three tokens.
fn cut_off(wire: Wire, sent: &Value) -> Usage {
    let estimate = (serde_json::to_string(sent).expect("JSON").len() as u64).div_ceil(4);
    let (input, cache_read) = match wire {
        Wire::Anthropic => (125, 100),
        Wire::OpenAi => (estimate, 0),
    };
    Usage { input, output: 3, cache_read, estimated: true, ..Usage::default() }
}

#[tokio::test]
async fn a_stream_that_is_overloaded_in_the_middle_begins_anew_for_its_reader() {
    for wire in WIRES {
        let gate = Arc::default();
        let broken = Play::events(&two_words(wire)).and(&overloaded()).holding_the_last(&gate);
        let plan =
            move |number, _: &Value| if number == 0 { broken.clone() } else { says(wire, true, "Hello to you.") };
        let provider = Provider::start(plan).await;
        let retried = "{max_attempts: 2, initial_delay_ms: 1}";
        let mut scene = Scene::new(&yaml(wire, &provider.url, true).replace("{max_attempts: 1}", retried));
        let handle = scene.begin().await;
        scene.until_two_words().await;
        gate.notify_one();
        let (id, end) = end_of(handle).await;
        assert_eq!(end.answer.expect("an answer").expose(), "Hello to you.");
        assert_eq!(scene.until("session_finished").await, Seen::of(&["Hello to you."], 1));
        assert_eq!(scene.replies(id), ["Hello to you."], "the journal holds the reply once");
        let asked = provider.asked();
        assert_eq!((asked.len(), &asked[0].body), (2, &asked[1].body));
        let broken = cut_off(wire, &asked[0].body);
        let both = Usage { input: broken.input + 100, output: broken.output + 20, ..broken };
        assert_eq!(end.usage, both, "{wire:?}");
        scene.stop().await;
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_void_for_its_reader_and_charged() {
    for wire in WIRES {
        let gate = Arc::default();
        let words = Play::events(&two_words(wire)).in_pieces(7);
        let provider = Provider::playing(words.then_cut().holding_the_last(&gate)).await;
        let mut scene = Scene::new(&yaml(wire, &provider.url, true));
        let handle = scene.begin().await;
        scene.until_two_words().await;
        gate.notify_one();
        let (id, end) = end_of(handle).await;
        assert_eq!((end.status, end.reason), (SessionStatus::Error, Some(EndReason::ModelUnavailable)));
        assert_eq!(scene.until("session_finished").await, Seen::of(&[], 1));
        assert!(scene.replies(id).is_empty());
        assert_eq!(end.usage, cut_off(wire, &provider.asked()[0].body), "{wire:?}");
        scene.stop().await;
    }
}

#[tokio::test]
async fn the_words_of_a_model_that_breaks_are_void_before_its_fallback_speaks() {
    let gate = Arc::default();
    let broken = Play::events(&two_words(Wire::Anthropic)).and(&overloaded()).holding_the_last(&gate);
    let (primary, spare) =
        (Provider::playing(broken).await, Provider::playing(says(Wire::OpenAi, true, "Hello from me.")).await);
    let spare = format!("  spare: {{provider: openai, model: m-2, base_url: \"{}\"}}\ntools:", spare.url);
    let yaml = yaml(Wire::Anthropic, &primary.url, true).replace("tools:\n", &format!("{spare}\n"));
    let mut scene = Scene::new(&yaml.replace("model: bank\n", "model: bank\n    fallback: spare\n"));
    let handle = scene.begin().await;
    scene.until_two_words().await;
    gate.notify_one();
    let (id, end) = end_of(handle).await;
    assert_eq!(end.answer.expect("an answer").expose(), "Hello from me.");
    assert_eq!(scene.until("session_finished").await, Seen::of(&["Hello from me."], 1));
    assert_eq!(scene.replies(id), ["Hello from me."]);
    let broken = cut_off(Wire::Anthropic, &primary.asked()[0].body);
    let both = Usage { input: broken.input + 100, output: broken.output + 20, ..broken };
    assert_eq!(end.usage, both);
    scene.stop().await;
}

#[tokio::test]
async fn an_attempt_that_runs_out_of_time_in_the_middle_is_charged_with_what_came() {
    for wire in WIRES {
        let provider = Provider::playing(Play::events(&two_words(wire)).then_hang()).await;
        let mut scene = Scene::new(&yaml(wire, &provider.url, true).replace("timeout: 5s", "timeout: 2s"));
        let handle = scene.begin().await;
        scene.until_two_words().await;
        let (_, end) = end_of(handle).await;
        assert_eq!((end.status, end.reason), (SessionStatus::Error, Some(EndReason::ModelUnavailable)));
        assert_eq!(scene.until("session_finished").await, Seen::of(&[], 1));
        assert_eq!(end.usage, cut_off(wire, &provider.asked()[0].body), "{wire:?}");
        scene.stop().await;
    }
}

#[tokio::test]
async fn a_session_that_is_stopped_in_the_middle_is_charged_with_what_came() {
    for wire in WIRES {
        let provider = Provider::playing(Play::events(&two_words(wire)).then_hang()).await;
        let mut scene = Scene::new(&yaml(wire, &provider.url, true).replace("timeout: 5s", "timeout: 60s"));
        let handle = scene.begin().await;
        scene.until_two_words().await;
        handle.cancel();
        let (id, end) = end_of(handle).await;
        assert_eq!((end.status, end.usage), (SessionStatus::Cancelled, cut_off(wire, &provider.asked()[0].body)));
        let entries = scene.runtime.store().load(StreamId::Session(id)).expect("a journal");
        let charged = entries.iter().find_map(|entry| match &entry.fact {
            Fact::ModelCallFinished { end, .. } => Some(end.usage),
            _ => None,
        });
        assert_eq!(charged, Some(end.usage), "the call itself is charged, so every signal is");
        assert_eq!(scene.until("session_finished").await, Seen::of(&[], 0), "the end of the call replaces the text");
        scene.stop().await;
    }
}

#[tokio::test]
async fn words_beside_a_call_come_too_and_the_next_call_has_a_text_of_its_own() {
    for wire in WIRES {
        let arguments = r#"{"category":"taxi","month":"2026-09"}"#;
        let provider = Provider::start(move |number, _| match number {
            0 => asks(wire, true, "txn_sum", arguments).in_pieces(11),
            _ => says(wire, true, "Две поездки.").in_pieces(3),
        })
        .await;
        let mut scene = Scene::new(&yaml(wire, &provider.url, true));
        let (_, end) = scene.run().await;
        assert_eq!(end.status, SessionStatus::Done, "{end:?}");
        assert_eq!(scene.until("session_finished").await, Seen::of(&["Смотрю.", "Две поездки."], 0));
        scene.stop().await;
    }
}

#[tokio::test]
async fn a_reply_that_comes_as_a_whole_has_no_pieces() {
    for wire in WIRES {
        let provider = Provider::playing(says(wire, false, "Hello to you.")).await;
        let mut scene = Scene::new(&yaml(wire, &provider.url, false));
        scene.run().await;
        assert_eq!(scene.until("session_finished").await, Seen::of(&[], 0));
        scene.stop().await;
    }
}

/// Three megabytes in a hundred pieces, and a reader that reads nothing until it is all over.
#[tokio::test]
async fn a_reader_that_stands_still_delays_no_session_and_misses_no_fact() {
    let piece = "x".repeat(30_000);
    let mut events: Vec<Value> =
        (0..100).map(|_| json!({"choices": [{"index": 0, "delta": {"content": piece}}]})).collect();
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    events.push(json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}));
    let provider = Provider::playing(Play::events(&events)).await;
    let mut scene = Scene::new(&yaml(Wire::OpenAi, &provider.url, true));
    let (id, end) = scene.run().await;
    assert_eq!(end.answer.expect("an answer").expose().len(), 3_000_000);
    let (mut restarts, mut facts) = (0, Vec::new());
    while facts.last() != Some(&"session_finished") {
        match scene.reader.next().await.expect("no fact is lost") {
            FeedItem::Delta(delta) => panic!("a text that was given up: {} bytes", delta.text.len()),
            FeedItem::Restart { .. } => restarts += 1,
            FeedItem::Entry(entry) if entry.stream == StreamId::Session(id) => facts.push(entry.fact.name()),
            FeedItem::Entry(_) => {}
        }
    }
    let all = [
        "session_started",
        "model_call_started",
        "model_attempt_started",
        "model_attempt_finished",
        "model_call_finished",
        "session_finished",
    ];
    assert_eq!((restarts, facts.as_slice()), (1, all.as_slice()));
    scene.stop().await;
}

#[tokio::test]
async fn thinking_that_nobody_is_shown_is_charged_when_the_stream_breaks() {
    let thought = "y".repeat(40);
    for wire in WIRES {
        let events = match wire {
            Wire::Anthropic => vec![
                json!({"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 50, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": thought}}),
            ],
            Wire::OpenAi => vec![
                json!({"choices": [{"index": 0, "delta": {"reasoning_content": thought}}], "usage": {"prompt_tokens": 50}}),
            ],
        };
        let provider = Provider::playing(Play::events(&events).then_cut()).await;
        let mut scene = Scene::new(&yaml(wire, &provider.url, true));
        let (_, end) = scene.run().await;
        let expected = Usage { input: 50, output: 10, estimated: true, ..Usage::default() };
        assert_eq!(end.usage, expected, "{wire:?}");
        assert_eq!(scene.until("session_finished").await, Seen::of(&[], 0), "nothing was shown");
        scene.stop().await;
    }
}
