//! What a tool declares of itself.

mod argument_rule;
mod cache_rule;

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{circuit::CircuitId, principal::Principal};

pub use self::{
    argument_rule::{ArgumentRule, ArgumentTest},
    cache_rule::CacheRule,
};

/// What the model is shown of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name that the model calls.
    pub name: String,
    /// For the model, not for the developer.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

/// What a call of a tool changes, which decides about retry, resume and intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something; a repeat with the same idempotency key changes nothing more.
    Idempotent,
    /// Changes something each time: never repeated on its own.
    #[default]
    Unsafe,
}

impl Effect {
    /// The word in configuration, journal and tables.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Unsafe => "unsafe",
        }
    }
}

/// When a person must agree to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confirm {
    /// Runs without asking.
    #[default]
    Never,
    /// Always answered by an observation that tells the model to ask the customer first.
    AskCustomer,
    /// The session waits until a person has said yes or no, or the time for it is over.
    Suspend,
}

impl Confirm {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::Never, Self::AskCustomer, Self::Suspend];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::AskCustomer => "ask_customer",
            Self::Suspend => "suspend",
        }
    }
}

/// A tool as it is registered: its definition and the rules that it runs under.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// What the model is shown.
    pub definition: ToolDefinition,
    /// What a call changes.
    pub effect: Effect,
    /// Whether a person must agree.
    pub confirm: Confirm,
    /// Where there is one, a person must agree only to calls whose arguments meet it.
    pub confirm_when: Option<ArgumentRule>,
    /// Arguments that come from the login: name of the argument, name of the claim. The model
    /// is not shown them and may not send them; the tool gets them among its arguments.
    pub bind: BTreeMap<String, String>,
    /// How long a person may take to agree, and how long that holds.
    pub confirm_expires: Duration,
    /// Time of one attempt.
    pub timeout: Duration,
    /// Scopes that the principal must hold.
    pub scopes: Vec<String>,
    /// Roles of which the principal must hold one; none is no condition.
    pub roles: Vec<String>,
    /// The circuit breaker that it shares with other tools; its own if none is named.
    pub circuit: Option<String>,
    /// One more circuit breaker, of the server that it is reached through: it counts what breaks
    /// on the way there, and nothing that the server answers.
    pub upstream: Option<String>,
    /// Whether the tool's own word that it failed (`tool_error`) counts in its breaker.
    pub tool_error_trips: bool,
    /// Attempts that run at once in this process, by all sessions together; none is no limit.
    pub max_concurrent: Option<u32>,
    /// The tool that the model is told of where this one's circuit is open.
    pub fallback_tool: Option<String>,
    /// Where there is one, results are kept and given again; of tools that only read.
    pub cache: Option<CacheRule>,
}

/// How long a person may take to agree, where a tool says nothing else.
pub const DEFAULT_CONFIRM_EXPIRES: Duration = Duration::from_secs(3600);

/// The timeout of a tool that names none; 10 to 30 seconds are recommended.
pub const DEFAULT_TOOL_TIMEOUT: Duration = Duration::from_secs(15);

