//! The end of a session's keeping: erased on request, or because its time is over.
//!
//! Whoever erases takes the session first, as whoever drives it does, so that no process erases
//! what another one runs.

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::{Runtime, resume::panicked, spawn};
use crate::core::{
    Fact, SessionId, Store, Timestamp, fact::EraseCause, id::ProcessId, lease::LeaseGrant, port::StoreError,
};

/// How often ended sessions are looked at.
const EVERY: Duration = Duration::from_secs(60);
/// Sessions erased in one transaction at the most: writers wait for it.
const BATCH: usize = 100;
/// Batches of one round at the most; what is left waits for the next round.
const BATCHES: usize = 10;
/// Idempotency keys forgotten in one round at the most.
const KEYS: usize = 10_000;
/// The pause between two batches of a round.
const PAUSE: Duration = Duration::from_millis(250);

/// A session that is not erased because somebody holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub session: SessionId,
    /// By whom.
    pub owner: ProcessId,
    /// Until when, unless it is renewed.
    pub until: Timestamp,
}

/// What came of erasing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasure {
    /// Sessions that are gone.
    pub erased: u64,
    /// Sessions that are still there.
    pub held: Vec<Held>,
}

/// Who erases, and by which clock.
#[derive(Clone, Copy, Debug)]
pub struct Eraser {
    /// The process.
    pub owner: ProcessId,
    /// Now.
    pub now: Timestamp,
    /// How long what it takes stays taken, should it die before it has erased it.
    pub lease: Duration,
}

impl Eraser {
    /// Erases those of the sessions that are there and that nobody holds. Blocks, and needs
    /// nothing but a store. Of what is erased bytes may stay in the store's files until
    /// [`Store::scrub`].
    ///
    /// # Errors
    /// Where the store cannot be written; then no session is gone.
    pub fn erase(&self, store: &dyn Store, sessions: &[SessionId]) -> Result<Erasure, StoreError> {
        let mut erasure = Erasure::default();
        let mut taken = Vec::new();
        let until = self.now.plus(self.lease);
        let erased = self.take(store, sessions, until, &mut taken, &mut erasure.held);
        match erased.and_then(|()| store.erase(self.owner, &taken)) {
            Ok(erased) => Ok(Erasure { erased, ..erasure }),
            Err(error) => {
                for session in taken {
                    // What cannot be given back runs out by itself.
                    let _ = store.release(session, self.owner);
                }
                Err(error)
            }
        }
    }

    fn take(
        &self,
        store: &dyn Store,
        sessions: &[SessionId],
        until: Timestamp,
        taken: &mut Vec<SessionId>,
        held: &mut Vec<Held>,
    ) -> Result<(), StoreError> {
        for session in sessions.iter().copied() {
            // Asked first, because taking one that is not there would leave a lease behind.
            if store.session(session)?.is_none() {
                continue;
            }
            match store.acquire(session, self.owner, self.now, until)? {
                LeaseGrant::Granted(_) => taken.push(session),
                LeaseGrant::Held { owner, until } => held.push(Held { session, owner, until }),
            }
        }
        Ok(())
    }
}

impl Runtime {
    /// Erases sessions that nobody drives, in batches, records each, and takes their bytes off
    /// the medium. When this returns, all of it is durable. It goes on where the caller does not
    /// wait for it, so that nothing is gone and not recorded.
    ///
    /// # Errors
    /// Where the store cannot be written. What was erased before then is gone and recorded.
    pub async fn erase(&self, sessions: Vec<SessionId>, cause: EraseCause) -> Result<Erasure, StoreError> {
        let runtime = self.clone();
        let work = spawn(async move {
            let mut all = Erasure::default();
            for batch in sessions.chunks(BATCH) {
                let Erasure { erased, held } = runtime.erase_batch(batch.to_vec(), cause).await?;
                all.erased += erased;
                all.held.extend(held);
            }
            if all.erased > 0 {
                runtime.scrub().await?;
            }
            Ok(all)
        });
        work.await.unwrap_or_else(|_| Err(panicked()))
    }

    async fn erase_batch(&self, sessions: Vec<SessionId>, cause: EraseCause) -> Result<Erasure, StoreError> {
        let journal = &self.inner.journal;
        let eraser = Eraser { owner: journal.process(), now: journal.clock().now(), lease: self.inner.lease };
        let erasure = self.on_store(move |store| eraser.erase(store, &sessions)).await?;
        if erasure.erased > 0 {
            self.inner.system.record(Fact::SessionsErased { count: erasure.erased, cause });
            self.inner.system.flush().await?;
        }
        Ok(erasure)
    }

    async fn scrub(&self) -> Result<(), StoreError> {
        self.on_store(|store| store.scrub()).await
    }

    /// Erases ended sessions that are older than `retention.sessions`, as many as one round may.
    /// Gives how many; none where sessions are kept for ever.
    ///
    /// # Errors
    /// As [`Runtime::erase`].
    pub async fn erase_outdated(&self) -> Result<u64, StoreError> {
        let Some(kept) = self.rules(|rules| rules.retention) else { return Ok(0) };
        let now = self.inner.journal.clock().now().as_nanos();
        let before = now.saturating_sub(u64::try_from(kept.as_nanos()).unwrap_or(u64::MAX));
        let before = Timestamp::from_nanos(before);
        let mut erased = 0;
        for batch in 0..BATCHES {
            if batch > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let outdated = self.on_store(move |store| store.ended(before, BATCH)).await?;
            let full = outdated.len() == BATCH;
            let round = self.erase_batch(outdated, EraseCause::Retention).await?;
            erased += round.erased;
            // A batch in which others hold all would come back for ever.
            if !full || round.erased == 0 {
                break;
            }
        }
        if erased > 0 {
            self.scrub().await?;
        }
        Ok(erased)
    }

    /// Round after round of [`Runtime::erase_outdated`], and of forgetting old idempotency keys, until the process stops.
    pub(super) fn keep_retention(&self) {
        let runtime = self.clone();
        spawn(async move {
            let mut rounds = tokio::time::interval(EVERY);
            rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut unclean = false;
            loop {
                tokio::select! {
                    () = runtime.inner.draining.cancelled() => return,
                    _ = rounds.tick() => {
                        runtime.forget_keys().await;
                        runtime.forget_notices().await;
                        unclean = runtime.erase_round(unclean).await;
                    }
                }
            }
        });
    }

    /// Forgets idempotency keys whose time is over.
    async fn forget_keys(&self) {
        let now = self.inner.journal.clock().now();
        if let Err(error) = self.on_store(move |store| store.forget_keys(now, KEYS)).await {
            tracing::warn!(target: "glassbox", %error, "the next round forgets old idempotency keys");
        }
    }

    /// One round; `unclean` where the last one left bytes behind. Gives whether this one did.
    async fn erase_round(&self, unclean: bool) -> bool {
        let unclean = unclean && self.scrub().await.is_err();
        match self.erase_outdated().await {
            Ok(0) => unclean,
            Ok(erased) => {
                tracing::info!(target: "glassbox", erased, "sessions erased that were kept long enough");
                false
            }
            Err(error) => {
                tracing::warn!(target: "glassbox", %error, "the next round erases what was kept long enough");
                true
            }
        }
    }
}
