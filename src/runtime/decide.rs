//! People decide on calls that wait: under the session's lease, so that of two at once one wins,
//! and whoever comes second is told what stands.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Refused, Runtime, SessionHandle, live::Place, resume::Taken, spawn};
use crate::{
    core::{Fact, SessionId, SessionStatus, StreamId, port::StoreError},
    journal::SessionLog,
    machine::{State, state::Confirmation},
    runtime::NotResumed,
    session::{Decided, Objection, Say, Standing, decided, expiries, take_up_because, weigh},
};

/// Looks at a session that somebody else holds for a moment, for instance to decide as well.
const TRIES: u32 = 40;
/// The wait between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub enum NotDecided {
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(SessionId),
    /// The decision itself is not taken.
    #[error(transparent)]
    Objection(#[from] Objection),
    /// Other calls of the same step still run, or somebody else decides on the session.
    #[error("{0} is busy just now: decide again in a moment")]
    Busy(SessionId),
    /// The session cannot be gone on with here.
    #[error(transparent)]
    NotResumed(#[from] NotResumed),
}

/// A decision that stands, and the session if it goes on here because of it.
#[derive(Debug)]
pub struct Settled {
    /// What was decided; perhaps earlier, to the same effect.
    pub decided: Decided,
    /// The session, if this decision made it go on.
    pub handle: Option<SessionHandle>,
}

impl Runtime {
    /// Decides on a call that waits. The decision is durable when this returns. Once no call of
    /// the session waits any more, it goes on here.
    ///
    /// # Errors
    /// Why the decision is not taken; where its time is over, that is recorded.
    pub async fn decide(&self, id: SessionId, say: Say) -> Result<Settled, NotDecided> {
        for _ in 0..TRIES {
            if let Some(decided) = self.standing(id, &say).await? {
                return Ok(Settled { decided, handle: None });
            }
            let (runtime, say) = (self.clone(), say.clone());
            // A task of its own: a caller that goes away leaves no session taken and not driven.
            let attempt = spawn(async move { runtime.try_decide(id, say).await });
            match attempt.await {
                Ok(Ok(None)) => tokio::time::sleep(PAUSE).await,
                Ok(Ok(Some(settled))) => return Ok(settled),
                Ok(Err(why)) => return Err(why),
                Err(_) => return Err(NotDecided::Busy(id)),
            }
        }
        Err(NotDecided::Busy(id))
    }

    /// Decides if nobody else is at it; nothing where somebody is, or the session just ended: the
    /// next look says what became of the call.
    async fn try_decide(&self, id: SessionId, say: Say) -> Result<Option<Settled>, NotDecided> {
        let place = self.inner.live.reserve()?;
        match self.take(id).await {
            Ok((log, taken)) => self.decide_on(place, log, taken, say).await.map(Some),
            Err(NotResumed::Held { .. } | NotResumed::Ended(_)) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// What stands already without anybody's lease; nothing where there is something to record.
    async fn standing(&self, id: SessionId, say: &Say) -> Result<Option<Decided>, NotDecided> {
        let entries = self.on_store(move |store| store.load(StreamId::Session(id))).await.map_err(NotResumed::from)?;
        if entries.is_empty() {
            return Err(NotDecided::Unknown(id));
        }
        let state = State::fold(&entries);
        let waits = state.confirmation(&say.call_id).is_some_and(Confirmation::waits);
        match weigh(&state, say, self.inner.journal.clock().now()) {
            Ok(Standing::Same(decided)) => Ok(Some(decided)),
            Ok(Standing::Open(_)) => Ok(None),
            Err(Objection::Expired(_)) if waits => Ok(None),
            Err(objection) => Err(objection.into()),
        }
    }

    async fn decide_on(&self, place: Place, log: SessionLog, taken: Taken, say: Say) -> Result<Settled, NotDecided> {
        let now = log.now();
        let mut facts = log.read(|state| expiries(state, now));
        if let Ok(Standing::Open(op)) = log.read(|state| weigh(state, &say, now)) {
            facts.push(decided(op, say.clone()));
        }
        let handle = self.go_on(place, log.clone(), taken, facts).await.map_err(NotResumed::from)?;
        match log.read(|state| weigh(state, &say, now))? {
            Standing::Same(decided) => Ok(Settled { decided, handle }),
            Standing::Open(_) => Err(NotDecided::Busy(log.id())),
        }
    }

    /// Ends the waiting of every call of this session whose time is over. Nothing if none is.
    pub(super) async fn expire(&self, id: SessionId) -> Result<Option<SessionHandle>, NotResumed> {
        let place = self.inner.live.reserve()?;
        let (log, taken) = self.take(id).await?;
        let facts = log.read(|state| expiries(state, log.now()));
        Ok(self.go_on(place, log, taken, facts).await?)
    }

    /// Gives back a session that came to wait for a person, and stops it if somebody asked for
    /// that too late for the driver to hear.
    pub(super) async fn let_go(&self, id: SessionId, cancel: &CancellationToken) {
        self.inner.signals.leave(id);
        self.release(id).await;
        self.inner.live.given_back(id);
        if cancel.is_cancelled()
            && let Err(why) = self.cancel_left(id, "caller").await
        {
            tracing::warn!(target: "glassbox", session = %id, %why, "not stopped");
        }
    }

    /// Takes the session and reads its journal; gives it back where that fails.
    pub(super) async fn take(&self, id: SessionId) -> Result<(SessionLog, Taken), NotResumed> {
        let lease = self.acquire(id).await?;
        match self.reopen(id, lease).await {
            Ok(taken) => Ok(taken),
            Err(why) => {
                self.release(id).await;
                Err(why)
            }
        }
    }

    /// Records what was decided, and drives the session on if nothing waits any more.
    async fn go_on(
        &self,
        place: Place,
        log: SessionLog,
        taken: Taken,
        facts: Vec<Fact>,
    ) -> Result<Option<SessionHandle>, StoreError> {
        let waiting = log.read(|state| state.waiting().count());
        let idle = log.read(|state| state.status() == Some(SessionStatus::AwaitingConfirmation));
        if waiting == facts.len() || !idle {
            return self.drive_on(place, log, taken, facts).await.map(Some);
        }
        log.record_all(facts);
        let written = log.flush().await;
        let id = log.id();
        drop(log);
        self.inner.signals.leave(id);
        self.release(id).await;
        written.map(|()| None)
    }

    /// Drives a session that was taken; why it goes on becomes durable first, with that it does.
    pub(super) async fn drive_on(
        &self,
        place: Place,
        log: SessionLog,
        taken: Taken,
        because: Vec<Fact>,
    ) -> Result<SessionHandle, StoreError> {
        take_up_because(&log, because);
        if let Err(error) = log.flush().await {
            let id = log.id();
            drop(log);
            self.inner.signals.leave(id);
            self.release(id).await;
            return Err(error);
        }
        Ok(place.drive(self.clone(), log, taken))
    }
}

impl From<Refused> for NotDecided {
    fn from(refused: Refused) -> Self {
        Self::NotResumed(refused.into())
    }
}
