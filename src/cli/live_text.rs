//! The text of a model while it comes, cut to the rows that a terminal has for it.
//!
//! It must never know how rows reach the terminal.

use std::collections::VecDeque;

use console::measure_text_width;

use super::output;
use crate::{
    core::{Fact, SpanId},
    signal::FeedItem,
};

/// Bytes that are kept: more than any terminal shows.
const KEPT: usize = 16 * 1024;
/// Columns of a tab.
const TAB: &str = "    ";

/// What has come of the reply that is under way.
#[derive(Debug, Default)]
pub(super) struct LiveText {
    call: Option<SpanId>,
    text: String,
}

impl LiveText {
    /// Takes in what came.
    pub(super) fn apply(&mut self, item: &FeedItem) {
        match item {
            FeedItem::Delta(delta) => {
                if self.call != Some(delta.call) {
                    self.text.clear();
                    self.call = Some(delta.call);
                }
                self.text.push_str(&delta.text);
                self.shorten();
            }
            FeedItem::Restart { call, .. } => self.forget(*call),
            FeedItem::Entry(entry) => {
                if let Fact::ModelCallFinished { op, .. } = &entry.fact {
                    self.forget(*op);
                }
            }
        }
    }

    /// The end of the text, each row on a line of its own that begins with a line end: at most
    /// so many rows, none wider than the terminal, nothing in it that moves the cursor.
    pub(super) fn rows(&self, rows: usize, columns: usize) -> String {
        let shown = output::text(self.text.trim()).replace('\t', TAB);
        let mut last = VecDeque::new();
        for row in shown.split('\n').flat_map(|line| wrapped(line, columns.saturating_sub(1).max(1))) {
            if last.len() == rows {
                last.pop_front();
            }
            if rows > 0 {
                last.push_back(row);
            }
        }
        if shown.is_empty() { String::new() } else { last.iter().flat_map(|row| ["\n", row]).collect() }
    }

    fn forget(&mut self, call: SpanId) {
        if self.call == Some(call) {
            *self = Self::default();
        }
    }

    fn shorten(&mut self) {
        if self.text.len() > 2 * KEPT {
            let from = self.text.ceil_char_boundary(self.text.len() - KEPT);
            self.text.drain(..from);
        }
    }
}

/// A line in rows of so many columns.
fn wrapped(line: &str, columns: usize) -> Vec<&str> {
    let (mut rows, mut begin, mut width) = (Vec::new(), 0, 0);
    for (at, letter) in line.char_indices() {
        let letter_width = measure_text_width(letter.encode_utf8(&mut [0; 4]));
        if width + letter_width > columns {
            rows.push(&line[begin..at]);
            (begin, width) = (at, 0);
        }
        width += letter_width;
    }
    rows.push(&line[begin..]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::{
            Entry, SessionId, StreamId, Timestamp, Usage,
            fact::{ModelCallEnd, ModelOutcome},
        },
        signal::Delta,
    };

    const CALL: SpanId = SpanId::from_bytes([1; 8]);
    const NEXT: SpanId = SpanId::from_bytes([2; 8]);
    const SESSION: SessionId = SessionId::from_bytes([3; 16]);

    fn delta(call: SpanId, text: &str) -> FeedItem {
        FeedItem::Delta(Delta { session: SESSION, call, at: 0, text: text.into() })
    }

    fn end(op: SpanId) -> FeedItem {
        let usage = Usage::default();
        let end = ModelCallEnd { outcome: ModelOutcome::Ok, reply: None, usage, error: None, attempts: 1 };
        let fact = Fact::ModelCallFinished { op, end: Box::new(end) };
        FeedItem::Entry(Entry { stream: StreamId::Session(SESSION), seq: 0, at: Timestamp::from_nanos(0), fact }.into())
    }

    fn rows_of(text: &str, rows: usize, columns: usize) -> String {
        let mut live = LiveText::default();
        live.apply(&delta(CALL, text));
        live.rows(rows, columns)
    }

    #[test]
    fn a_text_grows_until_its_call_ends_or_begins_anew() {
        let mut live = LiveText::default();
        assert_eq!(live.rows(5, 80), "");
        live.apply(&delta(CALL, "\nТакси "));
        live.apply(&delta(CALL, "в сентябре"));
        assert_eq!(live.rows(5, 80), "\nТакси в сентябре");
        live.apply(&FeedItem::Restart { session: SESSION, call: CALL });
        assert_eq!(live.rows(5, 80), "");
        live.apply(&delta(CALL, "Ещё раз"));
        live.apply(&delta(NEXT, "next"));
        // The end of the call before may come late, for it waited for the disk.
        live.apply(&end(CALL));
        assert_eq!(live.rows(5, 80), "\nnext");
        live.apply(&end(NEXT));
        assert_eq!(live.rows(5, 80), "");
    }

    #[test]
    fn only_the_last_rows_are_shown_and_none_is_too_wide() {
        assert_eq!(rows_of("one\ntwo\nthree\n", 2, 80), "\ntwo\nthree");
        assert_eq!(rows_of("abcdefg\nh", 9, 5), "\nabcd\nefg\nh");
        // Letters of two columns.
        assert_eq!(rows_of("東京都庁", 9, 6), "\n東京\n都庁");
        assert_eq!(rows_of("abc", 0, 80), "");
        assert_eq!(rows_of("ab", 3, 0), "\na\nb");
    }

    #[test]
    fn a_text_cannot_move_the_cursor_and_a_long_one_is_not_kept() {
        assert_eq!(rows_of("a\u{1b}[2J\r\nb\tc\u{9b}", 9, 80), "\na\\u{1b}[2J\nb    c\\u{9b}");
        let mut live = LiveText::default();
        for _ in 0..100 {
            live.apply(&delta(CALL, &"я".repeat(1000)));
        }
        live.apply(&delta(CALL, "\nend"));
        assert!(live.text.len() <= 2 * KEPT, "{}", live.text.len());
        assert!(live.rows(3, 80).ends_with("я\nend"));
    }
}
