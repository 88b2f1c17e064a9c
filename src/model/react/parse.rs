//! Reads ReAct text in whatever form a model gives it.
//!
//! What cannot be understood becomes a call that no tool answers to, so that the model is told
//! and the session goes on. What stands behind the first observation is never looked at.

use super::{
    NO_ACTION, STOP,
    arguments::{call, calls_in, read, read_pairs},
};
use crate::{
    core::{Arguments, ToolCall},
    machine::answer::without_fence,
};

/// What a text says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    /// The answer; with calls, the thought before them.
    pub(super) text: String,
    /// The calls, in their order, without ids.
    pub(super) calls: Vec<ToolCall>,
}

/// The words that begin a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Thought,
    Action,
    Input,
    Observation,
    Answer,
}

/// The longer words stand before those that they begin with.
const LABELS: [(&str, Label); 7] = [
    ("thought", Label::Thought),
    ("action input", Label::Input),
    ("action_input", Label::Input),
    ("action", Label::Action),
    ("observation", Label::Observation),
    ("final answer", Label::Answer),
    ("final_answer", Label::Answer),
];

/// A part of a text, from behind its label to the next one.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    label: Label,
    body: &'a str,
    /// Where the body begins in the text.
    begin: usize,
}

/// Reads a text.
pub(super) fn parse(text: &str) -> Said {
    let text = before_observation(text);
    // What some models think aloud before they begin is nobody's.
    let text = text.rsplit_once("</think>").map_or(text, |(_, said)| said);
    let (before, parts) = parts(text);
    let first = parts.iter().position(|part| matches!(part.label, Label::Action | Label::Input | Label::Answer));
    let thoughts = parts[..first.unwrap_or(parts.len())].iter().map(|part| part.body);
    let thoughts = std::iter::once(before).chain(thoughts).map(|text| text.trim().trim_matches(['`', '*']).trim());
    let thought = thoughts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    match first.map(|index| &parts[index..]) {
        // An answer may hold lines that look like labels.
        Some([Part { label: Label::Answer, begin, .. }, ..]) => Said::answer(&text[*begin..]),
        Some(asks) => asked(text, thought, asks),
        None if parts.is_empty() => Said::answer(text),
        None => Said::undecided(thought),
    }
}

impl Said {
    fn answer(text: &str) -> Self {
        let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '*');
        Self { text: text.to_owned(), calls: Vec::new() }
    }

    /// A thought that leads nowhere: the model is told so.
    fn undecided(thought: String) -> Self {
        Self { calls: vec![call(NO_ACTION, Arguments::Raw(thought.clone()))], text: thought }
    }
}

/// What stands before the first observation: where the provider should have stopped, wherever
/// that is in a line, and where a line begins with the word in another spelling.
fn before_observation(text: &str) -> &str {
    let mut end = text.find(STOP).unwrap_or(text.len());
    let mut begin = 0;
    for line in text[..end].split_inclusive('\n') {
        if matches!(label_of(line), Some((Label::Observation, _))) {
            end = begin;
            break;
        }
        begin += line.len();
    }
    &text[..end]
}

/// The parts, and what stands before the first.
fn parts(text: &str) -> (&str, Vec<Part<'_>>) {
    let mut marks = Vec::new();
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        if let Some((label, rest)) = label_of(line) {
            marks.push((begin, label, begin + line.len() - rest.len()));
        }
        begin += line.len();
    }
    if !marks.iter().any(|(_, label, _)| matches!(label, Label::Action | Label::Answer)) {
        marks.extend(mark_inside(text, &marks));
    }
    let ends = marks.iter().skip(1).map(|mark| mark.0).chain([text.len()]);
    let part = |(&(_, label, begin), end): (&(usize, Label, usize), usize)| {
        // A mark inside a line may stand before the end of the label in front of it.
        Part { label, body: text.get(begin..end).unwrap_or_default(), begin }
    };
    let parts = marks.iter().zip(ends).map(part).collect();
    (&text[..marks.first().map_or(text.len(), |mark| mark.0)], parts)
}

