//! What providers do wrong, and what it is called here.

use std::time::Duration;

use glassbox::{
    Config, Fault, FaultKind,
    core::{ModelReply, Usage},
};
use serde_json::{Value, json};

use super::{KEY, Provider, WIRES, Wire, ask, estimated_input, provider::Play};

async fn fault(wire: Wire, stream: bool, play: Play) -> Fault {
    let provider = Provider::playing(play).await;
    ask(&*wire.model(&provider.url, stream)).await.and_then(ModelReply::whole).expect_err("a fault")
}

/// Each status, the kind of fault that it is, and whether the seed's policy tries again.
const STATUSES: [(u16, FaultKind, bool); 16] = [
    (302, FaultKind::Refused, false),
    (400, FaultKind::Refused, false),
    (401, FaultKind::Auth, false),
    (403, FaultKind::Auth, false),
    (404, FaultKind::Refused, false),
    (408, FaultKind::Timeout, true),
    (409, FaultKind::Refused, false),
    (413, FaultKind::ContextTooLong, false),
    (422, FaultKind::Refused, false),
    (425, FaultKind::Overloaded, true),
    (429, FaultKind::RateLimited, true),
    (500, FaultKind::Server, true),
    (502, FaultKind::Server, true),
    (503, FaultKind::Overloaded, true),
    (504, FaultKind::Timeout, true),
    (529, FaultKind::Overloaded, true),
];

#[tokio::test]
async fn every_status_is_the_fault_that_the_seeds_policy_takes_it_for() {
    let policy = Config::embedded().llm_retry_policy.rules();
    for wire in WIRES {
        for (status, kind, again) in STATUSES {
            let fault = fault(wire, true, Play::json(status, json!({"error": {"message": "no"}}))).await;
            assert_eq!((fault.kind, fault.status), (kind, Some(status)), "{wire:?}");
            assert_eq!(policy.retries(&fault), again, "{wire:?} {status}");
            assert_eq!((fault.retry_after, fault.usage), (None, None), "{wire:?} {status}");
        }
    }
}

#[tokio::test]
async fn the_wait_that_is_asked_for_comes_along() {
    for wire in WIRES {
        for (status, name, value, wait) in [
            (429, "retry-after", "30", Some(Duration::from_secs(30))),
            (529, "retry-after", "2", Some(Duration::from_secs(2))),
            (503, "retry-after-ms", "1500", Some(Duration::from_millis(1500))),
            (429, "retry-after", "-1", None),
            (429, "retry-after", "soon", None),
            (429, "retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", None),
        ] {
            let fault = fault(wire, true, Play::json(status, "{}").header(name, value)).await;
            assert_eq!(fault.retry_after, wait, "{wire:?} {name}: {value}");
        }
        let far = fault(wire, true, Play::json(429, "{}").header("retry-after", "Mon, 01 Jan 2300 00:00:00 GMT")).await;
        assert!(far.retry_after.is_some_and(|wait| wait > Duration::from_secs(86_400)), "{far:?}");
    }
}

#[tokio::test]
async fn the_context_that_is_too_long_is_told_from_a_bad_request() {
    let openai = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
    assert_eq!(fault(Wire::OpenAi, true, Play::json(400, openai)).await.kind, FaultKind::ContextTooLong);
    let anthropic = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8"}});
    assert_eq!(fault(Wire::Anthropic, true, Play::json(400, anthropic)).await.kind, FaultKind::ContextTooLong);
    let exceeded = json!({"content": [{"type": "text", "text": "Hal"}], "stop_reason": "model_context_window_exceeded",
        "usage": {"input_tokens": 90, "output_tokens": 10}});
    let fault = fault(Wire::Anthropic, false, Play::json(200, exceeded)).await;
    assert_eq!(fault.kind, FaultKind::ContextTooLong);
    assert_eq!(fault.usage, Some(Usage { input: 90, output: 10, ..Usage::default() }));
}

/// A stream of two words and no end, on each wire.
pub(super) fn two_words(wire: Wire) -> Vec<Value> {
    match wire {
        Wire::Anthropic => vec![
            json!({"type": "message_start", "message": {"model": "m", "content": [],
                "usage": {"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello, "}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "world"}}),
        ],
        Wire::OpenAi => vec![
            json!({"choices": [{"index": 0, "delta": {"content": "Hello, "}}]}),
            json!({"choices": [{"index": 0, "delta": {"content": "world"}}]}),
        ],
    }
}

