//! Tests of `model::react`: what models write, and what it means.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{parse::Said, *};
use crate::core::{Arguments, Message, ToolCall, ToolDefinition};

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: String::new(), name: name.into(), arguments: Arguments::Json(arguments) }
}

fn raw(name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: String::new(), name: name.into(), arguments: Arguments::Raw(arguments.into()) }
}

fn answer(text: &str) -> Said {
    Said { text: text.into(), calls: Vec::new() }
}

fn paris() -> Value {
    json!({"city": "Paris"})
}

#[test]
fn one_call_in_every_form_that_models_give_it() {
    for text in [
        "Thought: I look.\nAction: get_weather\nAction Input: {\"city\": \"Paris\"}\n",
        // As a real model of llama.cpp wrote it.
        "Thought: I look.\nAction: get_weather(city: Paris)\nAction Input: {\"city\": \"Paris\"}\n",
        "Thought: I look.\nAction: get_weather(city: Paris)",
        "Thought: I look.\nAction: get_weather(city=\"Paris\")\n",
        "Thought: I look.\nAction: get_weather({\"city\": \"Paris\"})\n",
        "Thought: I look.\nAction: get_weather {\"city\": \"Paris\"}",
        "Thought: I look.\nAction: get_weather\n{\"city\": \"Paris\"}",
        "Thought: I look.\nAction: `get_weather`\nAction Input: `{'city': 'Paris'}`",
        "Thought: I look.\nAction: get_weather\nAction Input: {\"city\": \"Paris\",}",
        "Thought: I look.\nAction: get_weather\nAction Input: {\"city\": \"Paris\"} to know the weather",
        "Thought: I look.\nAction: get_weather\nAction Input:\n```json\n{\n  \"city\": \"Paris\"\n}\n```\n",
        "Thought: I look.\n```\nAction: get_weather\nAction Input: {\"city\": \"Paris\"}\n```",
        "Thought: I look.\nAction:\n```json\n{\"action\": \"get_weather\", \"action_input\": {\"city\": \"Paris\"}}\n```",
        "Thought: I look.\nAction: {\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Paris\\\"}\"}",
        "Thought: I look. Action: get_weather Action Input: {\"city\": \"Paris\"}",
        "I look.\nAction: get_weather\nAction Input: {\"city\": \"Paris\"}",
        "<think>Action: b?\nNo.</think>\nThought: I look.\nAction: get_weather\nAction Input: {\"city\": \"Paris\"}",
        "**Thought:** I look.\n**Action:** get_weather\n**Action Input:** {\"city\": \"Paris\"}",
        "THOUGHT: I look.\nACTION 1: get_weather\nACTION INPUT 1: {\"city\": \"Paris\"}",
        "Thought: I look.\nAction: get_weather\nAction Input: {\"city\": \"Paris\"}\nObservation: rain\nFinal Answer: rain",
        "Thought: I look.\nAction: get_weather\nAction Input: {\"city\": \"Paris\"}\nFinal Answer: it will rain",
    ] {
        let expected = Said { text: "I look.".into(), calls: vec![call("get_weather", paris())] };
        assert_eq!(parse(text), expected, "{text}");
    }
}

#[test]
fn the_last_call_of_a_reply_that_was_cut_off_is_not_believed() {
    let reply = |text: &str, reason: &str| {
        let reply = ModelReply { text: text.into(), finish_reason: reason.into(), ..ModelReply::default() };
        read(reply, true).calls
    };
    let text = "Action: look\nAction Input: {\"a\": 1}\nAction: pay";
    assert_eq!(reply(text, "length"), [call("look", json!({"a": 1})), raw("pay", "{")]);
    assert_eq!(reply(text, "stop"), [call("look", json!({"a": 1})), call("pay", json!({}))]);
}

/// What the form adds is counted before the first call, at about four bytes a token.
#[test]
fn the_form_is_a_part_of_the_estimate() {
    let request = history();
    let plain = request.system.len() + request.tools.iter().map(parts).sum::<usize>();
    let added = (flatten(&request).system.len() - plain) as u64;
    let estimate = text::form_tokens(request.tools.len());
    assert!((added / 5..=added / 3).contains(&estimate), "{estimate} of {added} bytes");
    assert_eq!(text::form_tokens(0), 0);
}

fn parts(tool: &ToolDefinition) -> usize {
    tool.name.len() + tool.description.len() + tool.input_schema.to_string().len()
}

