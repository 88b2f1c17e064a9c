//! The sessions that this process drives now.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Refused, Runtime, resume::Taken, spawn};
use crate::{
    core::{SessionId, port::StoreError},
    journal::SessionLog,
    session::{self, Ended},
};

/// How driving ended; nothing while it goes on.
type Verdict = Option<Result<Ended, StoreError>>;

/// A table of running sessions with a limit. Clones share it.
#[derive(Clone)]
pub(super) struct Live {
    limit: usize,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    /// Places taken, those included whose session is just being begun.
    taken: usize,
    /// Of those, the ones of each principal; nobody with none.
    owners: HashMap<String, usize>,
    sessions: HashMap<SessionId, SessionHandle>,
    /// Suspended here: to be given back at the stop.
    suspended: Vec<SessionId>,
}

/// A session that runs here: to wait for it, or to stop it.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    id: SessionId,
    cancel: CancellationToken,
    lost: CancellationToken,
    verdict: watch::Receiver<Verdict>,
}

impl SessionHandle {
    /// The session.
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// Asks it to stop.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Stops driving it here: another process took it over.
    pub(super) fn lose(&self) {
        self.lost.cancel();
    }

    /// Waits for its end or suspension. What is returned is durable.
    ///
    /// # Errors
    /// Where the journal could not make it durable.
    pub async fn ended(&mut self) -> Result<Ended, StoreError> {
        match self.verdict.wait_for(Option::is_some).await {
            Ok(verdict) => verdict.clone().unwrap_or(Ok(Ended::Suspended)),
            // The task is gone without a word, as on a shutdown of the async runtime.
            Err(_) => Ok(Ended::Suspended),
        }
    }
}

/// A place for one session, given back when dropped.
pub(super) struct Place {
    live: Live,
    /// Whose session it is for; not known before a session that is taken up was read.
    owner: Option<String>,
}

impl Live {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, table: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a session of this principal, or says that there is none, or that the
    /// principal has as many as it may.
    pub(super) fn reserve_for(&self, principal: &str, most: Option<u32>) -> Result<Place, Refused> {
        let mut place = self.reserve()?;
        let mut table = self.lock();
        let running = table.owners.get(principal).copied().unwrap_or_default();
        if let Some(limit) = most.filter(|most| running >= usize::try_from(*most).unwrap_or(usize::MAX)) {
            // Giving the place back takes the lock again.
            drop(table);
            return Err(Refused::TooManyAtOnce { limit });
        }
        table.owners.insert(principal.to_owned(), running + 1);
        drop(table);
        place.owner = Some(principal.to_owned());
        Ok(place)
    }

    /// Sessions of this principal that run here, or just begin.
    pub(super) fn running_of(&self, principal: &str) -> usize {
        self.lock().owners.get(principal).copied().unwrap_or_default()
    }

    /// Takes a place, or says that there is none.
    pub(super) fn reserve(&self) -> Result<Place, Refused> {
        let mut table = self.lock();
        if table.taken >= self.limit {
            return Err(Refused::Overloaded { limit: self.limit });
        }
        table.taken += 1;
        Ok(Place { live: self.clone(), owner: None })
    }

    pub(super) fn cancel(&self, id: SessionId) -> bool {
        let table = self.lock();
        table.sessions.get(&id).map(SessionHandle::cancel).is_some()
    }

    /// What this process leaves to others: suspended, or still in the middle of a step.
    pub(super) fn left(&self) -> Vec<SessionId> {
        let table = self.lock();
        table.suspended.iter().chain(table.sessions.keys()).copied().collect()
    }

    /// The sessions that are driven now.
    pub(super) fn driven(&self) -> Vec<SessionHandle> {
        self.lock().sessions.values().cloned().collect()
    }

    /// Notes that a session that waits for a person was given back.
    pub(super) fn given_back(&self, id: SessionId) {
        self.lock().suspended.retain(|left| *left != id);
    }

    pub(super) fn find(&self, id: SessionId) -> Option<SessionHandle> {
        self.lock().sessions.get(&id).cloned()
    }

    /// Waits until no session runs, for `grace` at the most. Gives how many were suspended and
    /// how many still run.
    pub(super) async fn settle(&self, grace: Duration) -> (usize, usize) {
        let handles: Vec<_> = self.lock().sessions.values().cloned().collect();
        let all = async {
            for mut handle in handles {
                // The verdict is the session's own affair; here only that there is one.
                let _ = handle.ended().await;
            }
        };
        // After the grace period what still runs is left as it stands in the journal.
        let _ = tokio::time::timeout(grace, all).await;
        let table = self.lock();
        (table.suspended.len(), table.sessions.len())
    }
}

impl Place {
    /// Drives a session in a task of its own.
    pub(super) fn drive(mut self, runtime: Runtime, log: SessionLog, taken: Taken) -> SessionHandle {
        self.give_to(&taken.principal.id);
        let (told, verdict) = watch::channel(None);
        let (cancel, lost) = (CancellationToken::new(), CancellationToken::new());
        let suspend = runtime.inner.draining.clone();
        let signals = session::Signals { cancel: cancel.clone(), suspend, lost: lost.clone() };
        let handle = SessionHandle { id: log.id(), cancel, lost, verdict };
        self.live.lock().sessions.insert(log.id(), handle.clone());
        spawn(async move {
            let Taken { agent, prompt, principal } = taken;
            let ended = match session::drive(&log, &agent, &prompt, &principal, &signals).await {
                Err(error) if error.kind.is_lost() => Ok(Ended::TakenOver),
                ended => ended,
            };
            let id = log.id();
            if matches!(ended, Ok(Ended::TakenOver)) {
                // Before it can be taken up here again.
                runtime.inner.signals.leave(id);
            }
            self.close(id, &ended);
            if matches!(ended, Ok(Ended::AwaitingConfirmation(_))) {
                drop(log);
                runtime.let_go(id, &signals.cancel).await;
            }
            // Nobody need wait for it.
            let _ = told.send(Some(ended));
        });
        handle
    }

    /// Counts it for this principal, unless it is counted already.
    fn give_to(&mut self, principal: &str) {
        if self.owner.is_none() {
            *self.live.lock().owners.entry(principal.to_owned()).or_default() += 1;
            self.owner = Some(principal.to_owned());
        }
    }

    fn close(self, id: SessionId, ended: &Result<Ended, StoreError>) {
        let mut table = self.live.lock();
        table.sessions.remove(&id);
        if matches!(ended, Ok(Ended::Suspended | Ended::AwaitingConfirmation(_))) {
            table.suspended.push(id);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.live.lock();
        table.taken -= 1;
        if let Some(owner) = &self.owner
            && let Some(count) = table.owners.get_mut(owner)
        {
            *count -= 1;
            if *count == 0 {
                table.owners.remove(owner);
            }
        }
    }
}