impl ToolSpec {
    /// A spec with the cautious defaults: effect `unsafe`, no confirmation, 15 seconds.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self {
            definition: ToolDefinition { name: name.into(), description: description.into(), input_schema },
            effect: Effect::default(),
            confirm: Confirm::default(),
            confirm_when: None,
            bind: BTreeMap::new(),
            confirm_expires: DEFAULT_CONFIRM_EXPIRES,
            timeout: DEFAULT_TOOL_TIMEOUT,
            scopes: Vec::new(),
            roles: Vec::new(),
            circuit: None,
            upstream: None,
            tool_error_trips: false,
            max_concurrent: None,
            fallback_tool: None,
            cache: None,
        }
    }

    /// Declares what a call changes.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Declares whether a person must agree.
    #[must_use]
    pub fn confirm(mut self, confirm: Confirm) -> Self {
        self.confirm = confirm;
        self
    }

    /// Makes a person's yes needed only where the arguments meet the rule.
    #[must_use]
    pub fn confirm_when(mut self, rule: ArgumentRule) -> Self {
        self.confirm_when = Some(rule);
        self
    }

    /// Fills an argument from a claim of the login (`id`, or the name of an attribute), and takes
    /// it away from the model.
    #[must_use]
    pub fn bind(mut self, argument: impl Into<String>, claim: impl Into<String>) -> Self {
        self.bind.insert(argument.into(), claim.into());
        self
    }

    /// Declares how long a person may take to agree.
    #[must_use]
    pub fn confirm_expires(mut self, time: Duration) -> Self {
        self.confirm_expires = time;
        self
    }

    /// Declares the time of one attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Declares the roles of which the principal must hold one.
    #[must_use]
    pub fn roles<S: Into<String>>(mut self, roles: impl IntoIterator<Item = S>) -> Self {
        self.roles = roles.into_iter().map(Into::into).collect();
        self
    }

    /// Declares the scopes that the principal must hold.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Makes it share a circuit breaker with the other tools that name this one.
    #[must_use]
    pub fn circuit(mut self, group: impl Into<String>) -> Self {
        self.circuit = Some(group.into());
        self
    }

    /// Makes it share one more circuit breaker, with all that is reached through the same server.
    #[must_use]
    pub fn upstream(mut self, group: impl Into<String>) -> Self {
        self.upstream = Some(group.into());
        self
    }

    /// Makes the tool's own word that it failed count in its breaker.
    #[must_use]
    pub const fn tool_error_trips(mut self) -> Self {
        self.tool_error_trips = true;
        self
    }

    /// Declares how many attempts may run at once, at least one.
    #[must_use]
    pub const fn max_concurrent(mut self, slots: u32) -> Self {
        self.max_concurrent = Some(slots);
        self
    }

    /// Names the tool that the model is told of where this one's circuit is open.
    #[must_use]
    pub fn fallback_tool(mut self, name: impl Into<String>) -> Self {
        self.fallback_tool = Some(name.into());
        self
    }

    /// Keeps results and gives them again, as the rule says; of a tool that only reads.
    #[must_use]
    pub const fn cache(mut self, rule: CacheRule) -> Self {
        self.cache = Some(rule);
        self
    }

    /// The rule by which results of a call that nobody has to agree to are kept.
    pub fn cache_for(&self, confirm: Confirm) -> Option<CacheRule> {
        let rule = self.cache.filter(|_| self.effect == Effect::Read && confirm == Confirm::Never)?;
        Some(CacheRule { shared: rule.shared && self.bind.is_empty(), ..rule })
    }

    /// Whether a person must agree to a call with these arguments.
    pub fn confirm_for(&self, arguments: &Value) -> Confirm {
        match &self.confirm_when {
            Some(rule) if !rule.is_met(arguments) => Confirm::Never,
            Some(_) | None => self.confirm,
        }
    }

    /// The arguments that come from the login.
    ///
    /// # Errors
    /// The claims that the login does not have.
    pub fn bound(&self, principal: &Principal) -> Result<Map<String, Value>, Vec<&str>> {
        let (mut bound, mut missing) = (Map::new(), Vec::new());
        for (argument, claim) in &self.bind {
            match principal.claim(claim) {
                Some(value) => drop(bound.insert(argument.clone(), Value::from(value))),
                None => missing.push(claim.as_str()),
            }
        }
        if missing.is_empty() { Ok(bound) } else { Err(missing) }
    }

    /// The circuit breaker that its attempts are counted by.
    pub fn circuit_id(&self) -> CircuitId {
        match &self.circuit {
            Some(group) => CircuitId::group(group),
            None => CircuitId::tool(self.name()),
        }
    }

    /// The circuit breaker of the server that it is reached through, if there is one.
    pub fn upstream_id(&self) -> Option<CircuitId> {
        self.upstream.as_ref().map(CircuitId::group)
    }

    /// The name that the model calls.
    pub fn name(&self) -> &str {
        &self.definition.name
    }
}
