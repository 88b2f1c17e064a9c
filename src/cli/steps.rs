//! Facts as lines for people: each finished call a line, and what is under way now.

use std::collections::BTreeMap;

use console::{measure_text_width, style, truncate_str};

use super::output::line;
use crate::core::{
    Arguments, Entry, Fact, SpanId, Timestamp, ToolOutcome,
    fact::{CallPurpose, Decision, Follows, ModelCall, ModelCallEnd, ModelOutcome, ToolCallBegin, ToolCallEnd},
};

/// Columns of arguments or results on one line.
const SHORT: usize = 60;

/// Folds facts into lines.
#[derive(Default)]
pub(super) struct Steps {
    open: BTreeMap<SpanId, (Timestamp, Doing)>,
}

enum Doing {
    Model(ModelCall),
    Tool(ToolCallBegin),
}

impl Steps {
    /// Takes in a fact; gives the lines that it completes.
    pub(super) fn apply(&mut self, entry: &Entry) -> Vec<String> {
        match &entry.fact {
            Fact::SessionStarted(started) => {
                let (agent, stream) = (style(short(&started.agent)).bold(), style(entry.stream).dim());
                let begun = format!("{} {agent} {stream}", style("●").cyan());
                std::iter::once(begun).chain(started.follows.as_deref().map(follows_line)).collect()
            }
            Fact::ModelCallStarted { op, call } => {
                self.open.insert(*op, (entry.at, Doing::Model((**call).clone())));
                Vec::new()
            }
            Fact::ModelCallFinished { op, end } => self.close(*op, |begun, doing| match doing {
                Doing::Model(call) => Some(model_line(&call, end, begun, entry.at)),
                Doing::Tool(_) => None,
            }),
            Fact::ToolCallStarted { op, call } => {
                self.open.insert(*op, (entry.at, Doing::Tool((**call).clone())));
                Vec::new()
            }
            Fact::ToolCallFinished { op, end } => self.close(*op, |begun, doing| match doing {
                Doing::Tool(call) => Some(tool_line(&call, end, begun, entry.at)),
                Doing::Model(_) => None,
            }),
            Fact::ModelAttemptFinished { attempt, end, .. } if end.outcome != ModelOutcome::Ok => {
                vec![attempt_line(*attempt, end.outcome.label())]
            }
            Fact::ToolAttemptFinished { attempt, end, .. } if end.outcome != ToolOutcome::Ok => {
                vec![attempt_line(*attempt, end.outcome.label())]
            }
            Fact::ModelFallback { from, to, cause, .. } => {
                let (from, to) = (short(from), short(to));
                vec![format!("├─ {} {from} → {to} ({})", style("fallback").yellow(), cause.label())]
            }
            Fact::ConfirmationRequested { request, .. } => {
                let (tool, arguments) = (style(short(&request.tool)).cyan(), short(&request.arguments.to_string()));
                vec![format!("│  ├─ {tool} {arguments} · {}", style("waits for a person").yellow())]
            }
            Fact::ConfirmationDecided { end, .. } => {
                let (decision, by) = (end.decision.label(), short(end.by.expose()));
                vec![format!("│  ├─ {} by {by}", paint(decision, end.decision == Decision::Approved))]
            }
            Fact::RateLimited { limit, .. } => {
                vec![format!("├─ {} ({})", style("rate limited").yellow(), limit.label())]
            }
            Fact::ContextCompacted { calls, pairs, steps, tokens_before, tokens_after, summary } => {
                let room = style("made room").yellow();
                let what = match (pairs, steps, summary) {
                    (0, 0, _) => format!("{} result(s) left out", calls.len()),
                    (0, _, _) => format!("{steps} step(s) summed up"),
                    (_, 0, None) => format!("{pairs} earlier session(s) left out"),
                    (_, 0, Some(_)) => format!("{pairs} earlier session(s) summed up"),
                    _ => format!("{pairs} earlier session(s) and {steps} step(s) summed up"),
                };
                vec![format!("├─ {room} {tokens_before} → {tokens_after} tokens, {what}")]
            }
            Fact::AnswerChecked { problems } if problems.expose().is_empty() => Vec::new(),
            Fact::AnswerChecked { problems } => {
                let wrong = style("answer of the wrong form").yellow();
                vec![format!("├─ {wrong}: {}", short(&problems.expose().join("; ")))]
            }
            Fact::LimitReached { limit, value } => {
                vec![format!("├─ {} {} ({value})", style("limit").yellow(), limit.label())]
            }
            Fact::HandedOver { cause, detail, .. } => {
                vec![format!("├─ {} {}: {}", style("handed over").yellow(), cause.label(), line(detail.expose()))]
            }
            Fact::SessionSuspended { cause } => vec![format!("├─ suspended ({})", cause.label())],
            Fact::SessionResumed { .. } => vec!["├─ resumed".to_owned()],
            Fact::CancelRequested { .. } => vec![format!("├─ {}", style("stop asked for").yellow())],
            Fact::SessionFinished(end) => {
                let reason = end.reason.map_or(String::new(), |reason| format!(" ({reason})"));
                let total = end.usage.total();
                let steps = if end.steps == 1 { "step" } else { "steps" };
                let cost = end.cost.map_or(String::new(), |cost| format!("{cost} · "));
                vec![format!(
                    "└─ {}{reason} · {} {steps} · {total} tokens · {cost}{}",
                    paint(end.status.label(), end.answer.is_some()),
                    end.steps,
                    milliseconds(end.active_ms)
                )]
            }
            Fact::ModelAttemptStarted { .. }
            | Fact::ModelAttemptFinished { .. }
            | Fact::ToolAttemptStarted { .. }
            | Fact::ToolAttemptFinished { .. }
            | Fact::CircuitChanged(_)
            | Fact::ToolDefinitionChanged(_)
            | Fact::PrimaryChanged { .. }
            | Fact::ModelChecked { .. }
            | Fact::ProcessStarted { .. }
            | Fact::ProcessStopped { .. }
            | Fact::ConfigReloaded { .. }
            | Fact::HandoverChanged(_)
            | Fact::SessionsErased { .. } => Vec::new(),
        }
    }

