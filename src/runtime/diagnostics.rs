//! What the program says of itself on the standard error, and the spans of foreign code.
//!
//! Libraries and tools write here too, so every line passes the redactor. It must never show what
//! it was given as it was given.

use std::{backtrace::Backtrace, io, panic};

use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::signal::{otlp::Pipeline, redact};

/// How diagnostics are made. Each layer has a filter of its own: a filter over all would delete
/// spans, and traces with them.
pub struct Diagnostics {
    filter: String,
    pipeline: Option<Pipeline>,
}

/// Writes lines with a mark in the place of what looks like personal data or a secret.
struct Redacted<W>(W);

impl Diagnostics {
    pub(super) fn new(filter: &str, pipeline: Option<Pipeline>) -> Self {
        Self { filter: filter.to_owned(), pipeline }
    }

    /// Makes them the diagnostics of this process, panics included. A second installation changes
    /// nothing.
    pub fn install(self) {
        let lines = tracing_subscriber::fmt::layer()
            // Colours would cut words in two that the redactor has to know.
            .with_ansi(false)
            .with_writer(|| Redacted(io::stderr()))
            .with_filter(EnvFilter::new(&self.filter));
        let spans = self.pipeline.map(|pipeline| pipeline.layer());
        // An error only says that somebody installed diagnostics before, which then stay.
        if tracing_subscriber::registry().with(lines).with(spans).try_init().is_ok() {
            panic::set_hook(Box::new(tell));
        }
    }
}

/// A write is a whole line: that is how the layer above writes.
impl<W: io::Write> io::Write for Redacted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(redact(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Tells of a panic as of any other error: its text may hold what a tool was given.
fn tell(info: &panic::PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let text = info.payload_as_str().unwrap_or("no text");
    // Empty unless RUST_BACKTRACE asks for it.
    let backtrace = Backtrace::capture();
    tracing::error!(target: "glassbox", place, %backtrace, "a thread panicked: {text}");
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_pass_the_redactor() {
        let mut shown = Redacted(Vec::new());
        shown.write_all("ERROR sent to ivan@example.kz, key=sk-live-0123456789abcdef\n".as_bytes()).expect("memory");
        assert_eq!(String::from_utf8(shown.0).as_deref(), Ok("ERROR sent to [email], key=[key]\n"));
    }
}
