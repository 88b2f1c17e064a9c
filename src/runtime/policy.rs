//! Builds what stands around every call from the configuration, and keeps the circuit breakers
//! in time with the clock and with what earlier processes left.

use std::{collections::BTreeSet, sync::Arc};

use super::{Own, Runtime, Setup, spawn};
use crate::{
    config::Config,
    core::{
        Sensitive, Store,
        circuit::{CircuitId, CircuitKind},
        fact,
        port::{LiveText, StoreError},
    },
    journal::SystemLog,
    policy::{Act, Cache, Circuits, Limits, Policy, Primaries, Slots, Standing, ToolRate},
};

/// The circuit breakers that are asked for: one a tool or group of tools, one a model.
pub(super) fn circuits(config: &Config, own: &Own) -> BTreeSet<CircuitId> {
    let configured = config.tools.iter().map(|(name, tool)| match &tool.circuit {
        Some(group) => CircuitId::group(group),
        None => CircuitId::tool(name),
    });
    let own = own.tools.iter().map(|own| own.registration.tool.spec().circuit_id());
    let servers = config.mcp_servers.keys().map(|name| CircuitId::group(format!("mcp:{name}")));
    configured.chain(own).chain(servers).chain(config.models.keys().map(CircuitId::model)).collect()
}

/// The models that have a fallback, each with it, agent by agent.
pub(super) fn fallbacks(config: &Config) -> impl Iterator<Item = (String, String)> {
    config.agents.values().filter_map(|agent| Some((agent.model.clone(), agent.fallback.clone()?)))
}

pub(super) fn build(config: &Config, setup: &Setup, system: &SystemLog, readers: Arc<dyn LiveText>) -> Policy {
    let breaker = config.circuit_breaker.rules();
    let primaries = fallbacks(config).map(|(primary, _)| primary);
    Policy {
        circuits: Circuits::new(system.clone(), &breaker, circuits(config, &setup.own)),
        // A model that is down is tried as often as one whose circuit is open.
        primaries: Primaries::new(system.clone(), breaker.half_open_after, primaries),
        limits: Limits::new(rates(config), &setup.clock),
        slots: Slots::default(),
        cache: Cache::default(),
        llm_retry: config.llm_retry_policy.rules().for_models(),
        tool_retry: config.tool_retry_policy.rules(),
        entropy: setup.entropy.clone(),
        readers,
    }
}

/// What stands around calls of sessions that begin from now on: all that was counted and learnt
/// so far, under the rules of another configuration. Kept results are forgotten, for the tools
/// that gave them may ask elsewhere now.
pub(super) fn rebuild(before: &Policy, config: &Config, setup: &Setup) -> Policy {
    Policy {
        limits: before.limits.with(rates(config), &setup.clock),
        cache: Cache::default(),
        llm_retry: config.llm_retry_policy.rules().for_models(),
        tool_retry: config.tool_retry_policy.rules(),
        ..before.clone()
    }
}

/// Begins the breakers and records that a configuration asks for and that are not there yet.
pub(super) fn declare(policy: &Policy, config: &Config, setup: &Setup) {
    policy.circuits.declare(circuits(config, &setup.own));
    policy.primaries.declare(fallbacks(config).map(|(primary, _)| primary));
}

fn rates(config: &Config) -> impl Iterator<Item = (String, ToolRate)> {
    config.rate_limits.tools.iter().map(|(tool, rate)| (tool.clone(), rate.rates()))
}

/// Takes over how earlier processes left the breakers.
pub(super) fn restore(circuits: &Circuits, store: &dyn Store) -> Result<(), StoreError> {
    circuits.restore(&store.system_facts(fact::CIRCUIT_CHANGED)?);
    Ok(())
}

impl Runtime {
    /// The circuit breakers, to be seen.
    pub fn circuits(&self) -> &Circuits {
        &self.inner.circuits
    }

    /// Does what an operator asks for; nothing if there is no such breaker. An operator who lets
    /// calls of a model through again says that it is up: no call goes past it to its fallback
    /// because of what it did before.
    pub fn switch_circuit(&self, circuit: &CircuitId, act: Act, by: Sensitive<String>) -> Option<Standing> {
        let standing = self.inner.circuits.switch(circuit, act, by)?;
        if circuit.kind == CircuitKind::Model && matches!(act, Act::ForceClosed(_) | Act::Reset) {
            self.inner.primaries.trust(&circuit.name);
        }
        Some(standing)
    }

    /// Waits until what was recorded outside sessions is durable.
    ///
    /// # Errors
    /// Where it cannot be made durable.
    pub async fn system_flushed(&self) -> Result<(), StoreError> {
        self.inner.system.flush().await
    }

    /// Moves breakers and primary models on with time for as long as the process lives.
    pub(super) fn keep_circuits(&self) {
        let (circuits, stopped) = (self.inner.circuits.clone(), self.inner.stopped.clone());
        let primaries = self.inner.primaries.clone();
        spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = circuits.keep_time() => {}
                () = primaries.keep_time() => {}
            }
        });
    }
}