#[test]
fn several_calls_stand_in_their_order() {
    let calls = vec![call("a", json!({"x": 1})), call("b", json!({})), call("c", json!({"y": "z"}))];
    let text =
        "Thought: three\nAction: a\nAction Input: {\"x\": 1}\nAction: b\nThought: and\nAction: c\nAction Input: {y: z}";
    assert_eq!(parse(text), Said { text: "three".into(), calls: calls.clone() });
    let list = "Action: [{\"tool\": \"a\", \"input\": {\"x\": 1}}, {\"tool\": \"b\"}, {\"tool\": \"c\", \"input\": {\"y\": \"z\"}}]";
    assert_eq!(parse(list), Said { text: String::new(), calls });
}

#[test]
fn an_answer_is_what_is_left_when_nothing_is_asked_for() {
    for (text, said) in [
        ("Thought: I now know the final answer\nFinal Answer: the answer", "the answer"),
        (
            "Final Answer: two\nlines\n\nAction: none of yours, only advice",
            "two\nlines\n\nAction: none of yours, only advice",
        ),
        ("**Final Answer:** rain", "rain"),
        ("Thought: done. Final Answer: rain", "rain"),
        ("It rains.", "It rains."),
        ("  \n", ""),
        ("", ""),
        ("Action: Final Answer\nAction Input: rain", "rain"),
        ("Thought: easy\nAction: None\nFinal Answer: rain", "rain"),
        ("Final Answer: rain\nObservation: sun", "rain"),
        ("Final Answer: {\"sum\": 5}", "{\"sum\": 5}"),
    ] {
        assert_eq!(parse(text), answer(said), "{text}");
    }
}

#[test]
fn what_the_model_observes_by_itself_is_never_believed() {
    for mark in
        ["Observation:", "observation:", "**Observation:**", "**Observation**:", "Observation 1:", "Observation (a):"]
    {
        let text = format!("Action: a\n{mark} ok\nAction: b\nFinal Answer: c");
        assert_eq!(parse(&text), Said { text: String::new(), calls: vec![call("a", json!({}))] }, "{mark}");
        assert_eq!(parse(&format!("{mark} ok\nFinal Answer: c")), answer(""), "{mark}");
    }
    assert_eq!(parse("Thought: I see Observation: ok\nAction: b").calls, [raw(NO_ACTION, "I see")]);
}

#[test]
fn what_cannot_be_understood_is_a_call_that_says_so() {
    for (text, expected) in [
        ("Thought: I should look", raw(NO_ACTION, "I should look")),
        ("Thought: I should look\nAction: None", raw(NO_ACTION, "I should look")),
        ("Thought:", raw(NO_ACTION, "")),
        ("Action:\nAction Input: {\"a\": 1}", call(NO_NAME, json!({"a": 1}))),
        ("Action Input: {\"a\": 1}", call(NO_NAME, json!({"a": 1}))),
        ("Action: {\"do\": \"it\"}", raw(NO_NAME, "{\"do\": \"it\"}")),
        ("Action: a\nAction Input: {\"x\": ", raw("a", "{\"x\":")),
        ("Action: a\nAction Input: the weather", raw("a", "the weather")),
        ("Action: a(Paris)", raw("a", "Paris")),
        ("Action: a", call("a", json!({}))),
        ("Action: a\nAction Input: None", call("a", json!({}))),
        ("Action: search the web", call("search the web", json!({}))),
    ] {
        assert_eq!(parse(text).calls, [expected], "{text}");
    }
}

fn history() -> ModelRequest {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": false});
    let result =
        |id: &str, content: &str, is_error| Message::Tool { call_id: id.into(), content: content.into(), is_error };
    ModelRequest {
        system: "Help.".into(),
        messages: vec![
            Message::User { content: "Weather?".into() },
            Message::Assistant {
                content: "I look.".into(),
                calls: vec![call("get_weather", paris()), raw("get_weather", "{\"city\":")],
            },
            result("1", "rain", false),
            result("2", "no JSON", true),
            Message::Assistant { content: "Hm.".into(), calls: vec![raw(NO_ACTION, "Hm.")] },
            result("3", "unknown tool", true),
            Message::Assistant { content: "It rains.".into(), calls: Vec::new() },
            Message::User { content: "And now?".into() },
        ],
        tools: [ToolDefinition {
            name: "get_weather".into(),
            description: "The weather.".into(),
            input_schema: schema,
        }]
        .into(),
        max_tokens: 100,
        ..ModelRequest::default()
    }
}

