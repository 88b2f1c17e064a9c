//! The circuit breakers that all sessions share, and the record of how they move.
//!
//! Every move is recorded in the system journal while the lock that made it is held, so that the
//! journal tells one order. It must never hold a lock over an await.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use serde::Serialize;
use tokio::sync::Notify;
use utoipa::ToSchema;

use crate::{
    core::{
        Entry, Fact, Sensitive, Timestamp,
        circuit::{CircuitCause, CircuitChange, CircuitId, CircuitState},
        fault::Health,
    },
    journal::SystemLog,
    machine::{
        breaker::{Breaker, Move, Permit, Refusal, Rules, Switch},
        retry::Budget,
    },
};

/// The longest sleep of the timer: a wall clock that was set never keeps a breaker for longer.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// All circuit breakers of a process. Clones share them.
#[derive(Clone)]
pub struct Circuits {
    inner: Arc<Inner>,
}

/// What an operator can ask for; times are counted from now, and none is no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Let nothing through.
    ForceOpen(Option<Duration>),
    /// Let everything through and count nothing.
    ForceClosed(Option<Duration>),
    /// Close it, with nothing counted and no switch.
    Reset,
}

/// How a circuit breaker stands, for people.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Circuit)]
pub struct Standing {
    /// Which one.
    #[serde(flatten)]
    pub circuit: CircuitId,
    /// How it stands.
    pub state: CircuitState,
    /// Whether an operator holds it there.
    pub forced: bool,
    /// The operator who does.
    #[schema(value_type = Option<String>)]
    pub by: Option<Sensitive<String>>,
    /// Until when it stays, if nothing else moves it.
    #[serde(serialize_with = "as_rfc_3339")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
    /// Failures among what is counted.
    pub failures: u64,
    /// Attempts of the window, as of the last counted one.
    pub counted: u64,
}

struct Inner {
    system: SystemLog,
    rules: Rules,
    circuits: RwLock<BTreeMap<CircuitId, Arc<Mutex<Guarded>>>>,
    /// How earlier processes left those that this one has not asked for yet.
    left: Mutex<BTreeMap<CircuitId, CircuitChange>>,
    /// Told when a breaker has a new next move.
    moved: Notify,
}

/// What one lock guards.
struct Guarded {
    breaker: Breaker,
    retries: Budget,
    /// The operator who holds the breaker.
    by: Option<Sensitive<String>>,
}

/// The right to make one attempt; given back unused if it is dropped.
pub(super) struct Admission<'a> {
    circuits: &'a Circuits,
    circuit: &'a CircuitId,
    permit: Option<Permit>,
}

impl Circuits {
    /// Closed breakers for these; attempts at anything else go through uncounted.
    pub fn new(system: SystemLog, rules: &Rules, circuits: impl IntoIterator<Item = CircuitId>) -> Self {
        let inner = Inner {
            system,
            rules: rules.clone(),
            circuits: RwLock::default(),
            left: Mutex::default(),
            moved: Notify::new(),
        };
        let made = Self { inner: Arc::new(inner) };
        made.declare(circuits);
        made
    }

    /// Adds breakers that are asked for later: closed, or as an earlier process left them. Those
    /// that there are stay as they are.
    pub fn declare(&self, circuits: impl IntoIterator<Item = CircuitId>) {
        let now = self.inner.system.now();
        for circuit in circuits {
            let mut known = self.inner.circuits.write().unwrap_or_else(PoisonError::into_inner);
            if known.contains_key(&circuit) {
                continue;
            }
            let guarded =
                Guarded { breaker: Breaker::new(self.inner.rules.clone()), retries: Budget::new(now), by: None };
            known.insert(circuit.clone(), Arc::new(Mutex::new(guarded)));
            drop(known);
            let left = self.inner.left.lock().unwrap_or_else(PoisonError::into_inner).remove(&circuit);
            if let Some(change) = left {
                self.take_over(&change);
            }
        }
    }

    /// Takes over how earlier processes left the breakers: the last change of each counts.
    pub fn restore(&self, earlier: &[Entry]) {
        let mut last = BTreeMap::new();
        for entry in earlier {
            if let Fact::CircuitChanged(change) = &entry.fact {
                last.insert(change.circuit.clone(), (**change).clone());
            }
        }
        for (circuit, change) in last {
            if self.find(&circuit).is_some() {
                self.take_over(&change);
            } else {
                self.inner.left.lock().unwrap_or_else(PoisonError::into_inner).insert(circuit, change);
            }
        }
    }

    fn take_over(&self, change: &CircuitChange) {
        let left =
            Move { from: change.from, to: change.to, cause: change.cause, forced: change.forced, until: change.until };
        self.change(&change.circuit, |guarded, now| {
            guarded.by.clone_from(&change.by);
            guarded.breaker.restore(left, now);
        });
    }

    /// Does what an operator asks for; nothing if there is no such breaker.
    pub fn switch(&self, circuit: &CircuitId, act: Act, by: Sensitive<String>) -> Option<Standing> {
        self.change(circuit, |guarded, now| {
            let until = |hold: Option<Duration>| hold.map(|hold| now.plus(hold));
            guarded.by = Some(by);
            guarded.breaker.switch(
                match act {
                    Act::ForceOpen(hold) => Switch::ForceOpen(until(hold)),
                    Act::ForceClosed(hold) => Switch::ForceClosed(until(hold)),
                    Act::Reset => Switch::Reset,
                },
                now,
            );
        })?;
        self.standing(circuit)
    }

