//! The spans as rows of a page: bars by the axis, words in the visitor's language, texts where
//! they may be read.

use super::{Kind, Note, Said, Span, Spans, Try, axis::Axis};
use crate::{
    core::{Entry, Timestamp, fact::CallPurpose},
    http::console::{
        content::Shown,
        look::{Tone, number, took},
        text,
        words::Words,
    },
};

/// The least width of a bar in percent, so that what was quick is seen.
const THIN: f64 = 0.5;

/// All rows.
pub(in crate::http::console) struct Waterfall {
    pub(in crate::http::console) rows: Vec<Row>,
    /// From the first fact to the last, or to now.
    pub(in crate::http::console) total: String,
    /// Whether idle time was cut.
    pub(in crate::http::console) shortened: bool,
}

/// One row.
pub(in crate::http::console) struct Row {
    /// Names the row in the page.
    pub(in crate::http::console) id: String,
    /// The class of the style sheet: `model`, `tool`, `wait`, `note`.
    pub(in crate::http::console) kind: &'static str,
    /// What sort of thing it is, in a word.
    pub(in crate::http::console) sort: &'static str,
    /// The step, where it belongs to one.
    pub(in crate::http::console) step: Option<u32>,
    pub(in crate::http::console) name: String,
    pub(in crate::http::console) bars: Vec<Bar>,
    pub(in crate::http::console) begun: String,
    pub(in crate::http::console) took: String,
    pub(in crate::http::console) end: &'static str,
    pub(in crate::http::console) tone: Tone,
    pub(in crate::http::console) attempts: Vec<Attempt>,
    /// A name and a number each.
    pub(in crate::http::console) numbers: Vec<(&'static str, String)>,
    pub(in crate::http::console) texts: Vec<(&'static str, Shown)>,
}

/// A stretch of a row, in percent.
pub(in crate::http::console) struct Bar {
    pub(in crate::http::console) class: &'static str,
    pub(in crate::http::console) left: String,
    pub(in crate::http::console) width: String,
}

/// One try of several.
pub(in crate::http::console) struct Attempt {
    pub(in crate::http::console) number: u32,
    pub(in crate::http::console) model: String,
    pub(in crate::http::console) waited: String,
    pub(in crate::http::console) took: String,
    pub(in crate::http::console) end: &'static str,
    pub(in crate::http::console) tone: Tone,
    pub(in crate::http::console) error: Option<Shown>,
}

/// What the rows are made with.
struct Maker<'a> {
    t: &'static Words,
    reads: bool,
    axis: &'a Axis,
    begun: Timestamp,
    now: Timestamp,
}

impl Waterfall {
    /// The rows of a journal; `now` is how far what is still open reaches.
    pub(in crate::http::console) fn of(entries: &[Entry], t: &'static Words, reads: bool, now: Timestamp) -> Self {
        let spans = Spans::of(entries);
        let begun = entries.first().map_or(now, |entry| entry.at);
        let last = entries.last().map_or(now, |entry| entry.at);
        let is_open = |span: &Span| span.to.is_none();
        let until = if spans.iter().any(is_open) { now.max(last) } else { last };
        let works = |span: &&Span| matches!(span.kind, Kind::Model(_) | Kind::Tool);
        let busy = spans.iter().filter(works).map(|span| (span.from, span.to.unwrap_or(until)));
        let axis = Axis::of(begun, until, busy);
        let maker = Maker { t, reads, axis: &axis, begun, now: until };
        let rows = spans.iter().enumerate().map(|(index, span)| maker.row(index, span)).collect();
        Self { rows, total: took(t, until.since(begun)), shortened: axis.shortened }
    }
}

impl Maker<'_> {
    fn row(&self, index: usize, span: &Span) -> Row {
        let to = span.to.unwrap_or(self.now);
        let is_note = matches!(span.kind, Kind::Note(_));
        let (end, tone) =
            span.end.unwrap_or(if span.to.is_none() { (self.t.under_way, Tone::Live) } else { ("", Tone::Plain) });
        Row {
            id: span.op.map_or_else(|| format!("note-{index}"), |op| format!("op-{op}")),
            kind: self.class(span),
            sort: self.sort(span),
            step: (span.step > 0).then_some(span.step),
            name: if span.invented && !self.reads { self.t.unknown_tool.to_owned() } else { text::line(&span.name) },
            bars: self.bars(span, to),
            begun: format!("+{}", took(self.t, span.from.since(self.begun))),
            took: if is_note { String::new() } else { took(self.t, to.since(span.from)) },
            end,
            tone,
            attempts: if span.tries.len() > 1 || span.tries.iter().any(|one| one.error.is_some()) {
                span.tries.iter().map(|one| self.attempt(one)).collect()
            } else {
                Vec::new()
            },
            numbers: self.numbers(span),
            texts: span.said.iter().map(|(said, text)| (self.said(*said), self.shown(text))).collect(),
        }
    }

