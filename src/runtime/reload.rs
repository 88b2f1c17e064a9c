//! A configuration that is read again while the process lives: taken over whole or not at all.
//!
//! Sessions that run keep what they began with; those that begin from now on get the new agents,
//! models, tools and limits. It must never read a file: whoever calls it did.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use super::{Error, Runtime, agents, policy, quota::Bounds, signals};
use crate::{
    config::Config,
    core::{Fact, Sensitive, fact::MODEL_CHECKED},
    policy::Policy,
};

/// What a configuration changes besides the agents.
pub(super) struct Rules {
    pub(super) policy: Arc<Policy>,
    pub(super) bounds: Bounds,
    pub(super) retention: Option<Duration>,
}

impl Rules {
    pub(super) fn of(config: &Config, policy: Arc<Policy>) -> Self {
        Self { policy, bounds: Bounds::of(config), retention: config.retention.sessions }
    }
}

impl Runtime {
    /// Takes over another configuration, but for what [`Config::changes_for_a_restart`] names. Where
    /// a part cannot be built nothing changes.
    ///
    /// # Errors
    /// What could not be set up, and where.
    pub async fn reload(&self, config: &Config) -> Result<(), Error> {
        let inner = &*self.inner;
        let before = self.rules(|rules| rules.policy.clone());
        let policy = Arc::new(policy::rebuild(&before, config, &inner.setup));
        let lineup = agents::build(config, &inner.setup, &policy, &inner.servers)?;
        if policy::fallbacks(config).next().is_some() {
            let tried = self.on_store(|store| store.system_facts(MODEL_CHECKED)).await.map_err(Error::Store)?;
            inner.checked.take_in(tried);
        }
        // Breakers and series are there before anybody can need them.
        policy::declare(&policy, config, &inner.setup);
        inner.signals.metrics().declare(&signals::labels(config, &inner.setup.own));
        inner.agents.replace(lineup);
        *inner.rules.write().unwrap_or_else(PoisonError::into_inner) = Rules::of(config, policy);
        self.refresh_tools();
        self.show_untested();
        inner.system.record(Fact::ConfigReloaded { refused: None });
        Ok(())
    }

    /// Records that a configuration was not taken over.
    pub fn refuse_reload(&self, why: impl Into<Sensitive<String>>) {
        self.inner.system.record(Fact::ConfigReloaded { refused: Some(why.into()) });
    }

    /// Reads something of the rules of now.
    pub(super) fn rules<T>(&self, read: impl FnOnce(&Rules) -> T) -> T {
        read(&self.inner.rules.read().unwrap_or_else(PoisonError::into_inner))
    }
}
