//! The records of all primary models that have a fallback, shared by all sessions, and how they
//! move.
//!
//! Every move is recorded in the system journal while the lock that made it is held. It must
//! never hold a lock over an await.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    core::{Fact, Fault, FaultKind, Timestamp},
    journal::SystemLog,
    machine::primary::{Pass, Primary},
};

/// The longest sleep of the timer: a wall clock that was set delays no move for longer.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// All primary models of a process. Clones share them.
#[derive(Clone)]
pub struct Primaries {
    inner: Arc<Inner>,
}

struct Inner {
    system: SystemLog,
    /// How long one that is down is left alone.
    pace: Duration,
    models: RwLock<BTreeMap<String, Arc<Mutex<Primary>>>>,
    /// Told when a record has a new next move.
    moved: Notify,
}

/// The right to ask a primary; given back when it is dropped.
pub struct Entrance<'a> {
    primaries: &'a Primaries,
    model: &'a str,
    pass: Option<Pass>,
}

impl Primaries {
    /// Records of these models, none of which has failed; while one is down it is tried `pace`
    /// after its last failure.
    pub fn new(system: SystemLog, pace: Duration, models: impl IntoIterator<Item = String>) -> Self {
        let made = Self { inner: Arc::new(Inner { system, pace, models: RwLock::default(), moved: Notify::new() }) };
        made.declare(models);
        made
    }

    /// Begins the records of these models, where there are none.
    pub fn declare(&self, models: impl IntoIterator<Item = String>) {
        let mut known = self.inner.models.write().unwrap_or_else(PoisonError::into_inner);
        for model in models {
            known.entry(model).or_insert_with(|| Arc::new(Mutex::new(Primary::new(self.inner.pace))));
        }
    }

    /// Whether a call may ask it now, if only as a probe. Models without a record always may be.
    pub fn may_ask(&self, model: &str) -> bool {
        self.change(model, |primary, now| primary.may_ask(now)).unwrap_or(true)
    }

    /// Takes the right to ask it; nothing where it is down and not to be probed now.
    pub fn enter<'a>(&'a self, model: &'a str) -> Option<Entrance<'a>> {
        let pass = match self.change(model, Primary::admit) {
            None => None,
            Some(admitted) => Some(admitted?),
        };
        Some(Entrance { primaries: self, model, pass })
    }

    /// Takes in how an attempt at it ended.
    pub(super) fn hear<T>(&self, model: &str, result: &Result<T, Fault>) {
        self.change(model, |primary, now| match result {
            Ok(_) => primary.succeed(),
            // One that declines is there.
            Err(fault) if fault.kind == FaultKind::Declined => primary.succeed(),
            Err(fault) if fault.kind.falls_back() => primary.fail(now),
            // A request that was itself wrong says nothing of the model.
            Err(_) => {}
        });
    }

    /// Forgets that it failed: somebody who knows says so.
    pub fn trust(&self, model: &str) {
        self.change(model, |primary, _| primary.succeed());
    }

    /// Records what time alone changes, with or without traffic. Never ends.
    pub async fn keep_time(&self) {
        loop {
            let now = self.inner.system.now();
            let next = self.known().values().filter_map(|model| lock(model).next_move()).min();
            let sleep = next.map(|at| at.since(now).min(LONGEST_SLEEP));
            tokio::select! {
                () = self.inner.moved.notified() => {}
                () = tokio::time::sleep(sleep.unwrap_or_default()), if sleep.is_some() => {
                    for model in self.known().keys() {
                        self.change(model, |_, _| ());
                    }
                }
            }
        }
    }

    /// The records of now; no lock is held over them.
    fn known(&self) -> BTreeMap<String, Arc<Mutex<Primary>>> {
        self.inner.models.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes one record and writes down its move, all under its lock.
    fn change<R>(&self, model: &str, change: impl FnOnce(&mut Primary, Timestamp) -> R) -> Option<R> {
        let primary = self.inner.models.read().unwrap_or_else(PoisonError::into_inner).get(model)?.clone();
        let mut primary = lock(&primary);
        let (before, now) = (primary.next_move(), self.inner.system.now());
        let result = change(&mut primary, now);
        if let Some(down) = primary.take_move(now) {
            self.inner.system.record(Fact::PrimaryChanged { model: model.to_owned(), down });
        }
        if primary.next_move() != before {
            self.inner.moved.notify_one();
        }
        Some(result)
    }
}

impl Entrance<'_> {
    /// Whether this call is the one that tries a model that is down.
    pub const fn is_probe(&self) -> bool {
        matches!(self.pass, Some(Pass::Probe))
    }
}

impl Drop for Entrance<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.primaries.change(self.model, |primary, _| primary.give_back(pass));
        }
    }
}

/// A panic under this lock leaves a record that is still whole: every change is one assignment.
fn lock(primary: &Mutex<Primary>) -> MutexGuard<'_, Primary> {
    primary.lock().unwrap_or_else(PoisonError::into_inner)
}