#[test]
fn the_history_is_what_the_model_would_have_written() {
    let flat = flatten(&history());
    let user = |content: &str| Message::User { content: content.into() };
    let said = |content: &str| Message::Assistant { content: content.into(), calls: Vec::new() };
    let expected = [
        user("Weather?"),
        said(
            "Thought: I look.\nAction: get_weather\nAction Input: {\"city\":\"Paris\"}\n\
             Action: get_weather\nAction Input: {\"city\":",
        ),
        user("Observation: rain\n\nObservation: [error] no JSON"),
        said("Thought: Hm."),
        user("Observation: [error] unknown tool"),
        said("Final Answer: It rains."),
        user("And now?"),
    ];
    assert_eq!(flat.messages, expected);
    assert_eq!((flat.stop, flat.tools, flat.max_tokens), (vec!["Observation:".to_owned()], [].into(), 100));
    let tool = "You can call these tools:\n\nget_weather: The weather.\nInput, as JSON Schema: {\"type\":\"object\",";
    assert!(flat.system.starts_with(&format!("Help.\n\n{tool}")), "{}", flat.system);
}

#[test]
fn a_request_without_tools_forbids_them_and_one_that_never_had_any_is_left_alone() {
    let wrap_up = flatten(&ModelRequest { tools: [].into(), ..history() });
    assert_eq!(wrap_up.system, "Help.\n\nNo tool can be called now. Write the answer behind \"Final Answer:\".");
    let plain = ModelRequest { messages: vec![Message::User { content: "Hi".into() }], tools: [].into(), ..history() };
    assert_eq!(flatten(&plain), plain);
}

#[test]
fn calls_are_believed_where_tools_are_on_offer() {
    let reply = ModelReply { text: "Thought: x\nAction: a".into(), ..ModelReply::default() };
    assert_eq!(read(reply.clone(), true).calls, [call("a", json!({}))]);
    assert_eq!(read(reply, false), ModelReply { text: "x".into(), ..ModelReply::default() });
}

/// Texts of the words that mean something here, and of anything between them.
fn texts() -> impl Strategy<Value = String> {
    let words = [
        "Thought:",
        "Action:",
        "Action Input:",
        "Final Answer:",
        "Observation:",
        "observation 2:",
        "**",
        "```",
        "json",
        "\n",
        "\n",
        " ",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        "'",
        ":",
        ",",
        "=",
        "\\",
        "city",
        "Paris",
        "None",
        "10",
        "é",
        "：",
        "\u{0}",
    ];
    let word = prop_oneof![4 => prop::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,6}"];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics_and_nothing_behind_an_observation_counts(before in texts(), behind in texts()) {
        let said = parse(&before);
        let without = before.split(STOP).next().unwrap_or_default();
        prop_assert_eq!(&said, &parse(without));
        prop_assert_eq!(parse(&format!("{before}{STOP}{behind}")), parse(&format!("{before}{STOP}")));
        prop_assert_eq!(parse(&format!("{before}\nobservation 1:{behind}")), parse(&format!("{before}\nobservation 1:")));
        prop_assert!(!said.text.contains(STOP));
        for call in &said.calls {
            prop_assert!(!call.name.contains(STOP) && !call.name.is_empty());
        }
        prop_assert!(said.calls.len() <= before.len());
    }

    #[test]
    fn every_history_makes_a_request_that_alternates(texts in prop::collection::vec(texts(), 1..6)) {
        let mut messages = vec![Message::User { content: "task".into() }];
        for text in &texts {
            let Said { text, calls } = parse(text);
            let results = calls.iter().map(|_| Message::Tool { call_id: "x".into(), content: "ok".into(), is_error: false });
            let results: Vec<_> = results.collect();
            messages.push(Message::Assistant { content: text, calls });
            messages.extend(results);
            if matches!(messages.last(), Some(Message::Assistant { .. })) {
                messages.push(Message::User { content: "and".into() });
            }
        }
        let flat = flatten(&ModelRequest { messages, ..history() });
        for (index, message) in flat.messages.iter().enumerate() {
            prop_assert_eq!(matches!(message, Message::User { .. }), index % 2 == 0);
        }
    }
}
