//! Sessions that nobody drives: take them up, keep what is taken, give back what is left.

use std::sync::Arc;

use tokio::time::MissedTickBehavior;

use super::{Refused, Runtime, SessionHandle, orphans::Orphans, spawn};
use crate::{
    core::{
        Fact, Principal, SessionId, SessionStatus, StreamId, Timestamp,
        id::ProcessId,
        lease::{LeaseEpoch, LeaseGrant},
        port::{StoreError, StoreErrorKind},
    },
    journal::SessionLog,
    session::{PromptError, beginning, own_prompt},
};

/// Why a session is not resumed here.
#[derive(Debug, thiserror::Error)]
pub enum NotResumed {
    /// There is none.
    #[error("there is no session {0}")]
    Unknown(SessionId),
    /// It has ended.
    #[error("{0} has ended")]
    Ended(SessionId),
    /// It waits for a person.
    #[error("{0} waits for a person: `glassbox session confirm {0}` decides")]
    Waiting(SessionId),
    /// It is driven here.
    #[error("{0} runs")]
    Runs(SessionId),
    /// Somebody drives it.
    #[error("{session} is driven by {owner} until {until} at least")]
    Held {
        /// Which.
        session: SessionId,
        /// By whom.
        owner: ProcessId,
        /// Until when, unless it is renewed.
        until: Timestamp,
    },
    /// Its agent is not configured any more.
    #[error("{session} belongs to agent {agent}, which is not configured")]
    NoAgent {
        /// Which.
        session: SessionId,
        /// Of whom.
        agent: String,
    },
    /// Its prompt is gone.
    #[error("{session} cannot go on: {source}")]
    Prompt {
        /// Which.
        session: SessionId,
        /// Why.
        source: PromptError,
    },
    /// The process takes no more sessions.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The store.
    #[error("the journal: {0}")]
    Store(#[from] StoreError),
}

impl Runtime {
    /// Takes up a session that nobody drives, and drives it.
    ///
    /// # Errors
    /// Why it is not resumed here.
    pub async fn resume(&self, id: SessionId) -> Result<SessionHandle, NotResumed> {
        // Its lease may have run out while the journal could not write.
        if self.inner.live.find(id).is_some() {
            return Err(NotResumed::Runs(id));
        }
        self.take_over(id, None).await
    }

    /// Takes up a session that nobody drives, only to end it as cancelled.
    ///
    /// # Errors
    /// Why it is not ended here.
    pub async fn cancel_left(&self, id: SessionId, by: &str) -> Result<SessionHandle, NotResumed> {
        self.take_over(id, Some(Fact::CancelRequested { by: by.into() })).await
    }

    /// In a task of its own: a caller that goes away leaves no session taken and not driven.
    async fn take_over(&self, id: SessionId, with: Option<Fact>) -> Result<SessionHandle, NotResumed> {
        let runtime = self.clone();
        let taken = spawn(async move { runtime.take_and_drive(id, with).await }).await;
        taken.unwrap_or_else(|_| Err(panicked().into()))
    }

    async fn take_and_drive(&self, id: SessionId, with: Option<Fact>) -> Result<SessionHandle, NotResumed> {
        let place = self.inner.live.reserve()?;
        let (log, taken) = self.take(id).await?;
        let idle = log.read(|state| state.status() == Some(SessionStatus::AwaitingConfirmation));
        if with.is_none() && idle && log.read(|state| state.waiting().next().is_some()) {
            drop(log);
            self.inner.signals.leave(id);
            self.release(id).await;
            return Err(NotResumed::Waiting(id));
        }
        Ok(self.drive_on(place, log, taken, with.into_iter().collect()).await?)
    }

    pub(super) async fn acquire(&self, id: SessionId) -> Result<LeaseEpoch, NotResumed> {
        let (now, process) = (self.inner.journal.clock().now(), self.inner.journal.process());
        let until = now.plus(self.inner.lease);
        match self.on_store(move |store| store.acquire(id, process, now, until)).await? {
            LeaseGrant::Granted(epoch) => Ok(epoch),
            LeaseGrant::Held { owner, until } => Err(NotResumed::Held { session: id, owner, until }),
        }
    }

