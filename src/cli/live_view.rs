//! Shows a session while it runs: a tree with a spinner on a terminal, plain lines in a pipe.

use std::{io::IsTerminal as _, time::Duration};

use console::strip_ansi_codes;
use indicatif::{ProgressBar, ProgressStyle};

use super::{say, steps::Steps};
use crate::core::Entry;

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(80);

/// Where the lines go.
pub(super) enum LiveView {
    /// A terminal: lines above a spinner.
    Tree(Steps, ProgressBar),
    /// A pipe.
    Lines(Steps),
    /// Nowhere, for `--json`.
    Silent,
}

impl LiveView {
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
        Self::Tree(Steps::default(), spinner)
    }

    /// Shows what a fact completes.
    pub(super) fn show(&mut self, entry: &Entry) {
        match self {
            Self::Tree(steps, spinner) => {
                for line in steps.apply(entry) {
                    spinner.suspend(|| say(line));
                }
                spinner.set_message(steps.under_way());
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
        if let Self::Tree(_, spinner) = self {
            spinner.finish_and_clear();
        }
    }
}
