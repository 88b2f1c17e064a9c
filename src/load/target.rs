//! What sessions are run against, and what a caller sees of one.

use async_trait::async_trait;
use tokio::time::Instant;

use crate::core::{SessionId, SessionStatus, SpanId};

/// Something that runs sessions.
#[async_trait]
pub(super) trait Target: Send + Sync {
    /// Runs one session and waits for its end.
    async fn session(&self, task: &str) -> Seen;
}

/// What a caller saw of one session.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// When the service said that the session is kept.
    pub(super) accepted: Option<Instant>,
    /// Its id, from then on.
    pub(super) id: Option<SessionId>,
    /// The operations that it was seen to begin: what its trace will have spans of.
    pub(super) spans: Vec<SpanId>,
    /// When nothing more was waited for.
    pub(super) over: Instant,
    /// How it ended for the caller.
    pub(super) end: End,
}

/// How a session ended for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It has this status: a final one, or it waits for a person.
    Ended {
        /// The status.
        status: SessionStatus,
        /// Whether the answer was given without tools.
        degraded: bool,
    },
    /// The service did not take it, and answered with this status.
    Refused(u16),
    /// It broke off between here and the service.
    Failed(&'static str),
    /// It did not end in the time that a caller waits.
    TimedOut,
}

impl Seen {
    /// A session that has just been asked for.
    pub(super) fn begun() -> Self {
        Self { accepted: None, id: None, spans: Vec::new(), over: Instant::now(), end: End::TimedOut }
    }

    /// It is over now, and ended so.
    pub(super) fn ended(self, end: End) -> Self {
        Self { over: Instant::now(), end, ..self }
    }
}
