//! The one way to start a task: inside the current span and trace.

use std::future::Future;

use opentelemetry::{Context, trace::FutureExt as _};
use tokio::task::JoinHandle;
use tracing::Instrument as _;

/// Starts a task that keeps the caller's trace; a bare spawn would begin a new one.
#[expect(clippy::disallowed_methods, reason = "the wrapper that the ban points to")]
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(work.with_context(Context::current()).in_current_span())
}
