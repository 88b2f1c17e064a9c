//! The series of models that have a fallback, and of those that are one.
//!
//! A primary is shown as given up while it is down or its circuit is not closed: both are facts
//! of the system journal, so the gauge is true with no traffic. It must never count by itself.

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Registry};

use super::{
    catalogue as c,
    make::{counters, gauges},
};
use crate::{
    core::{
        circuit::{CircuitChange, CircuitKind, CircuitState},
        fact::FallbackCause,
    },
    signal::UNKNOWN,
};

/// All of them.
pub(super) struct Fallbacks {
    calls: IntCounterVec,
    active: IntGaugeVec,
    primaries: RwLock<HashMap<String, Standing>>,
    untested: IntGaugeVec,
}

/// How one primary stands.
struct Standing {
    active: IntGauge,
    down: AtomicBool,
    circuit_closed: AtomicBool,
}

impl Fallbacks {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            calls: counters(registry, &c::FALLBACKS)?,
            active: gauges(registry, &c::FALLBACK_ACTIVE)?,
            primaries: RwLock::default(),
            untested: gauges(registry, &c::FALLBACK_UNTESTED)?,
        })
    }

    /// Gives birth at zero to the series of these pairs of a primary and its fallback.
    pub(super) fn declare(&self, pairs: &[(String, String)]) {
        let mut primaries = self.primaries.write().unwrap_or_else(PoisonError::into_inner);
        for (primary, fallback) in pairs {
            for cause in FallbackCause::all() {
                self.calls.with_label_values(&[primary, cause.label()]);
            }
            self.untested.with_label_values(&[fallback]);
            primaries.entry(primary.clone()).or_insert_with(|| Standing {
                active: self.active.with_label_values(&[primary]),
                down: AtomicBool::new(false),
                circuit_closed: AtomicBool::new(true),
            });
        }
    }

    /// A call went to the fallback; a primary that is no longer configured becomes `unknown`.
    pub(super) fn count(&self, primary: &str, cause: FallbackCause) {
        let model = if self.known().contains_key(primary) { primary } else { UNKNOWN };
        self.calls.with_label_values(&[model, cause.label()]).inc();
    }

    /// A primary was given up or taken back.
    pub(super) fn primary(&self, model: &str, down: bool) {
        if let Some(standing) = self.known().get(model) {
            standing.down.store(down, Ordering::Relaxed);
            standing.show();
        }
    }

    /// A circuit moved; only that of a primary matters here.
    pub(super) fn circuit(&self, change: &CircuitChange) {
        let primary = Some(&change.circuit).filter(|circuit| circuit.kind == CircuitKind::Model);
        let known = self.known();
        if let Some(standing) = primary.and_then(|circuit| known.get(&circuit.name)) {
            standing.circuit_closed.store(change.to == CircuitState::Closed, Ordering::Relaxed);
            standing.show();
        }
    }

    /// Whether a fallback was not tried with the definitions of now.
    pub(super) fn untested(&self, model: &str, is_untested: bool) {
        self.untested.with_label_values(&[model]).set(i64::from(is_untested));
    }

    fn known(&self) -> RwLockReadGuard<'_, HashMap<String, Standing>> {
        self.primaries.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    fn show(&self) {
        let active = self.down.load(Ordering::Relaxed) || !self.circuit_closed.load(Ordering::Relaxed);
        self.active.set(i64::from(active));
    }
}
