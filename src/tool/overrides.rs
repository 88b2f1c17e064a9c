//! What configuration says of a tool that exists already.

use std::{collections::BTreeMap, time::Duration};

use crate::core::{
    Effect, ToolSpec,
    spec::{ArgumentRule, CacheRule, Confirm},
};

/// Parts of a spec that are set from outside; what is not set stays as the tool declares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The name that the model calls.
    pub name: Option<String>,
    /// The text for the model.
    pub description: Option<String>,
    /// Time of one attempt.
    pub timeout: Option<Duration>,
    /// Scopes that the principal must hold.
    pub scopes: Option<Vec<String>>,
    /// Roles of which the principal must hold one.
    pub roles: Option<Vec<String>>,
    /// What a call changes.
    pub effect: Option<Effect>,
    /// Whether a person must agree.
    pub confirm: Option<Confirm>,
    /// Where there is one, a person must agree only to calls whose arguments meet it.
    pub confirm_when: Option<ArgumentRule>,
    /// Arguments that come from the login, besides those that the tool binds itself.
    pub bind: BTreeMap<String, String>,
    /// How long a person may take to agree.
    pub confirm_expires: Option<Duration>,
    /// The circuit breaker that it shares with others.
    pub circuit: Option<String>,
    /// Attempts that run at once, by all sessions together.
    pub max_concurrent: Option<u32>,
    /// The tool that the model is told of where this one's circuit is open.
    pub fallback_tool: Option<String>,
    /// How results are kept.
    pub cache: Option<CacheRule>,
}

impl Overrides {
    /// The spec with what is set here.
    #[must_use]
    pub fn apply(self, mut spec: ToolSpec) -> ToolSpec {
        spec.definition.name = self.name.unwrap_or(spec.definition.name);
        spec.definition.description = self.description.unwrap_or(spec.definition.description);
        spec.timeout = self.timeout.unwrap_or(spec.timeout);
        spec.scopes = self.scopes.unwrap_or(spec.scopes);
        spec.roles = self.roles.unwrap_or(spec.roles);
        spec.effect = self.effect.unwrap_or(spec.effect);
        spec.confirm_expires = self.confirm_expires.unwrap_or(spec.confirm_expires);
        spec.circuit = self.circuit.or(spec.circuit);
        spec.max_concurrent = self.max_concurrent.or(spec.max_concurrent);
        spec.fallback_tool = self.fallback_tool.or(spec.fallback_tool);
        spec.cache = self.cache.or(spec.cache);
        spec.confirm_when = self.confirm_when.or(spec.confirm_when);
        spec.bind.extend(self.bind);
        spec.confirm = self.confirm.unwrap_or(spec.confirm);
        spec
    }
}
