//! The form of a script: YAML with a list of rules, of which the first that matches answers.

use std::{num::NonZeroUsize, time::Duration};

use regex::Regex;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::turn::{Last, Turn};
use crate::core::{Arguments, Fault, FaultKind, ToolCall, Usage};

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No YAML of this form; the text names line and column.
    #[error("script cannot be read: {0}")]
    Yaml(String),
    /// Rules that say nothing or contradict themselves, all of them.
    #[error("script {name:?}: {}", .problems.join("; "))]
    Rules {
        /// The script.
        name: String,
        /// One phrase for each, with the number of the rule.
        problems: Vec<String>,
    },
}

/// A script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    pub(super) name: String,
    /// Tokens of replies that name none.
    pub(super) usage: Option<UsageSpec>,
    pub(super) rules: Vec<Rule>,
}

/// Tokens of a reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageSpec {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl UsageSpec {
    pub(super) fn to_usage(&self) -> Usage {
        Usage { input: self.input, output: self.output, ..Usage::default() }
    }
}

/// What is answered, and when.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(default)]
    pub(super) when: When,
    call: Option<Call>,
    #[serde(default)]
    calls: Vec<Call>,
    pub(super) text: Option<String>,
    pub(super) usage: Option<UsageSpec>,
    /// Why it stopped, which need not be true; left out, it is.
    pub(super) finish_reason: Option<String>,
    pub(super) delay: Option<Wait>,
    pub(super) stream: Option<StreamSpec>,
    pub(super) fault: Option<FaultSpec>,
    #[serde(default)]
    pub(super) panic: bool,
}

/// How a text comes in pieces.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamSpec {
    /// Letters of a piece.
    pub(super) letters: NonZeroUsize,
    /// Time before each piece.
    pub(super) pause: Option<Wait>,
}

/// Conditions, all of which must hold; none hold always.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    /// Which reply to this task it is, from 1.
    step: Option<usize>,
    /// What the last message is.
    last: Option<Last>,
    /// Found in the last message.
    matches: Option<Pattern>,
    /// Found in the task.
    task_matches: Option<Pattern>,
    /// The tool whose call the last tool message answers.
    tool: Option<String>,
    /// Whether tools are on offer.
    tools_offered: Option<bool>,
    /// Tool calls asked for since the task.
    call_count: Option<usize>,
    /// Whether a tool call gave a result since the task.
    has_result: Option<bool>,
}

/// A tool call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    tool: String,
    arguments: Option<Value>,
    /// The text of the arguments, for those that are no JSON.
    raw: Option<String>,
    id: Option<String>,
}

/// A fault instead of an answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultSpec {
    kind: Option<FaultKind>,
    status: Option<u16>,
    detail: Option<String>,
    retry_after: Option<Wait>,
    /// What a reply that was cut off in the middle is charged with.
    usage: Option<UsageSpec>,
    /// Pieces of the text that come before it strikes; none, if left out.
    pub(super) after: Option<usize>,
    /// How often it strikes in one session; always, if left out.
    pub(super) times: Option<u32>,
}

/// A regular expression.
#[derive(Debug)]
pub(super) struct Pattern(Regex);

/// A duration such as `200ms` or `2s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait(pub(super) Duration);

impl Script {
    pub(super) fn from_yaml(text: &str) -> Result<Self, Error> {
        let script: Self = serde_saphyr::from_str(text).map_err(|error| Error::Yaml(error.to_string()))?;
        let mut problems = Vec::new();
        for (index, rule) in script.rules.iter().enumerate() {
            problems.extend(rule.problems().into_iter().map(|problem| format!("rule {}: {problem}", index + 1)));
        }
        if problems.is_empty() { Ok(script) } else { Err(Error::Rules { name: script.name, problems }) }
    }
}

impl Rule {
    /// Whether it has an answer besides its fault.
    pub(super) fn answers(&self) -> bool {
        self.text.is_some() || self.call.is_some() || !self.calls.is_empty() || self.panic
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.call.iter().chain(&self.calls)
    }

    fn problems(&self) -> Vec<&'static str> {
        let mut problems = Vec::new();
        if !self.answers() && self.fault.is_none() {
            problems.push("says nothing, it needs one of call, calls, text, fault, panic");
        }
        if self.call.is_some() && !self.calls.is_empty() {
            problems.push("has call and calls, only one of them is allowed");
        }
        if self.calls().any(|call| call.arguments.is_some() && call.raw.is_some()) {
            problems.push("has a call with arguments and raw, only one of them is allowed");
        }
        if self.stream.is_some() && self.text.is_none() {
            problems.push("has stream without text, there is nothing to give in pieces");
        }
        if self.stream.is_none() && self.fault.as_ref().is_some_and(|fault| fault.after.is_some()) {
            problems.push("has a fault after pieces but no stream that gives them");
        }
        problems.extend(self.fault.as_ref().and_then(FaultSpec::problem));
        problems
    }
}

impl When {
    pub(super) fn matches(&self, turn: &Turn<'_>) -> bool {
        fn same<T: PartialEq + Copy>(wanted: Option<T>, found: T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        let found = |pattern: &Option<Pattern>, text: &str| pattern.as_ref().is_none_or(|regex| regex.0.is_match(text));
        same(self.step, turn.step)
            && same(self.last, turn.last)
            && same(self.tools_offered, turn.tools_offered)
            && same(self.call_count, turn.call_count)
            && same(self.has_result, turn.result().is_some())
            && self.tool.as_deref().is_none_or(|tool| turn.tool == Some(tool))
            && found(&self.matches, turn.last_text)
            && found(&self.task_matches, turn.task)
    }
}

impl Call {
    pub(super) fn to_call(&self) -> ToolCall {
        let arguments = match (&self.raw, &self.arguments) {
            (Some(raw), _) => Arguments::from_text(raw),
            (None, Some(value)) => Arguments::Json(value.clone()),
            (None, None) => Arguments::empty(),
        };
        ToolCall { id: self.id.clone().unwrap_or_default(), name: self.tool.clone(), arguments }
    }
}

impl FaultSpec {
    pub(super) fn to_fault(&self) -> Fault {
        let kind = self.kind.or_else(|| self.status.and_then(FaultKind::of_status)).unwrap_or(FaultKind::Server);
        let default = || match self.status {
            Some(status) => format!("the script answers with status {status}"),
            None => "the script says so".to_owned(),
        };
        let fault = Fault { status: self.status, ..Fault::new(kind, self.detail.clone().unwrap_or_else(default)) };
        let usage = self.usage.as_ref().map(|usage| Usage { estimated: true, ..usage.to_usage() });
        Fault { retry_after: self.retry_after.map(|wait| wait.0), usage, ..fault }
    }

    fn problem(&self) -> Option<&'static str> {
        match (self.kind, self.status) {
            (Some(_), None) => None,
            (None, Some(status)) if FaultKind::of_status(status).is_some() => None,
            (None, Some(_)) => Some("has a fault with a status that is no fault, 400 to 599 are"),
            (Some(_), Some(_)) => Some("has a fault with kind and status, only one of them is allowed"),
            (None, None) => Some("has a fault without kind or status, one of them is needed"),
        }
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Regex::new(&text).map(Self).map_err(|_| de::Error::custom(format!("not a regular expression: {text:?}")))
    }
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wait = text.parse::<jiff::SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
        wait.map(Self).ok_or_else(|| de::Error::custom(format!("not a duration such as 200ms or 2s: {text:?}")))
    }
}
