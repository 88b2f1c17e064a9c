//! Whole sessions of the bank's agent through both wires: the same answer, the same journal.

use std::{collections::BTreeMap, path::Path, time::Duration};

use glassbox::{
    Config, Effect, FnTool, Runtime, Setup, Task, ToolReply, ToolSpec,
    core::{EndReason, SessionStatus, Usage, fact::SessionEnd},
    session::Ended,
};
use serde_json::{Value, json};

use super::{KEY, Provider, WIRES, Wire, provider::Play};
use crate::process::Home;

pub(super) const TASK: &str = "Сколько я потратил на такси в сентябре?";
pub(super) const ANSWER: &str = "Такси в сентябре: 2 поездки, 5000 ₸.";

pub(super) fn yaml(wire: Wire, url: &str, stream: bool) -> String {
    let provider = wire.name();
    format!(
        "agents:\n  bank:\n    system_prompt: Помогай.\n    model: bank\n    tools: [txn_sum]\n\
         models:\n  bank:\n    provider: {provider}\n    model: m-1\n    base_url: {url}\n    api_key: {{ env: KEY }}\n    stream: {stream}\n    timeout: 5s\n\
         tools:\n  txn_sum: {{builtin: txn_sum}}\n\
         llm_retry_policy: {{max_attempts: 1}}\n"
    )
}

pub(super) async fn run(config: &Config, setup: Setup, task: &str) -> Box<SessionEnd> {
    let runtime = Runtime::start(config, setup).expect("a runtime");
    let task = Task::new(task, config.auth.default_principal.clone());
    let ended = runtime.open(task).await.expect("begun").ended().await.expect("durable");
    runtime.stop(Duration::from_secs(5)).await.expect("closed");
    let Ended::Finished(end) = ended else { panic!("not finished: {ended:?}") };
    end
}

/// A session of the bank's agent with this provider.
async fn bank(wire: Wire, provider: &Provider, stream: bool) -> Box<SessionEnd> {
    let folder = tempfile::tempdir().expect("a folder");
    run(&config(&yaml(wire, &provider.url, stream)), Setup::run(folder.path()), TASK).await
}

pub(super) fn config(yaml: &str) -> Config {
    let env = BTreeMap::from([("KEY".to_owned(), KEY.to_owned())]);
    Config::from_text("test.yaml", yaml.as_bytes(), Path::new(""), &env).unwrap_or_else(|report| panic!("{report}"))
}

