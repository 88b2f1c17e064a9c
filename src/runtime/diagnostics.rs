//! What the program says of itself on the standard error, and the spans of foreign code.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::signal::otlp::Pipeline;

/// How diagnostics are made. Each layer has a filter of its own: a filter over all would delete
/// spans, and traces with them.
pub struct Diagnostics {
    filter: String,
    pipeline: Option<Pipeline>,
}

impl Diagnostics {
    pub(super) fn new(filter: &str, pipeline: Option<Pipeline>) -> Self {
        Self { filter: filter.to_owned(), pipeline }
    }

    /// Makes them the diagnostics of this process. A second installation changes nothing.
    pub fn install(self) {
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr)
            .with_filter(EnvFilter::new(&self.filter));
        let spans = self.pipeline.map(|pipeline| pipeline.layer());
        // An error only says that somebody installed diagnostics before, which then stay.
        let _ = tracing_subscriber::registry().with(lines).with(spans).try_init();
    }
}
