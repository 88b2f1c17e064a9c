//! Who callers are and what they may, as requests that come now are asked: it changes when the
//! configuration is read again.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use super::Gate;
use crate::{
    config::{self, Approvers},
    core::Clock,
};

/// Who callers are and what they may. Clones share it.
#[derive(Clone)]
pub struct Access {
    clock: Arc<dyn Clock>,
    current: Arc<RwLock<Reading>>,
}

/// What one reading of the configuration says.
struct Reading {
    number: u64,
    gate: Gate,
    approvers: Approvers,
    /// Principals whose traces are joined.
    joins: BTreeSet<String>,
}

impl Reading {
    fn of(auth: &config::Auth, number: u64, clock: Arc<dyn Clock>) -> Self {
        let joins = auth.login.iter().flat_map(|login| login.join_traces.iter().cloned()).collect();
        Self { number, gate: Gate::of(auth, clock), approvers: auth.approvers, joins }
    }
}

impl Access {
    /// The access that a configuration asks for; the clock says which tokens have expired.
    pub fn of(auth: &config::Auth, clock: Arc<dyn Clock>) -> Self {
        let reading = Reading::of(auth, 0, clock.clone());
        Self { clock, current: Arc::new(RwLock::new(reading)) }
    }

    /// Asks requests that come from now on by another configuration. Whether there is a login at
    /// all stays as it was: that decides where the service may listen.
    pub fn replace(&self, auth: &config::Auth) {
        if auth.login.is_some() != self.gate().has_login() {
            return;
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let number = current.number + 1;
        *current = Reading::of(auth, number, self.clock.clone());
    }

    /// Who decides on calls that wait for a person.
    pub(in crate::http) fn approvers(&self) -> Approvers {
        self.read(|reading| reading.approvers)
    }

    /// Whether a session that this principal begins is a part of the trace that it comes with.
    pub(in crate::http) fn joins_trace_of(&self, principal: &str) -> bool {
        self.read(|reading| reading.joins.contains(principal))
    }

    /// What requests are asked.
    pub(in crate::http) fn gate(&self) -> Gate {
        self.read(|reading| reading.gate.clone())
    }

    /// The number of the reading: another one when anything may have changed.
    pub(in crate::http) fn reading(&self) -> u64 {
        self.read(|reading| reading.number)
    }

    fn read<T>(&self, read: impl FnOnce(&Reading) -> T) -> T {
        read(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Access")
    }
}