/// A thought that goes over into an action on one line: `Thought: I look it up. Action: search`.
fn mark_inside(text: &str, marks: &[(usize, Label, usize)]) -> Option<(usize, Label, usize)> {
    let [.., (_, Label::Thought, begin)] = marks else { return None };
    let found = |word: &str, label| {
        let at = begin + text[*begin..].find(word)?;
        Some((at, label, at + word.len()))
    };
    let marks = [found("Final Answer:", Label::Answer), found("Action:", Label::Action)];
    marks.into_iter().flatten().min_by_key(|mark| mark.0)
}

/// The label that a line begins with, and the rest of the line. Letters of Markdown around it, a
/// number behind it and any case are borne with.
fn label_of(line: &str) -> Option<(Label, &str)> {
    let line =
        line.trim_start_matches(|letter: char| letter.is_whitespace() || matches!(letter, '*' | '#' | '>' | '`'));
    let (label, rest) = LABELS.iter().find_map(|(word, label)| {
        let head = line.get(..word.len())?;
        head.eq_ignore_ascii_case(word).then(|| (*label, &line[word.len()..]))
    })?;
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, ' ' | '*' | '#'));
    let rest = match (label, rest.strip_prefix('('), rest.find("):")) {
        (Label::Observation, Some(_), Some(end)) => &rest[end + 1..],
        _ => rest,
    };
    let rest = rest.strip_prefix(':').or_else(|| rest.strip_prefix('：'))?;
    Some((label, rest.trim_start_matches('*')))
}

/// The calls of the parts from the first action on.
fn asked(text: &str, thought: String, parts: &[Part<'_>]) -> Said {
    let mut calls = Vec::new();
    let mut parts = parts.iter().peekable();
    while let Some(part) = parts.next() {
        let (name, input) = match part.label {
            Label::Thought | Label::Observation => continue,
            // What comes of the actions is not known yet, so an answer behind them is none.
            Label::Answer if calls.is_empty() => return Said::answer(&text[part.begin..]),
            Label::Answer => break,
            Label::Input => ("", Some(part.body)),
            Label::Action => (part.body, parts.next_if(|next| next.label == Label::Input).map(|next| next.body)),
        };
        match input {
            Some(answer) if calls.is_empty() && is_answer(name) => return Said::answer(answer),
            _ if is_answer(name) || is_nothing(name) => {}
            _ => calls.extend(read_action(name, input)),
        }
    }
    if calls.is_empty() { Said::undecided(thought) } else { Said { text: thought, calls } }
}

/// Some models give their answer as an action.
fn is_answer(name: &str) -> bool {
    ["final answer", "final_answer"].iter().any(|word| name.trim().eq_ignore_ascii_case(word))
}

/// Some models say that they need no action by one.
fn is_nothing(name: &str) -> bool {
    let name = name.trim().trim_end_matches('.');
    ["none", "n/a", "no action", "no action needed", "nothing"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

fn read_action(body: &str, input: Option<&str>) -> Vec<ToolCall> {
    let body = without_fence(body);
    if let Some((body, inside)) = split_input(body) {
        return read_action(body, Some(inside));
    }
    if body.starts_with(['{', '[']) {
        return calls_in(body).unwrap_or_else(|| vec![call("", Arguments::Raw(body.to_owned()))]);
    }
    let end = body.find(['(', '{', '[', '\n']).unwrap_or(body.len());
    let (name, behind) = body.split_at(end);
    let given = input.filter(|text| !text.trim().is_empty()).map(read);
    let arguments = given.unwrap_or_else(|| match behind.trim().strip_prefix('(') {
        Some(inside) => read_pairs(inside.rsplit_once(')').map_or(inside, |(inside, _)| inside)),
        None => read(behind),
    });
    vec![call(name, arguments)]
}

/// An input that stands on the line of its action.
fn split_input(body: &str) -> Option<(&str, &str)> {
    body.split_once("Action Input:").or_else(|| body.split_once("action_input:"))
}
