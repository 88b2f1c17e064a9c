//! Sessions that wait for a person: nobody drives them, but their time passes all the same.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{NotResumed, Runtime};
use crate::{
    core::{
        SessionId, SessionStatus, StreamId, Timestamp,
        fact::SessionSummary,
        port::{SessionFilter, StoreError},
    },
    machine::State,
};

/// Sessions whose time is over that are taken up in one round at the most.
const ROUND: usize = 32;
/// Sessions read at once from the list.
const PAGE: usize = 1000;

/// When the first call of a session expires, so that its journal need not be read each round.
#[derive(Default)]
pub(super) struct Watched(Mutex<HashMap<SessionId, Watch>>);

#[derive(Clone, Copy)]
struct Watch {
    /// The last fact of the session when this was read.
    updated: Timestamp,
    due: Timestamp,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all but these; gives those that are forgotten.
    fn keep(&self, rows: &[SessionSummary]) -> Vec<SessionId> {
        let waiting: HashSet<_> = rows.iter().map(|row| row.id).collect();
        let mut watched = self.lock();
        let gone = watched.keys().filter(|id| !waiting.contains(id)).copied().collect();
        watched.retain(|id, _| waiting.contains(id));
        gone
    }

    /// When a session is due, if it has not changed since that was read.
    fn due(&self, row: &SessionSummary) -> Option<Timestamp> {
        self.lock().get(&row.id).filter(|watch| watch.updated == row.updated).map(|watch| watch.due)
    }
}

impl Runtime {
    /// One round: ends what nobody decided in time.
    pub(super) async fn expire_waiting(&self) {
        if let Err(error) = self.expire_due().await {
            tracing::warn!(target: "glassbox", %error, "cannot look for confirmations that expire");
        }
    }

    async fn expire_due(&self) -> Result<(), StoreError> {
        let rows = self.awaiting().await?;
        for gone in self.inner.watched.keep(&rows) {
            self.inner.signals.abandon(gone);
        }
        let mut taken = 0;
        for row in rows {
            let due = match self.inner.watched.due(&row) {
                Some(due) => due,
                None => match self.watch(&row).await {
                    Ok(due) => due,
                    // One journal that cannot be read keeps no other from its end.
                    Err(error) => {
                        tracing::warn!(target: "glassbox", session = %row.id, %error, "not looked at");
                        continue;
                    }
                },
            };
            if due > self.inner.journal.clock().now() {
                continue;
            }
            match self.expire(row.id).await {
                Ok(_) => taken += 1,
                // Somebody decides on it just now, or it ended meanwhile: as it should be.
                Err(NotResumed::Held { .. } | NotResumed::Ended(_)) => {}
                Err(NotResumed::Refused(_)) => break,
                Err(why) => tracing::warn!(target: "glassbox", session = %row.id, %why, "not expired"),
            }
            if taken == ROUND {
                break;
            }
        }
        Ok(())
    }

    /// Every session that waits for a person.
    async fn awaiting(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let mut rows: Vec<SessionSummary> = Vec::new();
        loop {
            let filter = SessionFilter {
                status: Some(SessionStatus::AwaitingConfirmation),
                before: rows.last().map(|row| row.id),
                limit: PAGE,
                ..SessionFilter::default()
            };
            let page = self.on_store(move |store| store.sessions(&filter)).await?;
            let last = page.len() < PAGE;
            rows.extend(page);
            if last {
                return Ok(rows);
            }
        }
    }

    /// Reads the journal of a session that is new among those that wait. One in which nothing
    /// waits is due at once: it only needs somebody to drive it.
    async fn watch(&self, row: &SessionSummary) -> Result<Timestamp, StoreError> {
        let id = row.id;
        let entries = self.on_store(move |store| store.load(StreamId::Session(id))).await?;
        self.metrics().notice_waiting(&entries);
        let earliest = State::fold(&entries).waiting().map(|asked| asked.request.expires).min();
        let due = earliest.unwrap_or_default();
        self.inner.watched.lock().insert(id, Watch { updated: row.updated, due });
        Ok(due)
    }
}
