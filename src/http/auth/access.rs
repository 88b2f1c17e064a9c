//! Who callers are and what they may, as requests that come now are asked: it changes when the
//! configuration is read again.

use std::{
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
}

impl Access {
    /// The access that a configuration asks for; the clock says which tokens have expired.
    pub fn of(auth: &config::Auth, clock: Arc<dyn Clock>) -> Self {
        let reading = Reading { number: 0, gate: Gate::of(auth, clock.clone()), approvers: auth.approvers };
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
        *current = Reading { number, gate: Gate::of(auth, self.clock.clone()), approvers: auth.approvers };
    }

    /// Who decides on calls that wait for a person.
    pub(in crate::http) fn approvers(&self) -> Approvers {
        self.read(|reading| reading.approvers)
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