    fn bars(&self, span: &Span, to: Timestamp) -> Vec<Bar> {
        let whole = match span.kind {
            Kind::Note(_) => return vec![self.bar("tick", span.from, span.from)],
            Kind::Wait => return vec![self.bar("wait", span.from, to)],
            Kind::Model(_) => "model",
            Kind::Tool => "tool",
        };
        if span.tries.len() < 2 {
            return vec![self.bar(whole, span.from, to)];
        }
        let mut bars = vec![self.bar("pause", span.from, to)];
        for one in &span.tries {
            let failed = one.end.is_some_and(|(_, tone)| tone == Tone::Bad);
            bars.push(self.bar(if failed { "failed" } else { whole }, one.from, one.to.unwrap_or(to)));
        }
        bars
    }

    fn bar(&self, class: &'static str, from: Timestamp, to: Timestamp) -> Bar {
        let (left, right) = (self.axis.place(from), self.axis.place(to));
        let width = (right - left).max(THIN);
        Bar { class, left: format!("{:.2}%", left.min(100.0 - width)), width: format!("{width:.2}%") }
    }

    fn attempt(&self, one: &Try) -> Attempt {
        let (end, tone) =
            one.end.unwrap_or(if one.to.is_none() { (self.t.under_way, Tone::Live) } else { ("", Tone::Plain) });
        Attempt {
            number: one.number,
            model: one.model.as_deref().map(text::line).unwrap_or_default(),
            waited: if one.waited.is_zero() { String::new() } else { took(self.t, one.waited) },
            took: took(self.t, one.to.unwrap_or(self.now).since(one.from)),
            end,
            tone,
            error: one.error.as_deref().map(|error| self.shown(error)),
        }
    }

    fn numbers(&self, span: &Span) -> Vec<(&'static str, String)> {
        let mut numbers = Vec::new();
        if let Some(usage) = &span.usage {
            numbers.push((self.t.tokens_in, number(usage.input)));
            numbers.push((self.t.tokens_out, number(usage.output)));
            for (name, tokens) in [
                (self.t.cache_read, usage.cache_read),
                (self.t.cache_write, usage.cache_write),
                (self.t.reasoning, usage.reasoning),
            ] {
                if tokens > 0 {
                    numbers.push((name, number(tokens)));
                }
            }
            if usage.estimated {
                numbers.push((self.t.estimated, self.t.yes.to_owned()));
            }
        }
        numbers.extend(span.cost.map(|cost| (self.t.cost, cost.to_string())));
        if span.cached {
            numbers.push((self.t.known_before, self.t.yes.to_owned()));
        }
        numbers
    }

    fn shown(&self, text: &str) -> Shown {
        Shown::when(self.reads, || text::block(text))
    }

    const fn class(&self, span: &Span) -> &'static str {
        match span.kind {
            Kind::Model(_) => "model",
            Kind::Tool => "tool",
            Kind::Wait => "wait",
            Kind::Note(_) => "note",
        }
    }

    const fn sort(&self, span: &Span) -> &'static str {
        match span.kind {
            Kind::Model(CallPurpose::Step) => self.t.model,
            Kind::Model(CallPurpose::Direct) => self.t.direct,
            Kind::Model(CallPurpose::WrapUp) => self.t.wrap_up,
            Kind::Model(CallPurpose::Summary) => self.t.summary,
            Kind::Model(CallPurpose::Repair) => self.t.repair,
            Kind::Tool => self.t.tool,
            Kind::Wait => self.t.waits,
            Kind::Note(note) => self.note(note),
        }
    }

    const fn note(&self, note: Note) -> &'static str {
        match note {
            Note::Fallback => self.t.fallback,
            Note::RateLimited => self.t.rate_limited,
            Note::Compacted => self.t.compacted,
            Note::WrongForm => self.t.wrong_form,
            Note::Limit => self.t.limit,
            Note::HandedOver => self.t.handed_over,
            Note::Suspended => self.t.suspended,
            Note::Resumed => self.t.resumed,
            Note::CancelAsked => self.t.cancel_asked,
        }
    }

    const fn said(&self, said: Said) -> &'static str {
        match said {
            Said::Arguments => self.t.arguments,
            Said::Observation => self.t.observation,
            Said::Reply => self.t.reply,
            Said::Error => self.t.error,
            Said::Comment => self.t.comment,
            Said::Summary => self.t.summary,
            Said::Detail => self.t.detail,
        }
    }
}