    /// How all of them stand, by kind and name.
    pub fn standings(&self) -> Vec<Standing> {
        self.names().iter().filter_map(|circuit| self.standing(circuit)).collect()
    }

    /// How one stands now; nothing if there is no such breaker.
    pub fn standing(&self, circuit: &CircuitId) -> Option<Standing> {
        self.change(circuit, |guarded, now| {
            guarded.breaker.advance(now);
            let (failures, counted) = guarded.breaker.counts();
            Standing {
                circuit: circuit.clone(),
                state: guarded.breaker.state(),
                forced: guarded.breaker.forced(),
                by: guarded.by.clone(),
                until: guarded.breaker.until(),
                failures,
                counted,
            }
        })
    }

    /// Whether it lets nothing through now, not even a probe.
    pub fn is_open(&self, circuit: &CircuitId) -> bool {
        let state = self.change(circuit, |guarded, now| {
            guarded.breaker.advance(now);
            guarded.breaker.state()
        });
        state == Some(CircuitState::Open)
    }

    /// Moves the breakers on as time asks for, with or without traffic. Never ends.
    pub async fn keep_time(&self) {
        loop {
            let now = self.inner.system.now();
            let sleep = self.next_move().map(|at| at.since(now).min(LONGEST_SLEEP));
            tokio::select! {
                () = self.inner.moved.notified() => {}
                () = tokio::time::sleep(sleep.unwrap_or_default()), if sleep.is_some() => self.advance(),
            }
        }
    }

    fn next_move(&self) -> Option<Timestamp> {
        let known = self.inner.circuits.read().unwrap_or_else(PoisonError::into_inner);
        known.values().filter_map(|circuit| lock(circuit).breaker.next_move()).min()
    }

    fn advance(&self) {
        for circuit in self.names() {
            self.change(&circuit, |guarded, now| guarded.breaker.advance(now));
        }
    }

    fn names(&self) -> Vec<CircuitId> {
        self.inner.circuits.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    fn find(&self, circuit: &CircuitId) -> Option<Arc<Mutex<Guarded>>> {
        self.inner.circuits.read().unwrap_or_else(PoisonError::into_inner).get(circuit).cloned()
    }

    /// Asks for one attempt that takes `hold` at the longest.
    pub(super) fn admit<'a>(&'a self, circuit: &'a CircuitId, hold: Duration) -> Result<Admission<'a>, Refusal> {
        let permit = self.change(circuit, |guarded, now| guarded.breaker.admit(now, hold)).transpose()?;
        Ok(Admission { circuits: self, circuit, permit })
    }

    /// A call begins, which earns a part of a retry.
    pub(super) fn earn_retry(&self, circuit: &CircuitId) {
        if let Some(circuit) = self.find(circuit) {
            lock(&circuit).retries.earn();
        }
    }

    /// Spends a retry, if there is one left.
    pub(super) fn spend_retry(&self, circuit: &CircuitId) -> bool {
        let now = self.inner.system.now();
        self.find(circuit).is_none_or(|circuit| lock(&circuit).retries.spend(now))
    }

    /// Changes one breaker and records its moves, all under its lock.
    fn change<R>(&self, circuit: &CircuitId, change: impl FnOnce(&mut Guarded, Timestamp) -> R) -> Option<R> {
        let circuit_lock = self.find(circuit)?;
        let mut guarded = lock(&circuit_lock);
        let before = guarded.breaker.next_move();
        let result = change(&mut guarded, self.inner.system.now());
        for step in guarded.breaker.take_moves() {
            self.inner.system.record(fact(circuit, step, guarded.by.as_ref()));
        }
        if !guarded.breaker.forced() {
            guarded.by = None;
        }
        if guarded.breaker.next_move() != before {
            self.inner.moved.notify_one();
        }
        Some(result)
    }
}

impl Admission<'_> {
    /// Hands in what the attempt says of the other side.
    pub(super) fn settle(mut self, health: Health) {
        self.give_back(health);
    }

    fn give_back(&mut self, health: Health) {
        if let Some(permit) = self.permit.take() {
            self.circuits.change(self.circuit, |guarded, now| guarded.breaker.settle(permit, health, now));
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.give_back(Health::Ignored);
    }
}

/// A panic under this lock leaves a breaker that is still whole: every change is one assignment
/// of its phase.
fn lock(circuit: &Mutex<Guarded>) -> MutexGuard<'_, Guarded> {
    circuit.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fact(circuit: &CircuitId, step: Move, by: Option<&Sensitive<String>>) -> Fact {
    let by = match step.cause {
        CircuitCause::ForcedOpen | CircuitCause::ForcedClosed | CircuitCause::Reset => by.cloned(),
        CircuitCause::Restored => by.filter(|_| step.forced).cloned(),
        CircuitCause::Failures
        | CircuitCause::TimePassed
        | CircuitCause::ProbeFailed
        | CircuitCause::ProbeSucceeded => None,
    };
    Fact::CircuitChanged(Box::new(CircuitChange {
        circuit: circuit.clone(),
        from: step.from,
        to: step.to,
        cause: step.cause,
        forced: step.forced,
        until: step.until,
        by,
    }))
}

#[expect(clippy::ref_option, reason = "serde asks for this form")]
fn as_rfc_3339<S: serde::Serializer>(until: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    until.map(|until| until.to_string()).serialize(serializer)
}
