//! `confirm`: a word, or a rule on the arguments with what it asks for.

use serde_json::Value;

use super::free;
use crate::{
    config::{reader::Section, scalar},
    core::spec::{ArgumentRule, ArgumentTest, Confirm},
};

/// A number that every amount is below.
const MOST: f64 = 1e15;

pub(super) fn read(section: &Section<'_>) -> (Option<Confirm>, Option<ArgumentRule>) {
    if !section.is_section("confirm") {
        let words = Confirm::ALL.map(|confirm| (confirm.label(), confirm));
        return (section.get("confirm", scalar::word(&words)), None);
    }
    let section = section.section("confirm");
    let words = [Confirm::AskCustomer, Confirm::Suspend].map(|confirm| (confirm.label(), confirm));
    let then = section.get("then", scalar::word(&words)).unwrap_or(Confirm::Suspend);
    let rule = rule(&section.section("when"));
    if !section.has("when") {
        section.wrong("when", "is missing; write { pointer: /amount, over: 100000 }");
    }
    (Some(then), rule)
}

fn rule(when: &Section<'_>) -> Option<ArgumentRule> {
    let pointer = when.get("pointer", free::pointer);
    let tests = [
        when.get("over", scalar::decimal(0.0, MOST, false)).map(ArgumentTest::Over),
        when.get("under", scalar::decimal(0.0, MOST, false)).map(ArgumentTest::Under),
        when.get("equals", free::json).map(ArgumentTest::Equals),
    ];
    let mut tests = tests.into_iter().flatten();
    match (pointer, tests.next(), tests.next()) {
        (Some(pointer), Some(test), None) => Some(ArgumentRule { pointer, test }),
        (None, None, None) => None,
        _ => {
            when.wrong_here("must be a pointer with one of over, under and equals");
            None
        }
    }
}

/// A rule as it is written.
pub(super) fn effective(rule: &ArgumentRule) -> Value {
    let (word, value) = match &rule.test {
        ArgumentTest::Over(limit) => ("over", free::number(*limit)),
        ArgumentTest::Under(limit) => ("under", free::number(*limit)),
        ArgumentTest::Equals(value) => ("equals", value.clone()),
    };
    serde_json::json!({ "pointer": rule.pointer, word: value })
}
