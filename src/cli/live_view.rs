//! Shows a session while it runs: a tree with a spinner on a terminal, plain lines in a pipe.
//!
//! On a terminal the text of a model stands under the spinner while it comes, and goes with it:
//! what stays is the tree and, below it, the answer as the journal has it.

use std::{io::IsTerminal as _, time::Duration};

use console::{Term, strip_ansi_codes};
use indicatif::{ProgressBar, ProgressStyle};

use super::{live_text::LiveText, say, steps::Steps};
use crate::{
    core::{Entry, SessionId},
    runtime::Runtime,
    signal::{FeedItem, FeedReader},
};

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(80);
/// Rows of the terminal that the text leaves free: for the spinner, and the end of the tree.
const FREE_ROWS: u16 = 3;

/// Where the lines go.
pub(super) enum LiveView {
    /// A terminal: lines above a spinner, text below it.
    Tree(Steps, LiveText, ProgressBar),
    /// A pipe.
    Lines(Steps),
    /// Nowhere, for `--json`.
    Silent,
}

impl LiveView {
    /// A reader of what the view of a session, or of everything, can show.
    pub(super) fn reader(runtime: &Runtime, session: Option<SessionId>, json: bool) -> FeedReader {
        if !json && std::io::stdout().is_terminal() {
            runtime.feed().subscribe_with_text(session)
        } else {
            runtime.feed().subscribe(session)
        }
    }

    /// The view that suits the standard output.
    pub(super) fn new(json: bool) -> Self {
        if json {
            return Self::Silent;
        }
        if !std::io::stdout().is_terminal() {
            return Self::Lines(Steps::default());
        }
        let spinner = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner:.cyan} {msg}").expect("the template is a constant");
        spinner.set_style(style);
        spinner.enable_steady_tick(TURN);
        Self::Tree(Steps::default(), LiveText::default(), spinner)
    }

    /// Shows what came.
    pub(super) fn show(&mut self, item: &FeedItem) {
        if let Self::Tree(_, text, _) = self {
            text.apply(item);
        }
        if let FeedItem::Entry(entry) = item {
            self.show_lines(entry);
        }
        if let Self::Tree(steps, text, spinner) = self {
            let (rows, columns) = Term::stderr().size();
            let below = text.rows(rows.saturating_sub(FREE_ROWS).into(), columns.into());
            spinner.set_message(format!("{}{below}", steps.under_way()));
        }
    }

    /// Shows the lines that a fact completes.
    fn show_lines(&mut self, entry: &Entry) {
        match self {
            Self::Tree(steps, _, spinner) => {
                for line in steps.apply(entry) {
                    spinner.suspend(|| say(line));
                }
            }
            Self::Lines(steps) => {
                for line in steps.apply(entry) {
                    say(strip_ansi_codes(&line));
                }
            }
            Self::Silent => {}
        }
    }

    /// Takes the spinner away.
    pub(super) fn end(self) {
        if let Self::Tree(_, _, spinner) = self {
            spinner.finish_and_clear();
        }
    }
}
