//! A session's journal as spans of time: model calls, tool calls, waits, and what happened between.
//!
//! A fold of facts like any other, and of any prefix. It must never know a language or a page.

mod axis;
mod rows;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Duration};

#[cfg(test)]
use self::rows::Row;
pub(super) use self::rows::Waterfall;
use super::look::Tone;
use crate::core::{
    Arguments, Entry, Fact, Money, SpanId, Timestamp, ToolOutcome, Usage,
    fact::{
        AttemptEnd, CallPurpose, ConfirmationEnd, ConfirmationRequest, Decision, ModelCall, ModelCallEnd, ModelOutcome,
        ToolCallBegin, ToolCallEnd,
    },
};

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Model(CallPurpose),
    Tool,
    Wait,
    Note(Note),
}

/// Something that happened between the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Fallback,
    RateLimited,
    Compacted,
    WrongForm,
    Limit,
    HandedOver,
    Suspended,
    Resumed,
    CancelAsked,
}

/// Which text of people, models or tools it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Arguments,
    Observation,
    Reply,
    Error,
    Comment,
    Summary,
    Detail,
}

/// One line of the waterfall.
#[derive(Debug)]
struct Span {
    /// The operation; of a note none.
    op: Option<SpanId>,
    kind: Kind,
    step: u32,
    name: String,
    /// Whether a model made the name up.
    invented: bool,
    from: Timestamp,
    to: Option<Timestamp>,
    end: Option<(&'static str, Tone)>,
    tries: Vec<Try>,
    usage: Option<Usage>,
    cost: Option<Money>,
    cached: bool,
    said: Vec<(Said, String)>,
}

/// One attempt.
#[derive(Debug)]
struct Try {
    number: u32,
    from: Timestamp,
    to: Option<Timestamp>,
    waited: Duration,
    model: Option<String>,
    end: Option<(&'static str, Tone)>,
    error: Option<String>,
}

/// The fold.
#[derive(Default)]
struct Spans {
    spans: Vec<Span>,
    open: HashMap<SpanId, usize>,
    models: HashMap<SpanId, ModelCall>,
}

impl Spans {
    fn of(entries: &[Entry]) -> Vec<Span> {
        let mut fold = Self::default();
        for entry in entries {
            fold.apply(&entry.fact, entry.at);
        }
        fold.spans
    }

