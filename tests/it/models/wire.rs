//! What goes out and what is read, on both wires.

use std::collections::HashSet;

use glassbox::{
    core::{Arguments, Model as _, ModelReply, ToolCall, Usage},
    machine::reply::settle_ids,
};
use serde_json::{Value, json};

use super::{KEY, Provider, WIRES, Wire, ask, counting_anthropic, estimated_input, provider::Play, request, trace};

/// What a model of this wire reads of this answer.
async fn read(wire: Wire, stream: bool, play: Play) -> ModelReply {
    let provider = Provider::playing(play).await;
    ask(&*wire.model(&provider.url, stream)).await.unwrap_or_else(|fault| panic!("{wire:?}: {fault}"))
}

/// An answer of the OpenAI wire with this message.
fn completion(message: Value, finish_reason: &str) -> Play {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    Play::json(
        200,
        json!({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}], "model": "m", "usage": usage}),
    )
}

fn chunk(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}], "model": "m"})
}

fn last_chunk(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "model": "m"})
}

fn tool_call(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut call = json!({"function": {"arguments": arguments}});
    for (key, value) in [("index", index.map(Value::from)), ("id", id.map(Value::from))] {
        if let Some(value) = value {
            call[key] = value;
        }
    }
    if let Some(name) = name {
        call["function"]["name"] = name.into();
    }
    json!({"tool_calls": [call]})
}

fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: Arguments::Json(arguments) }
}

const QWEN: &str = "models/qwen-coder.gguf";
const SUNNY: &str = "The current temperature in Paris is 17°C and the sky is rainy.";

#[tokio::test]
async fn recorded_replies_of_a_real_model_are_read_in_every_cut() {
    let paris = json!({"city": "Paris", "unit": "c"});
    let usage = |input, output, cache_read| Usage { input, output, cache_read, ..Usage::default() };
    let reply = |text: &str, calls, usage, reason: &str| ModelReply {
        text: text.into(),
        calls,
        usage,
        model: QWEN.into(),
        finish_reason: reason.into(),
    };
    let weather = |id| vec![call(id, "get_weather", paris.clone())];
    for (wire, file, expected) in [
        (
            Wire::OpenAi,
            include_str!("../../data/real-llm/openai-tool-call.json"),
            reply("", weather("XhgrTde9J7cplXPEeoQwSuUUYo8nLxd2"), usage(274, 23, 92), "tool_calls"),
        ),
        (
            Wire::OpenAi,
            include_str!("../../data/real-llm/openai-answer.json"),
            reply(SUNNY, Vec::new(), usage(325, 17, 296), "stop"),
        ),
        (
            Wire::OpenAi,
            include_str!("../../data/real-llm/openai-tool-call.sse"),
            reply("", weather("Y18ZXzd46ckByj9ToxRsq5Xu4TaHWbGx"), usage(274, 23, 273), "tool_calls"),
        ),
        (
            Wire::Anthropic,
            include_str!("../../data/real-llm/anthropic-tool-call.json"),
            reply("", weather("zNgcAkijAfKr83p4Dl5rJypqvukgSyA2"), usage(274, 23, 273), "tool_use"),
        ),
        (
            Wire::Anthropic,
            include_str!("../../data/real-llm/anthropic-answer.json"),
            reply(SUNNY, Vec::new(), usage(325, 17, 296), "end_turn"),
        ),
        (
            Wire::Anthropic,
            include_str!("../../data/real-llm/anthropic-tool-call.sse"),
            reply("", weather("31VWdub7wYhSxpdKdfvxcJShC3sj6nZ5"), usage(274, 23, 273), "tool_use"),
        ),
    ] {
        let streams = !file.starts_with('{');
        let play = if streams { Play::sse(file) } else { Play::json(200, file) };
        for size in [1, 7, file.len()] {
            assert_eq!(read(wire, streams, play.clone().in_pieces(size)).await, expected, "{wire:?}, pieces of {size}");
        }
        // What the answer is counts, not what was asked for.
        assert_eq!(read(wire, !streams, play).await, expected, "{wire:?}, another form than asked for");
    }
}