/// What the two words are charged with: the input as far as it was told, the twelve letters.
fn two_words_usage(wire: Wire) -> Usage {
    let (input, cache_read) = match wire {
        Wire::Anthropic => (125, 100),
        Wire::OpenAi => (estimated_input(&*wire.model("http://127.0.0.1:1", true)), 0),
    };
    Usage { input, output: 3, cache_read, estimated: true, ..Usage::default() }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_charged_by_estimate() {
    for wire in WIRES {
        let words = Play::events(&two_words(wire));
        for play in [words.clone(), words.clone().then_cut(), words.in_pieces(5).then_cut()] {
            let fault = fault(wire, true, play).await;
            assert_eq!((fault.kind, fault.usage), (FaultKind::Transport, Some(two_words_usage(wire))), "{fault:?}");
        }
        for nothing in [Play::sse(""), Play::sse(": hello\n\n").then_cut()] {
            let fault = fault(wire, true, nothing).await;
            assert_eq!((fault.kind, fault.usage), (FaultKind::Transport, None), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn an_overload_inside_a_stream_is_the_same_fault_and_charged_once_the_reply_began() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    for wire in WIRES {
        let first = fault(wire, true, Play::events(std::slice::from_ref(&error))).await;
        assert_eq!((first.kind, first.status, first.usage), (FaultKind::Overloaded, Some(529), None));
        let mut events = two_words(wire);
        events.push(error.clone());
        let late = fault(wire, true, Play::events(&events)).await;
        assert_eq!((late.kind, late.status), (FaultKind::Overloaded, Some(529)));
        assert_eq!(late.usage, Some(two_words_usage(wire)));
    }
    let whole = fault(Wire::OpenAi, false, Play::json(200, json!({"error": {"code": 429, "message": "slow"}}))).await;
    assert_eq!((whole.kind, whole.status), (FaultKind::RateLimited, Some(429)));
}

#[tokio::test]
async fn what_cannot_be_read_is_malformed() {
    for wire in WIRES {
        for body in ["", "<html>", "{", "[]", "{}", "{\"choices\": []}", "{\"content\": 5}"] {
            assert_eq!(fault(wire, false, Play::json(200, body)).await.kind, FaultKind::Malformed, "{wire:?}: {body}");
        }
        let mut text: String = two_words(wire).iter().map(|event| format!("data: {event}\n\n")).collect();
        text.push_str("data: {\"type\": \"content_bl\n\n");
        let broken = fault(wire, true, Play::sse(text)).await;
        assert_eq!((broken.kind, broken.usage), (FaultKind::Malformed, Some(two_words_usage(wire))), "{broken:?}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_its_last_word_has_said_everything() {
    let mut events = two_words(Wire::OpenAi);
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    let provider = Provider::playing(Play::events(&events).then_cut()).await;
    let reply = ask(&*Wire::OpenAi.model(&provider.url, true)).await.expect("a whole reply");
    assert_eq!(reply.text, "Hello, world");
}

#[tokio::test]
async fn nobody_there_is_a_connection_fault_and_a_lost_body_one_of_transport() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address").port()
    };
    for wire in WIRES {
        let model = wire.model(&format!("http://127.0.0.1:{port}"), true);
        let nobody = ask(&*model).await.expect_err("nobody listens");
        assert_eq!(nobody.kind, FaultKind::Connection);
        assert!(nobody.detail.starts_with("no connection to the provider: "), "{nobody}");
        let lost = fault(wire, false, Play::json(200, "{\"con").then_cut()).await;
        assert_eq!(lost.kind, FaultKind::Transport, "{lost}");
    }
}

#[tokio::test]
async fn no_fault_repeats_the_credential_and_no_redirect_carries_it() {
    let elsewhere = Provider::playing(Play::json(200, "{}")).await;
    for wire in WIRES {
        for status in [400, 401, 429, 500] {
            let body = json!({"error": {"type": "x", "message": format!("the key {KEY} and sk-other are known")}});
            let fault = fault(wire, true, Play::json(status, body)).await;
            let shown = format!("{fault:?} {fault}");
            assert!(!shown.contains("hunter2") && !shown.contains("sk-"), "{shown}");
        }
        let redirect = fault(wire, true, Play::json(307, "").header("location", &elsewhere.url)).await;
        assert_eq!(redirect.kind, FaultKind::Refused);
    }
    assert_eq!(elsewhere.asked().len(), 0);
}
