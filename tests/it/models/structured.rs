//! Answers of a set form through both wires, and a schema that outlives its configuration.

use std::sync::Arc;

use glassbox::{
    Setup,
    core::{EndReason, Fact, Limits, SessionStatus, fact::Language},
    session::own_prompt,
    store::memory,
};
use serde_json::{Value, json};

use super::{
    Provider, WIRES, Wire,
    sessions::{TASK, config, run, says, yaml},
};
use crate::world;

const SCHEMA: &str = "{type: object, properties: {sum: {type: integer}}, required: [sum], additionalProperties: false}";

fn schema() -> Value {
    json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"],
        "additionalProperties": false})
}

fn held(wire: Wire, url: &str, way: &str) -> String {
    yaml(wire, url, true)
        .replace("tools: [txn_sum]", &format!("output_schema: {SCHEMA}"))
        .replace("model: m-1", &format!("model: m-1\n    {way}"))
}

fn system(wire: Wire, body: &Value) -> String {
    let text = match wire {
        Wire::Anthropic => &body["system"][0]["text"],
        Wire::OpenAi => &body["messages"][0]["content"],
    };
    text.as_str().expect("a system prompt").to_owned()
}

#[tokio::test]
async fn the_form_is_told_by_the_providers_means_or_in_words_and_mended_once() {
    for wire in WIRES {
        for (way, native) in
            [("structured_output: native", true), ("structured_output: prompt", false), ("tool_calling: react", false)]
        {
            let provider = Provider::start(move |number, _| match number {
                0 => says(wire, true, "5000 ₸"),
                _ => says(wire, true, "```json\n{\"sum\": 5000}\n```"),
            })
            .await;
            let folder = tempfile::tempdir().expect("a folder");
            let end = run(&config(&held(wire, &provider.url, way)), Setup::run(folder.path()), TASK).await;
            assert_eq!((end.status, end.steps), (SessionStatus::Done, 1), "{wire:?} {way}: {end:?}");
            assert_eq!(end.answer.expect("an answer").expose(), "{\"sum\": 5000}");
            let asked = provider.asked();
            assert_eq!(asked.len(), 2, "{wire:?} {way}");
            for asked in &asked {
                let form = match wire {
                    Wire::Anthropic => asked.body.pointer("/output_config/format/schema"),
                    Wire::OpenAi => asked.body.pointer("/response_format/json_schema/schema"),
                };
                assert_eq!(form, native.then(schema).as_ref(), "{wire:?} {way}");
                let words = format!(
                    "Помогай.\n\nYour final answer must be one JSON value that fits this JSON Schema, \
                    with no other text before or after it:\n{}",
                    schema()
                );
                assert_eq!(system(wire, &asked.body), if native { "Помогай." } else { &words }, "{wire:?} {way}");
            }
            let told = asked[1].body["messages"].to_string();
            assert!(told.contains("The answer does not fit the JSON Schema that it is held to"), "{told}");
        }
    }
}

#[tokio::test]
async fn a_form_that_is_missed_twice_is_an_error_with_its_reason() {
    let provider = Provider::start(|_, _| says(Wire::OpenAi, true, "{\"sum\": \"5000\"}")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let yaml = held(Wire::OpenAi, &provider.url, "stream: true").replacen("    stream: true\n", "", 1);
    let end = run(&config(&yaml), Setup::run(folder.path()), TASK).await;
    assert_eq!((end.status, end.reason), (SessionStatus::Error, Some(EndReason::OutputInvalid)), "{end:?}");
    assert_eq!((provider.asked().len(), end.answer), (2, None));
}

#[tokio::test(start_paused = true)]
async fn a_session_keeps_the_schema_that_it_began_with() {
    let script = "name: x\nrules:\n  - text: hello\n";
    let mut agent = world::agent(script, world::model_info(), Limits::default(), Language::En, Vec::new());
    agent.output_schema = Some(Arc::new(schema()));
    let store = Arc::new(memory::Store::new());
    let journal = world::journal(store.clone(), Vec::new());
    world::begin(&agent, &journal, "task");
    let entries = world::entries(&store);
    let Fact::SessionStarted(started) = &entries[0].fact else { panic!("the first fact") };
    let prompt = own_prompt(&*store, started).expect("its texts are kept");
    assert_eq!(prompt.output_schema.as_deref(), Some(&schema()));
    // A quarter of the bytes of the system prompt, and of the schema.
    assert_eq!(prompt.tokens(), 4 + (schema().to_string().len() as u64).div_ceil(4));
}
