//! Journals as rows: what is drawn of retries, waits, invented names and of what is still open.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Row, Waterfall};
use crate::{
    core::{Entry, SessionId, StreamId, Timestamp, fact::Language},
    http::console::{content::Shown, look::Tone, words::Words},
};

/// A model that fails once, a tool that it made up, a call that waits for a person.
fn journal() -> Vec<Entry> {
    let model = json!({"name": "bank", "request_model": "b", "provider": "p", "context_window": 9, "max_output_tokens": 9,
        "prices": {"input": 3_000_000_000_u64, "output": 0, "cache_read": 0, "cache_write": 0}});
    let call = json!({"step": 1, "purpose": "step", "model": model, "estimated_input_tokens": 1, "max_tokens": 9,
        "body_hash": format!("sha256:{}", "0".repeat(64))});
    let (ask, made_up, wait) = ("00000000000000a1", "00000000000000a2", "00000000000000a3");
    let usage = json!({"input": 1000, "output": 20});
    let reply = json!({"text": "Wait.", "usage": usage, "model": "b", "finish_reason": "end_turn"});
    let principal = json!({"id": "C-1"});
    let hash = format!("sha256:{}", "1".repeat(64));
    let facts = [
        (0, json!({"model_call_started": {"op": ask, "call": call}})),
        (0, json!({"model_attempt_started": {"call": ask, "attempt": 1, "model": "bank"}})),
        (
            300,
            json!({"model_attempt_finished": {"call": ask, "attempt": 1, "end": {"outcome": "overloaded", "error": "busy"}}}),
        ),
        (500, json!({"model_attempt_started": {"call": ask, "attempt": 2, "model": "bank", "wait_ms": 200}})),
        (900, json!({"model_attempt_finished": {"call": ask, "attempt": 2, "end": {"outcome": "ok"}}})),
        (
            900,
            json!({"model_call_finished": {"op": ask, "end": {"outcome": "ok", "reply": reply, "usage": usage, "attempts": 2}}}),
        ),
        (
            900,
            json!({"tool_call_started": {"op": made_up, "call": {"step": 1, "call_id": "c1", "tool": "sehr_privat", "known": false,
            "arguments": {"json": {"iban": "KZ1"}}}}}),
        ),
        (
            1000,
            json!({"tool_call_finished": {"op": made_up, "end": {"call_id": "c1", "outcome": "unknown_tool",
            "observation": {"content": "there is none", "is_error": true, "tokens": 3}, "attempts": 0}}}),
        ),
        (
            1000,
            json!({"confirmation_requested": {"op": wait, "request": {"step": 1, "call_id": "c2", "tool": "card_block",
            "arguments": {}, "arguments_hash": hash, "definition_hash": hash, "principal": principal, "expires": 9_000_000_000_u64}}}),
        ),
        (1000, json!({"session_suspended": {"cause": "confirmation"}})),
    ];
    let entry = |(seq, (millis, fact)): (usize, (u64, Value))| Entry {
        stream: StreamId::Session(SessionId::from_bytes([1; 16])),
        seq: seq as u64,
        at: at(millis),
        fact: serde_json::from_value(fact).expect("a fact"),
    };
    facts.into_iter().enumerate().map(entry).collect()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::default().plus(Duration::from_millis(millis))
}

fn fall(entries: &[Entry], reads: bool, now: u64) -> Waterfall {
    Waterfall::of(entries, Words::of(Language::En), reads, at(now))
}

fn bars(row: &Row) -> Vec<(&'static str, &str, &str)> {
    row.bars.iter().map(|bar| (bar.class, bar.left.as_str(), bar.width.as_str())).collect()
}

#[test]
fn an_attempt_that_failed_and_the_pause_after_it_are_drawn() {
    let fall = fall(&journal(), true, 2000);
    let names: Vec<_> = fall.rows.iter().map(|row| (row.kind, row.name.as_str(), row.end, row.took.as_str())).collect();
    let expected = [
        ("model", "bank", "ok", "900 ms"),
        ("tool", "sehr_privat", "unknown_tool", "100 ms"),
        ("wait", "card_block", "running", "1.00 s"),
        ("note", "confirmation", "", ""),
    ];
    assert_eq!(names, expected);
    // A second of calls; the second of waiting takes 15 % of that: 1.15 in all.
    assert!(fall.shortened);
    let expected = [("pause", "0.00%", "78.26%"), ("failed", "0.00%", "26.09%"), ("model", "43.48%", "34.78%")];
    assert_eq!(bars(&fall.rows[0]), expected);
    assert_eq!(bars(&fall.rows[2]), [("wait", "86.96%", "13.04%")]);
    let tries: Vec<_> =
        fall.rows[0].attempts.iter().map(|one| (one.end, one.took.as_str(), one.waited.as_str())).collect();
    assert_eq!(tries, [("overloaded", "300 ms", ""), ("ok", "400 ms", "200 ms")]);
    // 1000 tokens at 3 dollars a million.
    assert!(fall.rows[0].numbers.contains(&("Cost", "$0.003".to_owned())), "{:?}", fall.rows[0].numbers);
}

#[test]
fn whoever_may_not_read_texts_sees_no_name_that_a_model_made_up() {
    for row in fall(&journal(), false, 2000).rows {
        assert_ne!(row.name, "sehr_privat");
        assert!(row.texts.iter().all(|(_, text)| *text == Shown::Hidden), "{}", row.name);
        assert!(row.attempts.iter().all(|one| one.error.iter().all(|error| *error == Shown::Hidden)));
    }
}

#[test]
fn any_beginning_of_a_journal_is_drawn() {
    let journal = journal();
    for length in 0..=journal.len() {
        let rows = fall(&journal[..length], true, 1500).rows;
        let open = rows.iter().filter(|row| row.tone == Tone::Live).count();
        assert_eq!(open, [0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 1][length], "after {length} facts");
    }
    // Facts that make no sense together.
    let ends: Vec<_> = journal.iter().rev().cloned().collect();
    assert!(!fall(&ends, true, 0).rows.is_empty());
}