    fn apply(&mut self, fact: &Fact, at: Timestamp) {
        match fact {
            Fact::ModelCallStarted { op, call } => self.open_model(*op, call, at),
            Fact::ModelCallFinished { op, end } => self.close_model(*op, end, at),
            Fact::ToolCallStarted { op, call } => self.open_tool(*op, call, at),
            Fact::ToolCallFinished { op, end } => self.close_tool(*op, end, at),
            Fact::ModelAttemptStarted { call, attempt, model, wait_ms } => {
                self.try_begun(*call, *attempt, Some(model), *wait_ms, at);
            }
            Fact::ToolAttemptStarted { call, attempt, wait_ms, .. } => {
                self.try_begun(*call, *attempt, None, *wait_ms, at);
            }
            Fact::ModelAttemptFinished { call, attempt, end } => {
                self.try_ended(*call, *attempt, end, of_model(end.outcome), at);
            }
            Fact::ToolAttemptFinished { call, attempt, end } => {
                self.try_ended(*call, *attempt, end, of_tool(end.outcome), at);
            }
            Fact::ConfirmationRequested { op, request } => self.open_wait(*op, request, at),
            Fact::ConfirmationDecided { op, end } => self.close_wait(*op, end, at),
            Fact::ModelFallback { step, from, to, cause } => {
                self.note(Note::Fallback, *step, format!("{from} → {to} ({})", cause.label()), at);
            }
            Fact::RateLimited { limit, tool, .. } => {
                let tool = tool.as_ref().map_or(String::new(), |tool| format!(" {tool}"));
                self.note(Note::RateLimited, 0, format!("{}{tool}", limit.label()), at);
            }
            Fact::ContextCompacted { tokens_before, tokens_after, summary, .. } => {
                self.note(Note::Compacted, 0, format!("{tokens_before} → {tokens_after}"), at);
                self.say(Said::Summary, summary.as_ref().map(|text| text.expose().clone()));
            }
            Fact::AnswerChecked { problems } if problems.expose().is_empty() => {}
            Fact::AnswerChecked { problems } => {
                self.note(Note::WrongForm, 0, String::new(), at);
                self.say(Said::Error, Some(problems.expose().join("\n")));
            }
            Fact::LimitReached { limit, value } => {
                self.note(Note::Limit, 0, format!("{} ({value})", limit.label()), at);
            }
            Fact::HandedOver { cause, detail, .. } => {
                self.note(Note::HandedOver, 0, cause.label().to_owned(), at);
                self.say(Said::Detail, Some(detail.expose().clone()));
            }
            Fact::SessionSuspended { cause } => self.note(Note::Suspended, 0, cause.label().to_owned(), at),
            Fact::SessionResumed { .. } => self.note(Note::Resumed, 0, String::new(), at),
            Fact::CancelRequested { .. } => self.note(Note::CancelAsked, 0, String::new(), at),
            Fact::SessionFinished(_) => self.cut(at),
            Fact::SessionStarted(_)
            | Fact::CircuitChanged(_)
            | Fact::ToolDefinitionChanged(_)
            | Fact::PrimaryChanged { .. }
            | Fact::ModelChecked { .. }
            | Fact::ProcessStarted { .. }
            | Fact::ProcessStopped { .. }
            | Fact::ConfigReloaded { .. }
            | Fact::HandoverChanged(_)
            | Fact::SessionsErased { .. } => {}
        }
    }

    fn begin(&mut self, op: SpanId, kind: Kind, step: u32, name: &str, at: Timestamp) -> &mut Span {
        self.open.insert(op, self.spans.len());
        self.spans.push(Span::new(Some(op), kind, step, name.to_owned(), at));
        let last = self.spans.len() - 1;
        &mut self.spans[last]
    }