    /// What is under way, for the spinner; empty when nothing is.
    pub(super) fn under_way(&self) -> String {
        let names: Vec<_> = self.open.values().map(|(_, doing)| doing.describe()).collect();
        names.join(", ")
    }

    fn close(&mut self, op: SpanId, line: impl FnOnce(Timestamp, Doing) -> Option<String>) -> Vec<String> {
        self.open.remove(&op).and_then(|(begun, doing)| line(begun, doing)).into_iter().collect()
    }
}

impl Doing {
    fn describe(&self) -> String {
        match self {
            Self::Model(call) => format!("step {} · {} is thinking", call.step, short(&call.model.name)),
            Self::Tool(call) => format!("step {} · {}({})", call.step, short(&call.tool), arguments(&call.arguments)),
        }
    }
}

/// What a session takes over from the one before.
fn follows_line(follows: &Follows) -> String {
    let left_out = match follows.left_out {
        0 => String::new(),
        number => format!(", {number} left out"),
    };
    let shown = follows.carried.len();
    style(format!("├─ follows {} · {shown} earlier session(s) shown{left_out}", follows.session)).dim().to_string()
}

fn model_line(call: &ModelCall, end: &ModelCallEnd, begun: Timestamp, ended: Timestamp) -> String {
    let head = match call.purpose {
        CallPurpose::Step => format!("step {}", call.step),
        CallPurpose::Direct => format!("step {} without tools", call.step),
        CallPurpose::WrapUp => "wrap-up".to_owned(),
        CallPurpose::Summary => "summary".to_owned(),
        CallPurpose::Repair => "repair".to_owned(),
    };
    let asks = match &end.reply {
        Some(reply) if !reply.calls.is_empty() => format!("asks for {}", calls(reply.calls.len())),
        Some(_) => "answers".to_owned(),
        None => end.error.as_ref().map_or(String::new(), |error| short(error.expose())),
    };
    format!(
        "├─ {} {} · {} · {} · {} in, {} out · {asks}",
        style(head).bold(),
        short(&call.model.name),
        paint(end.outcome.label(), end.outcome == ModelOutcome::Ok),
        elapsed(begun, ended),
        end.usage.input,
        end.usage.output,
    )
}

fn tool_line(call: &ToolCallBegin, end: &ToolCallEnd, begun: Timestamp, ended: Timestamp) -> String {
    let known = if end.cached { ", known from before" } else { "" };
    format!(
        "│  ├─ {}({}) · {}{known} · {} · {}",
        style(short(&call.tool)).cyan(),
        arguments(&call.arguments),
        paint(end.outcome.label(), !end.outcome.is_error()),
        elapsed(begun, ended),
        short(&end.observation.content),
    )
}

fn calls(count: usize) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

fn attempt_line(attempt: u32, outcome: &str) -> String {
    format!("│  · attempt {attempt}: {}", paint(outcome, false))
}

fn paint(word: &str, good: bool) -> String {
    if good { style(word).green().to_string() } else { style(word).red().to_string() }
}

fn elapsed(begun: Timestamp, ended: Timestamp) -> String {
    let micros = ended.since(begun).as_micros();
    if micros < 10_000 {
        return format!("{}.{} ms", micros / 1000, micros % 1000 / 100);
    }
    milliseconds(u64::try_from(micros / 1000).unwrap_or(u64::MAX))
}

fn milliseconds(value: u64) -> String {
    match value {
        0..10_000 => format!("{value} ms"),
        _ => format!("{}.{} s", value / 1000, value % 1000 / 100),
    }
}

fn arguments(arguments: &Arguments) -> String {
    match arguments {
        Arguments::Json(serde_json::Value::Object(map)) => {
            let pairs: Vec<_> = map.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            short(&pairs.join(", "))
        }
        Arguments::Json(value) => short(&value.to_string()),
        Arguments::Raw(text) => short(text),
    }
}

/// One line, cut to a readable length.
fn short(text: &str) -> String {
    let clean = line(&text.replace(['\n', '\t'], " "));
    if measure_text_width(&clean) <= SHORT { clean } else { truncate_str(&clean, SHORT, "…").into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_of_a_tool_do_not_reach_the_terminal() {
        assert_eq!(short("a\u{1b}[31mred\nb"), r"a\u{1b}[31mred b");
    }

    #[test]
    fn durations_are_short() {
        let (begun, ended) = (Timestamp::from_nanos(0), Timestamp::from_nanos(3_450_000));
        assert_eq!(elapsed(begun, ended), "3.4 ms");
        assert_eq!(milliseconds(12_345), "12.3 s");
    }
}