/// A reply that asks for a tool with this argument text.
pub(super) fn asks(wire: Wire, stream: bool, tool: &str, arguments: &str) -> Play {
    match (wire, stream) {
        (Wire::Anthropic, false) => {
            let input: Value = serde_json::from_str(arguments).unwrap_or(json!({}));
            let content = json!([{"type": "text", "text": "Смотрю."}, {"type": "tool_use", "id": "toolu_1", "name": tool, "input": input}]);
            Play::json(
                200,
                json!({"model": "m-1", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 100, "output_tokens": 20}}),
            )
        }
        (Wire::Anthropic, true) => Play::events(&[
            json!({"type": "message_start", "message": {"model": "m-1", "content": [], "usage": {"input_tokens": 100, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Смотрю."}}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": tool}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": arguments}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
            json!({"type": "message_stop"}),
        ]),
        (Wire::OpenAi, _) => {
            let calls = json!([{"index": 0, "id": "toolu_1", "type": "function", "function": {"name": tool, "arguments": arguments}}]);
            let message = json!({"role": "assistant", "content": "Смотрю.", "tool_calls": calls});
            openai(stream, message, "tool_calls")
        }
    }
}

/// A reply of text.
pub(super) fn says(wire: Wire, stream: bool, text: &str) -> Play {
    match (wire, stream) {
        (Wire::Anthropic, false) => {
            let content = json!([{"type": "text", "text": text}]);
            Play::json(
                200,
                json!({"model": "m-1", "content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 100, "output_tokens": 20}}),
            )
        }
        (Wire::Anthropic, true) => Play::events(&[
            json!({"type": "message_start", "message": {"model": "m-1", "content": [], "usage": {"input_tokens": 100, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}}),
            json!({"type": "message_stop"}),
        ]),
        (Wire::OpenAi, _) => openai(stream, json!({"role": "assistant", "content": text}), "stop"),
    }
}

fn openai(stream: bool, message: Value, reason: &str) -> Play {
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 20});
    if !stream {
        let choice = json!({"index": 0, "message": message, "finish_reason": reason});
        return Play::json(200, json!({"model": "m-1", "choices": [choice], "usage": usage}));
    }
    Play::events(&[
        json!({"model": "m-1", "choices": [{"index": 0, "delta": message}]}),
        json!({"model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        json!({"model": "m-1", "choices": [], "usage": usage}),
    ])
}

/// The results of tools that a request brings back, as they stand on this wire.
fn results(wire: Wire, body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    match wire {
        Wire::Anthropic => {
            let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
            let results = blocks.filter(|block| block["type"] == "tool_result");
            results.map(|block| (text(&block["tool_use_id"]), text(&block["content"]))).collect()
        }
        Wire::OpenAi => {
            let results = messages.iter().filter(|message| message["role"] == "tool");
            results.map(|message| (text(&message["tool_call_id"]), text(&message["content"]))).collect()
        }
    }
}

/// A provider that asks for the sum and says it, as a model would.
async fn bank_provider(wire: Wire, stream: bool) -> Provider {
    let arguments = r#"{"category":"taxi","month":"2026-09"}"#;
    Provider::start(move |_, body| match results(wire, body).as_slice() {
        [] => asks(wire, stream, "txn_sum", arguments).in_pieces(3),
        [(_, result), ..] => {
            let sum: Value = serde_json::from_str(result).unwrap_or_default();
            let text = format!("Такси в сентябре: {} поездки, {} ₸.", sum["count"], sum["total_kzt"]);
            says(wire, stream, &text).in_pieces(3)
        }
    })
    .await
}

#[tokio::test]
async fn the_bank_answers_through_both_wires_as_a_whole_and_as_a_stream() {
    for wire in WIRES {
        for stream in [false, true] {
            let provider = bank_provider(wire, stream).await;
            let end = bank(wire, &provider, stream).await;
            assert_eq!(end.status, SessionStatus::Done, "{wire:?} {stream}: {end:?}");
            assert_eq!(end.answer.expect("an answer").expose(), ANSWER);
            assert_eq!((end.steps, end.tools_called), (2, vec!["txn_sum".to_owned()]));
            assert_eq!(end.usage, Usage { input: 200, output: 40, ..Usage::default() });
            let asked = provider.asked();
            assert_eq!(asked.len(), 2);
            assert_eq!(results(wire, &asked[1].body)[0].0, "toolu_1");
            assert_eq!(asked[1].body["stream"], stream);
        }
    }
}

#[tokio::test]
async fn a_call_without_arguments_runs_with_none_and_the_history_holds_none() {
    for arguments in ["", "null"] {
        let provider = Provider::start(move |number, _| match number {
            0 => asks(Wire::OpenAi, true, "ping", arguments),
            _ => says(Wire::OpenAi, true, "pong it is"),
        })
        .await;
        let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let spec = ToolSpec::new("ping", "Answers.", schema).effect(Effect::Read);
        let ping = FnTool::new(spec, |_, arguments| async move { Ok(ToolReply::Json(arguments)) });
        let folder = tempfile::tempdir().expect("a folder");
        let setup = Setup::run(folder.path()).with_tool(["bank"], ping);
        let end = run(&config(&yaml(Wire::OpenAi, &provider.url, true)), setup, "go").await;
        assert_eq!((end.status, end.steps), (SessionStatus::Done, 2), "{end:?}");
        let body = &provider.asked()[1].body;
        assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], "{}");
        assert_eq!(results(Wire::OpenAi, body), [("toolu_1".to_owned(), "{}".to_owned())]);
    }
}

#[tokio::test]
async fn null_for_a_tool_that_needs_arguments_is_an_observation() {
    let provider = Provider::start(|number, _| match number {
        0 => asks(Wire::OpenAi, true, "txn_sum", "null"),
        _ => says(Wire::OpenAi, true, "no"),
    })
    .await;
    let end = bank(Wire::OpenAi, &provider, true).await;
    assert_eq!((end.status, end.steps), (SessionStatus::Done, 2), "{end:?}");
    let observation = &results(Wire::OpenAi, &provider.asked()[1].body)[0].1;
    assert!(observation.contains("category"), "{observation}");
}

#[tokio::test]
async fn a_reply_of_nothing_is_asked_again_once() {
    for wire in WIRES {
        let nothing = move |number, _: &Value| says(wire, true, if number == 1 { "Да." } else { "" });
        let provider = Provider::start(nothing).await;
        let end = bank(wire, &provider, true).await;
        assert_eq!((end.status, provider.asked().len()), (SessionStatus::Done, 2), "{end:?}");
        let provider = Provider::playing(says(wire, true, "")).await;
        let end = bank(wire, &provider, true).await;
        assert_eq!((end.status, end.reason), (SessionStatus::Error, Some(EndReason::EmptyReply)));
        assert_eq!(provider.asked().len(), 2);
    }
}

#[tokio::test]
async fn each_reply_of_nothing_is_asked_again_once() {
    let plays = |number, _: &Value| match number {
        0 | 2 => says(Wire::OpenAi, true, ""),
        1 => asks(Wire::OpenAi, true, "txn_sum", r#"{"category":"taxi","month":"2026-09"}"#),
        _ => says(Wire::OpenAi, true, "5000"),
    };
    let provider = Provider::start(plays).await;
    let end = bank(Wire::OpenAi, &provider, true).await;
    assert_eq!((end.status, end.reason, end.steps), (SessionStatus::Done, None, 4), "{end:?}");
}

/// A reply of this text that ended for this reason, on either wire.
fn ends(wire: Wire, text: &str, reason: &str) -> Play {
    let usage = json!({"input_tokens": 100, "output_tokens": 20, "prompt_tokens": 100, "completion_tokens": 20});
    let body = match wire {
        Wire::Anthropic => json!({"content": [{"type": "text", "text": text}], "stop_reason": reason, "usage": usage}),
        Wire::OpenAi => json!({"choices": [{"message": {"content": text}, "finish_reason": reason}], "usage": usage}),
    };
    Play::json(200, body)
}

#[tokio::test]
async fn an_answer_that_is_cut_off_or_paused_goes_on_where_it_stopped() {
    for (wire, reason) in [(Wire::Anthropic, "max_tokens"), (Wire::Anthropic, "pause_turn"), (Wire::OpenAi, "length")] {
        let provider = Provider::start(move |number, _| match number {
            0 => ends(wire, "Две поез", reason),
            _ => ends(wire, "дки.", "end_turn"),
        })
        .await;
        let end = bank(wire, &provider, false).await;
        assert_eq!((end.status, end.steps, end.usage.total()), (SessionStatus::Done, 2, 240), "{end:?}");
        assert_eq!(end.answer.expect("an answer").expose(), "Две поездки.", "{wire:?} {reason}");
        let asked = provider.asked();
        let said: Vec<_> = asked[1].body["messages"].as_array().expect("messages").iter().rev().take(2).collect();
        assert_eq!((&said[1]["role"], &said[0]["role"]), (&"assistant".into(), &"user".into()));
        assert!(said[1].to_string().contains("Две поез") && said[0].to_string().contains("repeat nothing"), "{said:?}");
    }
}

#[tokio::test]
async fn a_model_that_declines_has_given_no_answer_and_is_not_asked_twice() {
    let filtered = json!({"error": {"code": "content_filter", "message": "The prompt was filtered."}});
    for (wire, play) in [
        (Wire::Anthropic, ends(Wire::Anthropic, "Sure, I", "refusal")),
        (Wire::Anthropic, ends(Wire::Anthropic, "", "refusal")),
        (Wire::OpenAi, ends(Wire::OpenAi, "Sure, I", "content_filter")),
        (Wire::OpenAi, Play::json(400, filtered)),
    ] {
        let provider = Provider::playing(play).await;
        let end = bank(wire, &provider, false).await;
        assert_eq!((end.status, end.reason), (SessionStatus::Error, Some(EndReason::ModelDeclined)), "{end:?}");
        assert_eq!((end.answer, provider.asked().len()), (None, 1));
    }
}

#[tokio::test]
async fn a_broken_stream_is_on_the_sessions_bill() {
    let words = [json!({"choices": [{"index": 0, "delta": {"content": "x".repeat(400)}}]})];
    let provider = Provider::playing(Play::events(&words).then_cut()).await;
    let end = bank(Wire::OpenAi, &provider, true).await;
    assert_eq!((end.status, end.reason), (SessionStatus::Error, Some(EndReason::ModelUnavailable)));
    let body = serde_json::to_string(&provider.asked()[0].body).expect("JSON").len() as u64;
    let expected = Usage { input: body.div_ceil(4), output: 100, estimated: true, ..Usage::default() };
    assert_eq!(end.usage, expected);
}

#[tokio::test]
async fn an_overload_after_the_first_words_is_tried_again_charged_and_leaves_no_trace_in_the_answer() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let words = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    let broken = Play::events(&[words("The ans"), words("wer is "), error]);
    let provider = Provider::start(move |number, _| match number {
        0 => broken.clone(),
        _ => says(Wire::OpenAi, true, "The answer is 42."),
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let yaml =
        yaml(Wire::OpenAi, &provider.url, true).replace("{max_attempts: 1}", "{max_attempts: 2, initial_delay_ms: 1}");
    let end = run(&config(&yaml), Setup::run(folder.path()), TASK).await;
    assert_eq!(end.answer.expect("an answer").expose(), "The answer is 42.");
    let asked = provider.asked();
    assert_eq!((asked.len(), &asked[0].body), (2, &asked[1].body));
    let estimate = (serde_json::to_string(&asked[0].body).expect("JSON").len() as u64).div_ceil(4);
    // Fourteen letters came before the overload.
    let expected = Usage { input: estimate + 100, output: 4 + 20, estimated: true, ..Usage::default() };
    assert_eq!(end.usage, expected);
}

#[tokio::test]
async fn a_wait_over_the_cap_is_not_waited_for() {
    for wire in WIRES {
        let provider = Provider::playing(Play::json(429, "{}").header("retry-after", "31")).await;
        let folder = tempfile::tempdir().expect("a folder");
        let yaml = yaml(wire, &provider.url, true).replace("{max_attempts: 1}", "{max_attempts: 3}");
        let end = run(&config(&yaml), Setup::run(folder.path()), TASK).await;
        assert_eq!((end.reason, provider.asked().len()), (Some(EndReason::ModelUnavailable), 1));
    }
}

#[tokio::test]
async fn a_refused_credential_and_silence_end_the_session_with_their_reason() {
    for wire in WIRES {
        let refuses = Provider::playing(Play::json(401, "{}")).await;
        let end = bank(wire, &refuses, true).await;
        assert_eq!((end.reason, refuses.asked().len()), (Some(EndReason::ModelAuth), 1));

        let silent = Provider::playing(Play::Silence).await;
        let folder = tempfile::tempdir().expect("a folder");
        let yaml = yaml(wire, &silent.url, true).replace("timeout: 5s", "timeout: 100ms");
        let end = run(&config(&yaml), Setup::run(folder.path()), TASK).await;
        assert_eq!((end.reason, end.usage), (Some(EndReason::ModelUnavailable), Usage::default()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_goes_through_the_proxy_of_its_environment_and_proves_its_prompts() {
    let proxy = bank_provider(Wire::Anthropic, true).await;
    let home = Home::configured(&yaml(Wire::Anthropic, "http://models.invalid", true))
        .variable("KEY", KEY)
        .variable("HTTP_PROXY", &proxy.url)
        .variable("http_proxy", &proxy.url)
        .variable("NO_PROXY", "")
        .variable("no_proxy", "");
    let (answer, raw, check) = tokio::task::spawn_blocking(move || {
        let answer = home.ask(&["run", TASK]);
        let list: Value = serde_json::from_str(home.ask(&["--json", "session", "list"]).trim()).expect("JSON");
        let id = list.to_string();
        let at = id.find("sess_").expect("a session");
        let id = id[at..at + 37].to_owned();
        (answer, home.ask(&["session", "show", &id, "--raw"]), home.ask(&["check"]))
    })
    .await
    .expect("no panic");
    assert!(answer.contains(ANSWER), "{answer}");
    assert_eq!(proxy.asked()[0].uri, "http://models.invalid/v1/messages");
    assert_eq!(raw.matches("proved").count(), 2, "{raw}");
    for text in [answer, raw, check] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_key_that_is_not_set_is_named_before_anything_starts() {
    let home = Home::configured(&yaml(Wire::OpenAi, "http://127.0.0.1:1", true));
    let finished = home.run(&["run", "x"]);
    assert_ne!(finished.code, Some(0));
    assert!(finished.err.contains("models.bank.api_key: the variable KEY is not set"), "{finished:?}");
}