#[tokio::test]
async fn a_request_carries_the_credential_the_trace_and_the_encoded_body() {
    for (wire, path, key, value) in [
        (Wire::Anthropic, "/v1/messages", "x-api-key", KEY.to_owned()),
        (Wire::OpenAi, "/chat/completions", "authorization", format!("Bearer {KEY}")),
    ] {
        let provider = Provider::playing(Play::json(500, "{}")).await;
        let model = wire.model(&provider.url, true);
        ask(&*model).await.expect_err("a 500");
        let asked = provider.asked();
        let [asked] = asked.as_slice() else { panic!("asked once, not {}", asked.len()) };
        assert_eq!(asked.uri, path);
        assert_eq!(asked.body, serde_json::from_slice::<Value>(&model.encode(&super::request())).unwrap());
        let traceparent = format!("00-{}-{}-01", "ab".repeat(16), "cd".repeat(8));
        for (name, value) in [
            (key, value.as_str()),
            ("traceparent", &traceparent),
            ("x-tenant", "demo"),
            ("accept", "text/event-stream"),
            ("content-type", "application/json"),
        ] {
            assert_eq!(asked.headers[name], value, "{wire:?}: {name}");
        }
        assert_eq!(asked.headers.get("anthropic-version").is_some(), wire == Wire::Anthropic);
    }
}

#[tokio::test]
async fn no_arguments_null_and_an_object_are_read_as_what_is_meant() {
    for (arguments, expected) in [
        (json!(""), Arguments::Json(json!({}))),
        (json!("null"), Arguments::Json(json!({}))),
        (Value::Null, Arguments::Json(json!({}))),
        (json!({"city": "Paris"}), Arguments::Json(json!({"city": "Paris"}))),
        (json!("{\"city\": \"Paris\"}"), Arguments::Json(json!({"city": "Paris"}))),
        (json!("{\"city\": \"Par"), Arguments::Raw("{\"city\": \"Par".into())),
        (json!("\"{}\""), Arguments::Json(json!("{}"))),
    ] {
        let calls = json!([{"id": "a", "type": "function", "function": {"name": "t", "arguments": arguments}}]);
        let whole = read(Wire::OpenAi, false, completion(json!({"content": null, "tool_calls": calls}), "tool_calls"));
        assert_eq!(whole.await.calls[0].arguments, expected, "{arguments}");
        let events = Play::events(&[chunk(json!({"tool_calls": calls})), last_chunk("tool_calls")]);
        assert_eq!(read(Wire::OpenAi, true, events).await.calls[0].arguments, expected, "{arguments}");
    }
    for (input, expected) in [
        (Value::Null, Arguments::Json(json!({}))),
        (json!({"a": 1}), Arguments::Json(json!({"a": 1}))),
        (json!("{}"), Arguments::Json(json!("{}"))),
    ] {
        let content = json!([{"type": "tool_use", "id": "a", "name": "t", "input": input}]);
        let reply =
            read(Wire::Anthropic, false, Play::json(200, json!({"content": content, "stop_reason": "tool_use"})));
        assert_eq!(reply.await.calls[0].arguments, expected, "{input}");
    }
}

#[tokio::test]
async fn a_request_is_counted_by_its_provider_before_it_is_made() {
    let provider = Provider::playing(Play::json(200, json!({"input_tokens": 2095}))).await;
    let model = counting_anthropic(&provider.url);
    assert_eq!(model.count(&request(), trace()).await, Some(2095));
    let asked = provider.asked().remove(0);
    assert_eq!(asked.uri, "/v1/messages/count_tokens");
    assert_eq!(
        (asked.headers["x-api-key"].as_bytes(), asked.headers.contains_key("traceparent")),
        (KEY.as_bytes(), true)
    );
    let mut keys: Vec<_> = asked.body.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    // The API knows neither max_tokens nor stream here.
    assert_eq!(keys, ["messages", "model", "system", "tools"]);

    for answer in [Play::json(500, "{}"), Play::json(200, "{}"), Play::json(200, "no JSON")] {
        let provider = Provider::playing(answer).await;
        assert_eq!(counting_anthropic(&provider.url).count(&request(), trace()).await, None);
    }
}