    fn end(&mut self, op: SpanId, end: (&'static str, Tone), at: Timestamp) -> Option<&mut Span> {
        let span = self.spans.get_mut(self.open.remove(&op)?)?;
        (span.to, span.end) = (Some(at), Some(end));
        span.cut_tries(at);
        Some(span)
    }

    fn open_model(&mut self, op: SpanId, call: &ModelCall, at: Timestamp) {
        self.models.insert(op, call.clone());
        self.begin(op, Kind::Model(call.purpose), call.step, &call.model.name, at);
    }

    fn close_model(&mut self, op: SpanId, end: &ModelCallEnd, at: Timestamp) {
        let cost = self.models.remove(&op).and_then(|call| call.model.cost(&end.usage));
        let Some(span) = self.end(op, of_model(end.outcome), at) else { return };
        (span.usage, span.cost) = (Some(end.usage), cost);
        span.say(Said::Reply, end.reply.as_ref().map(|reply| reply.text.clone()));
        span.say(Said::Error, end.error.as_ref().map(|error| error.expose().clone()));
    }

    fn open_tool(&mut self, op: SpanId, call: &ToolCallBegin, at: Timestamp) {
        let span = self.begin(op, Kind::Tool, call.step, &call.tool, at);
        span.invented = !call.known;
        span.say(
            Said::Arguments,
            Some(match &call.arguments {
                Arguments::Json(value) => serde_json::to_string_pretty(value).unwrap_or_default(),
                Arguments::Raw(text) => text.clone(),
            }),
        );
    }

    fn close_tool(&mut self, op: SpanId, end: &ToolCallEnd, at: Timestamp) {
        let Some(span) = self.end(op, of_tool(end.outcome), at) else { return };
        span.cached = end.cached;
        span.say(Said::Observation, Some(end.observation.content.clone()));
        span.say(Said::Error, end.error.as_ref().map(|error| error.expose().clone()));
    }

    fn open_wait(&mut self, op: SpanId, request: &ConfirmationRequest, at: Timestamp) {
        let span = self.begin(op, Kind::Wait, request.step, &request.tool, at);
        span.say(Said::Arguments, serde_json::to_string_pretty(&request.arguments).ok());
    }

    fn close_wait(&mut self, op: SpanId, end: &ConfirmationEnd, at: Timestamp) {
        let tone = match end.decision {
            Decision::Approved => Tone::Good,
            Decision::Denied | Decision::Expired => Tone::Warn,
            Decision::Withdrawn => Tone::Plain,
        };
        let Some(span) = self.end(op, (end.decision.label(), tone), at) else { return };
        span.say(Said::Comment, end.comment.as_ref().map(|comment| comment.expose().clone()));
    }

    fn try_begun(&mut self, call: SpanId, number: u32, model: Option<&String>, wait_ms: u64, at: Timestamp) {
        let Some(span) = self.open.get(&call).and_then(|index| self.spans.get_mut(*index)) else { return };
        let (waited, model) = (Duration::from_millis(wait_ms), model.cloned());
        span.tries.push(Try { number, from: at, to: None, waited, model, end: None, error: None });
    }

    fn try_ended<O>(
        &mut self,
        call: SpanId,
        number: u32,
        end: &AttemptEnd<O>,
        word: (&'static str, Tone),
        at: Timestamp,
    ) {
        let Some(span) = self.open.get(&call).and_then(|index| self.spans.get_mut(*index)) else { return };
        let Some(attempt) = span.tries.iter_mut().rfind(|attempt| attempt.number == number) else { return };
        (attempt.to, attempt.end) = (Some(at), Some(word));
        attempt.error = end.error.as_ref().map(|error| error.expose().clone());
    }

    fn note(&mut self, note: Note, step: u32, name: String, at: Timestamp) {
        let mut span = Span::new(None, Kind::Note(note), step, name, at);
        span.to = Some(at);
        self.spans.push(span);
    }

    /// Adds a text to what came last.
    fn say(&mut self, said: Said, text: Option<String>) {
        if let Some(span) = self.spans.last_mut() {
            span.say(said, text);
        }
    }

    /// Nothing is under way any more, whatever the journal left open.
    fn cut(&mut self, at: Timestamp) {
        for (_, index) in self.open.drain() {
            self.spans[index].to = Some(at);
            self.spans[index].cut_tries(at);
        }
    }
}

impl Span {
    const fn new(op: Option<SpanId>, kind: Kind, step: u32, name: String, from: Timestamp) -> Self {
        Self {
            op,
            kind,
            step,
            name,
            invented: false,
            from,
            to: None,
            end: None,
            tries: Vec::new(),
            usage: None,
            cost: None,
            cached: false,
            said: Vec::new(),
        }
    }

    fn say(&mut self, said: Said, text: Option<String>) {
        self.said.extend(text.filter(|text| !text.is_empty()).map(|text| (said, text)));
    }

    fn cut_tries(&mut self, at: Timestamp) {
        for attempt in self.tries.iter_mut().filter(|attempt| attempt.to.is_none()) {
            attempt.to = Some(at);
        }
    }
}

const fn of_model(outcome: ModelOutcome) -> (&'static str, Tone) {
    let tone = match outcome {
        ModelOutcome::Ok => Tone::Good,
        ModelOutcome::Cancelled => Tone::Plain,
        ModelOutcome::Lost | ModelOutcome::Fault(_) => Tone::Bad,
    };
    (outcome.label(), tone)
}

fn of_tool(outcome: ToolOutcome) -> (&'static str, Tone) {
    let tone = match outcome {
        ToolOutcome::Ok => Tone::Good,
        ToolOutcome::Cancelled => Tone::Plain,
        _ => Tone::Bad,
    };
    (outcome.label(), tone)
}
