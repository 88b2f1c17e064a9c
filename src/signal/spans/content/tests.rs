//! Tests of content as a fold shows it: its bounds. Its form and truth are held against the
//! conventions and journals in `tests/it/content.rs`.

use std::sync::Arc;

use opentelemetry::{KeyValue, Value as OtelValue};
use serde_json::{Value, json};

use super::*;
use crate::{
    core::{Entry, fact::ModelOutcome},
    signal::{
        samples::{Journal, session_end},
        spans::SpanFold,
    },
};

/// A session that shows all, and grows by the test.
fn begun() -> Journal {
    let mut journal = Journal::new(1);
    journal.started("bank", "other");
    if let Fact::SessionStarted(start) = &mut journal.entries[0].fact {
        start.trace.content = SpanContent::Full;
    }
    journal
}

fn fold(entries: &[Entry], mode: SpanContent, prompt: &Prompt) -> Vec<Vec<KeyValue>> {
    let prompt = prompt.clone();
    let mut fold = SpanFold::showing(Contents { mode, prompts: Arc::new(move |_| Some(prompt.clone())) });
    entries.iter().filter_map(|entry| fold.apply(entry)).map(|span| span.attributes).collect()
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let attribute = attributes.iter().find(|attribute| attribute.key.as_str() == key)?;
    if let OtelValue::String(text) = &attribute.value { Some(text.as_str()) } else { panic!("{key} is no string") }
}

fn truncated(attributes: &[KeyValue]) -> Vec<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key.as_str() == names::CONTENT_TRUNCATED);
    let Some(OtelValue::Array(Array::String(keys))) = attribute.map(|attribute| &attribute.value) else {
        return Vec::new();
    };
    keys.iter().map(|key| key.as_str().to_owned()).collect()
}

fn long_prompt() -> Prompt {
    Prompt::new("p".repeat(2 * MAX_CONTENT_BYTES), [])
}

#[test]
fn what_is_too_long_is_cut_and_named() {
    let mut journal = begun();
    let call = journal.model_started(1, "main");
    journal.model_finished(call, ModelOutcome::Ok, (10, 5));
    let chat = fold(&journal.entries, SpanContent::Full, &long_prompt()).remove(0);
    let system = text(&chat, names::GEN_AI_SYSTEM_INSTRUCTIONS).expect("instructions");
    assert!(system.len() <= MAX_CONTENT_BYTES, "{}", system.len());
    let system: Value = serde_json::from_str(system).expect("it stays JSON");
    let content = system[0]["content"].as_str().expect("text");
    assert!(content.starts_with("ppp") && content.ends_with(" bytes left out]"));
    assert_eq!(truncated(&chat), [names::GEN_AI_SYSTEM_INSTRUCTIONS]);
    let input = r#"[{"role":"user","parts":[{"type":"text","content":"Call me at +7 701 123 45 67"}]}]"#;
    assert_eq!(text(&chat, names::GEN_AI_INPUT_MESSAGES), Some(input), "what has room is whole");
}

#[test]
fn the_calls_of_a_session_show_so_much_together_and_its_root_has_its_own_room() {
    let mut journal = begun();
    for step in 1..=100 {
        let call = journal.model_started(step, "main");
        journal.model_finished(call, ModelOutcome::Ok, (10, 5));
    }
    journal.push(Fact::SessionFinished(Box::new(session_end(SessionStatus::Done, None))));
    let mut spans = fold(&journal.entries, SpanContent::Full, &long_prompt());
    let root = spans.pop().expect("a root");
    let keys = [names::GEN_AI_SYSTEM_INSTRUCTIONS, names::GEN_AI_INPUT_MESSAGES, names::GEN_AI_OUTPUT_MESSAGES];
    let bytes = |attributes: &[KeyValue]| keys.iter().filter_map(|key| text(attributes, key)).map(str::len).sum();
    let all: usize = spans.iter().map(|attributes| bytes(attributes)).sum();
    // Cuts of three quarters leave some room unused; no more than half of it.
    assert!((MAX_SESSION_BYTES / 2..=MAX_SESSION_BYTES).contains(&all), "{all}");
    let last = spans.last().expect("a call");
    assert_eq!((bytes(last), truncated(last)), (0, keys.map(str::to_owned).to_vec()), "nothing is shown, and named");
    assert!(bytes(&root) > MAX_CONTENT_BYTES / 2);
    let answer = text(&root, names::GEN_AI_OUTPUT_MESSAGES).expect("an answer");
    let said = json!([{"role": "assistant", "parts": [{"type": "text", "content": "secret answer"}], "finish_reason": "stop"}]);
    assert_eq!(serde_json::from_str::<Value>(answer).expect("JSON"), said);
}

#[test]
fn masked_is_the_same_with_marks() {
    let mut journal = begun();
    let call = journal.model_started(1, "main");
    journal.model_finished(call, ModelOutcome::Ok, (10, 5));
    let prompt = Prompt::new("Write to help@bank.kz.", []);
    let chat = fold(&journal.entries, SpanContent::Masked, &prompt).remove(0);
    let system = r#"[{"type":"text","content":"Write to [email]."}]"#;
    assert_eq!(text(&chat, names::GEN_AI_SYSTEM_INSTRUCTIONS), Some(system));
    let input = r#"[{"role":"user","parts":[{"type":"text","content":"Call me at [phone]"}]}]"#;
    assert_eq!(text(&chat, names::GEN_AI_INPUT_MESSAGES), Some(input));
}

#[test]
fn a_session_that_is_over_is_held_no_longer() {
    let mut journal = begun();
    journal.model_started(1, "main");
    journal.push(Fact::SessionFinished(Box::new(session_end(SessionStatus::Done, None))));
    let contents = Contents { mode: SpanContent::Full, prompts: Arc::new(|_| Some(Prompt::new("", []))) };
    let mut fold = SpanFold::showing(contents);
    journal.entries.iter().for_each(|entry| drop(fold.apply(entry)));
    assert_eq!(fold.open_sessions(), 0);
}