#[tokio::test]
async fn cached_tokens_are_a_part_of_the_input_by_both_rules() {
    let counts = json!({"input_tokens": 5, "cache_read_input_tokens": 128_955, "cache_creation_input_tokens": 1253, "output_tokens": 1});
    let message = json!({"content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "usage": counts});
    let expected = Usage { input: 130_213, output: 1, cache_read: 128_955, cache_write: 1253, ..Usage::default() };
    assert_eq!(read(Wire::Anthropic, false, Play::json(200, &message)).await.usage, expected);

    let events = Play::events(&[
        json!({"type": "message_start", "message": {"model": "m", "content": [], "usage": counts}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage":
            {"output_tokens": 20, "output_tokens_details": {"thinking_tokens": 8}}}),
        json!({"type": "message_stop"}),
    ]);
    let reply = read(Wire::Anthropic, true, events).await;
    assert_eq!((reply.text.as_str(), reply.usage), ("Hi", Usage { output: 20, reasoning: 8, ..expected }));

    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 800},
        "completion_tokens_details": {"reasoning_tokens": 30}});
    let expected = Usage { input: 1000, output: 50, cache_read: 800, reasoning: 30, ..Usage::default() };
    let after_the_finish = Play::events(&[
        chunk(json!({"role": "assistant", "content": "Hi"})),
        last_chunk("stop"),
        json!({"choices": [], "usage": usage}),
    ]);
    assert_eq!(read(Wire::OpenAi, true, after_the_finish).await.usage, expected);
}

#[tokio::test]
async fn what_a_server_does_not_count_is_estimated_and_marked() {
    for usage in [Value::Null, json!({}), json!({"prompt_tokens": 0, "completion_tokens": 0})] {
        let play = Play::json(200, json!({"choices": [{"message": {"content": "x".repeat(40)}}], "usage": usage}));
        let provider = Provider::playing(play).await;
        let model = Wire::OpenAi.model(&provider.url, false);
        let expected = Usage { input: estimated_input(&*model), output: 10, estimated: true, ..Usage::default() };
        assert_eq!(ask(&*model).await.expect("a reply").usage, expected, "{usage}");
    }
    let reply = read(Wire::OpenAi, false, Play::json(200, json!({"choices": [{"message": {"content": "x"}}]}))).await;
    assert_eq!((reply.model.as_str(), reply.finish_reason.as_str()), ("test-1", "unknown"));
}

#[tokio::test]
async fn calls_win_over_stop_and_text_over_no_calls() {
    let calls = json!([{"id": "a", "function": {"name": "t", "arguments": "{}"}}]);
    let reply = read(Wire::OpenAi, false, completion(json!({"content": "I look.", "tool_calls": calls}), "stop")).await;
    assert_eq!((reply.text.as_str(), reply.calls), ("I look.", vec![call("a", "t", json!({}))]));
    let reply = read(Wire::OpenAi, false, completion(json!({"content": "Done.", "tool_calls": []}), "stop")).await;
    assert_eq!((reply.text.as_str(), reply.calls), ("Done.", Vec::new()));
    let reply = read(Wire::OpenAi, false, completion(json!({"content": null, "tool_calls": null}), "stop")).await;
    assert_eq!((reply.text.as_str(), reply.calls), ("", Vec::new()));
    let parts =
        json!({"content": [{"type": "text", "text": "a"}, {"type": "thinking"}, {"type": "text", "text": "b"}]});
    assert_eq!(read(Wire::OpenAi, false, completion(parts, "stop")).await.text, "ab");
    let refusal = json!({"content": null, "refusal": "I cannot."});
    assert_eq!(read(Wire::OpenAi, false, completion(refusal, "stop")).await.text, "I cannot.");
}

#[tokio::test]
async fn interleaved_fragments_are_rebuilt_by_index_and_a_missing_id_is_made_up() {
    let events = Play::events(&[
        chunk(tool_call(Some(1), None, Some("b"), "{\"y\"")),
        chunk(tool_call(Some(0), Some("call_a"), Some("a"), "{\"x\"")),
        chunk(tool_call(Some(1), None, None, ":2")),
        chunk(tool_call(Some(0), None, None, ":1}")),
        chunk(tool_call(Some(1), None, None, "}")),
        last_chunk("tool_calls"),
    ]);
    let mut reply = read(Wire::OpenAi, true, events).await;
    settle_ids(&mut reply, 1, &HashSet::new());
    assert_eq!(reply.calls, [call("call_a", "a", json!({"x": 1})), call("call_1_2", "b", json!({"y": 2}))]);
}