    /// Reads the journal after the lease was granted: what was written before then is all.
    pub(super) async fn reopen(&self, id: SessionId, lease: LeaseEpoch) -> Result<(SessionLog, Taken), NotResumed> {
        let entries = self.on_store(move |store| store.load(StreamId::Session(id))).await?;
        let Some(started) = beginning(&entries).cloned() else { return Err(NotResumed::Unknown(id)) };
        let log = SessionLog::reopen(&self.inner.journal, id, &entries, lease).ok_or(NotResumed::Unknown(id))?;
        if log.read(|state| state.status().is_some_and(SessionStatus::is_final)) {
            return Err(NotResumed::Ended(id));
        }
        self.tools_settled(&started.agent).await;
        let agent = self.inner.agents.find(Some(&started.agent));
        let agent = agent.map_err(|_| NotResumed::NoAgent { session: id, agent: started.agent.clone() })?;
        let mark = self.mark(id).await?;
        let (runtime, own) = (self.clone(), started.clone());
        let read = move || {
            let prompt = own_prompt(&*runtime.inner.store, &own)?;
            // Spans may show what was said, whose texts are read here too.
            runtime.inner.signals.adopt(&entries, mark);
            Ok(prompt)
        };
        let prompt = tokio::task::spawn_blocking(read)
            .await
            .map_err(|_| panicked())?
            .map_err(|source| NotResumed::Prompt { session: id, source })?;
        let prompt = agent.in_form(prompt);
        let principal = Arc::new(started.principal);
        Ok((log, Taken { agent, prompt, principal }))
    }

    /// Sessions that have not ended and that nobody drives, oldest first.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub async fn orphans(&self) -> Result<Vec<SessionId>, StoreError> {
        let now = self.inner.journal.clock().now();
        self.on_store(move |store| store.expired(now)).await
    }

    /// Sends again the traces and lines that did not arrive, takes up what nobody drives, ends what
    /// nobody decided in time and erases what was kept long enough, round after round, until the
    /// process stops.
    pub fn keep_sessions(&self) {
        self.send_again();
        self.write_again();
        self.keep_retention();
        self.keep_webhooks();
        let runtime = self.clone();
        spawn(async move {
            let mut rounds = tokio::time::interval(runtime.inner.lease / 3);
            rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut orphans = Orphans::default();
            loop {
                tokio::select! {
                    () = runtime.inner.draining.cancelled() => return,
                    _ = rounds.tick() => {
                        orphans.take_up(&runtime).await;
                        runtime.expire_waiting().await;
                    }
                }
            }
        });
    }

    /// The heartbeat: renews the leases of what is driven here for as long as the process lives,
    /// also while it drains. A session that is lost stops at once.
    pub(super) fn keep_leases(&self) {
        let runtime = self.clone();
        spawn(async move {
            let mut beats = tokio::time::interval(runtime.inner.lease / 3);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = runtime.inner.stopped.cancelled() => return,
                    _ = beats.tick() => {
                        runtime.renew().await;
                        runtime.note_delivered().await;
                        runtime.save_marks().await;
                        runtime.write_refusals(false);
                    }
                }
            }
        });
    }

    async fn renew(&self) {
        let driven = self.inner.live.driven();
        if driven.is_empty() {
            return;
        }
        let sessions: Vec<_> = driven.iter().map(SessionHandle::id).collect();
        let process = self.inner.journal.process();
        let until = self.inner.journal.clock().now().plus(self.inner.lease);
        match self.on_store(move |store| store.renew(process, &sessions, until)).await {
            // The handles of before: the session may have been given back and taken again meanwhile.
            Ok(lost) => driven.iter().filter(|handle| lost.contains(&handle.id())).for_each(SessionHandle::lose),
            // The next beat tries again; the lease outlives two that fail.
            Err(error) => tracing::warn!(target: "glassbox", %error, "leases could not be renewed"),
        }
    }

    /// Gives a session back, so that whoever comes next need not wait for its lease to run out.
    pub(super) async fn release(&self, id: SessionId) {
        let process = self.inner.journal.process();
        if let Err(error) = self.on_store(move |store| store.release(id, process)).await {
            tracing::warn!(target: "glassbox", session = %id, %error, "the lease runs out by itself");
        }
    }

    /// Calls the store off the async threads.
    pub(super) async fn on_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn crate::core::Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.inner.store.clone();
        tokio::task::spawn_blocking(move || call(&*store)).await.unwrap_or_else(|_| Err(panicked()))
    }
}

/// What a session is driven with.
pub(super) struct Taken {
    pub(super) agent: Arc<crate::session::Agent>,
    pub(super) prompt: crate::machine::Prompt,
    pub(super) principal: Arc<Principal>,
}

pub(super) fn panicked() -> StoreError {
    StoreError { kind: StoreErrorKind::Io, detail: "a call of the store panicked".into() }
}