#[tokio::test]
async fn whole_calls_in_one_chunk_are_kept_apart_whatever_their_index() {
    let expected = [call("i", "a", json!({})), call("j", "b", json!({"x": 1}))];
    for (first, second) in [(Some(0), Some(0)), (None, None), (Some(0), Some(1))] {
        let events = Play::events(&[
            chunk(tool_call(first, Some("i"), Some("a"), "{}")),
            chunk(tool_call(second, Some("j"), Some("b"), "{\"x\":1}")),
            last_chunk("tool_calls"),
        ]);
        assert_eq!(read(Wire::OpenAi, true, events).await.calls, expected, "{first:?}, {second:?}");
    }
    let events = Play::events(&[
        chunk(tool_call(None, None, Some("a"), "{}")),
        chunk(tool_call(None, None, Some("b"), "{\"x\":1}")),
        last_chunk("stop"),
    ]);
    let mut reply = read(Wire::OpenAi, true, events).await;
    settle_ids(&mut reply, 2, &HashSet::new());
    assert_eq!(reply.calls, [call("call_2_1", "a", json!({})), call("call_2_2", "b", json!({"x": 1}))]);
}

#[tokio::test]
async fn every_stop_reason_of_a_whole_reply_is_passed_on() {
    for reason in ["end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "a_new_one"] {
        let message = json!({"content": [{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": "x"}],
            "model": "claude", "stop_reason": reason, "usage": {"input_tokens": 3, "output_tokens": 1}});
        let reply = read(Wire::Anthropic, false, Play::json(200, message)).await;
        assert_eq!((reply.finish_reason.as_str(), reply.text.as_str(), reply.model.as_str()), (reason, "Hi", "claude"));
    }
    for reason in ["stop", "length", "content_filter", "tool_calls", "eos"] {
        let reply = read(Wire::OpenAi, false, completion(json!({"content": "Hi"}), reason)).await;
        assert_eq!(reply.finish_reason, reason);
    }
}

/// A call in the middle of which the limit of output tokens struck must not run with what a
/// server made of its beginning.
#[tokio::test]
async fn the_last_call_of_a_reply_that_was_cut_off_is_not_believed() {
    let raw = |text: &str| Arguments::Raw(text.into());
    for (arguments, read_as) in
        [("", raw("{")), ("{\"a\": 1", raw("{\"a\": 1")), ("{\"a\":1}", Arguments::Json(json!({"a": 1})))]
    {
        let message = tool_call(None, Some("c"), Some("pay"), arguments);
        let mut reply = read(Wire::OpenAi, false, completion(message, "length")).await;
        settle_ids(&mut reply, 1, &HashSet::new());
        assert_eq!(reply.calls[0].arguments, read_as, "{arguments:?}");
    }
    let content = json!([
        {"type": "tool_use", "id": "a", "name": "look", "input": {}},
        {"type": "tool_use", "id": "b", "name": "pay", "input": {"amount": 1}},
    ]);
    let message = json!({"content": content, "stop_reason": "max_tokens"});
    let mut reply = read(Wire::Anthropic, false, Play::json(200, message)).await;
    settle_ids(&mut reply, 1, &HashSet::new());
    assert_eq!(reply.calls[0].arguments, Arguments::empty());
    assert_eq!(reply.calls[1].arguments, raw("{\"amount\":1"));
}

#[tokio::test]
async fn text_around_a_call_and_input_that_came_at_once() {
    let events = Play::events(&[
        // No message_start: some servers leave it out.
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "I "}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look."}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "thinking_delta", "thinking": "x"}}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "a", "name": "t", "input": {"x": 1}}}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "b", "name": "u", "input": {}}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ""}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{\"y\": 2}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        json!({"type": "an_event_of_tomorrow", "x": 1}),
        json!({"type": "message_stop"}),
    ]);
    let reply = read(Wire::Anthropic, true, events).await;
    assert_eq!(reply.text, "I look.");
    assert_eq!(reply.calls, [call("a", "t", json!({"x": 1})), call("b", "u", json!({"y": 2}))]);
    assert_eq!((reply.usage.output, reply.usage.estimated), (9, true));
}

#[tokio::test]
async fn neither_debug_nor_info_shows_the_credential() {
    for wire in WIRES {
        let model = wire.model("http://127.0.0.1:1", true);
        let shown = format!("{:?} {:?}", model.info(), super::request());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let access = glassbox::model::Access {
        base_url: "http://127.0.0.1:1".into(),
        api_key: Some(KEY.into()),
        headers: std::iter::once(("x".to_owned(), KEY.into())).collect(),
        stream: true,
    };
    assert!(!format!("{access:?}").contains("hunter2"));
}
