//! Which tools there are and which an agent has, also where a server lists them only later.
//!
//! A session keeps the agent that it began with; those that begin later have what is there then.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use super::mcp::Servers;
use crate::tool::{self, Registration, Registry, ToolSet, mcp::Listing};

/// What agents ask for, and the tools that are always there.
pub(super) struct Toolsets {
    /// Configured and the program's own.
    fixed: Vec<Registration>,
    /// Of each agent, the names that it asks for.
    wanted: BTreeMap<String, Vec<String>>,
    /// The listings that were last taken over.
    seen: Mutex<Option<Vec<u64>>>,
}

/// The tools of all agents at one time.
pub(super) struct Offered<'a> {
    sets: &'a Toolsets,
    registry: Registry,
    prefixes: Vec<String>,
}

impl Toolsets {
    pub(super) fn new(fixed: Vec<Registration>, wanted: BTreeMap<String, Vec<String>>) -> Self {
        Self { fixed, wanted, seen: Mutex::default() }
    }

    /// Whether an agent asks for tools whose names begin so.
    pub(super) fn uses(&self, agent: &str, prefix: &str) -> bool {
        self.wanted.get(agent).is_some_and(|names| names.iter().any(|name| name.starts_with(prefix)))
    }

    /// What is there now.
    ///
    /// # Errors
    /// Names and schemas that cannot be registered.
    pub(super) fn now(&self, servers: &Servers) -> Result<Offered<'_>, tool::Error> {
        self.offered(servers, &listings(servers))
    }

    /// Hands on what is there now, where that is not what was handed on before; others who ask
    /// wait until it was taken.
    pub(super) fn if_changed<R>(
        &self,
        servers: &Servers,
        take: impl FnOnce(Offered<'_>) -> Result<R, tool::Error>,
    ) -> Result<Option<R>, tool::Error> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let listings = listings(servers);
        let versions = listings.iter().map(|listing| listing.version).collect();
        if seen.as_ref() == Some(&versions) {
            return Ok(None);
        }
        *seen = Some(versions);
        take(self.offered(servers, &listings)?).map(Some)
    }

    fn offered(&self, servers: &Servers, listings: &[Listing]) -> Result<Offered<'_>, tool::Error> {
        let registry = Registry::new(self.all(listings))?;
        let prefixes = servers.iter().map(|server| server.settings().prefix.clone()).collect();
        Ok(Offered { sets: self, registry, prefixes })
    }

    /// All tools; of two that have one name, a server's is left out.
    fn all(&self, listings: &[Listing]) -> Vec<Registration> {
        let name = |it: &Registration| it.tool.spec().name().to_owned();
        let mut all = self.fixed.clone();
        for listed in listings.iter().flat_map(|listing| listing.tools.iter()) {
            if all.iter().any(|known| name(known) == name(listed)) {
                tracing::warn!(target: "glassbox", tool = name(listed), "a tool of this name is there already");
            } else {
                all.push(listed.clone());
            }
        }
        all
    }
}

impl Offered<'_> {
    /// The tools of an agent.
    ///
    /// # Errors
    /// Names that no server can know.
    pub(super) fn of(&self, agent: &str) -> Result<ToolSet, tool::Error> {
        let wanted = self.sets.wanted.get(agent).map(Vec::as_slice).unwrap_or_default();
        self.registry.subset(wanted.iter().flat_map(|name| self.names(agent, name)))
    }

    /// All tools that are there.
    pub(super) const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What agents ask for and no server offers, one phrase each.
    pub(super) fn missing(&self) -> Vec<String> {
        let asked = self.sets.wanted.iter().flat_map(|(agent, names)| names.iter().map(move |name| (agent, name)));
        let missing = asked.filter(|(_, name)| match name.strip_suffix('*') {
            Some(prefix) => !self.registry.names().any(|known| known.starts_with(prefix)),
            None => self.registry.spec(name).is_none(),
        });
        missing.map(|(agent, name)| format!("agents.{agent}.tools: no MCP server offers {name} now")).collect()
    }

    /// The tools that a name stands for: itself, all of a server, or none that is there now.
    fn names(&self, agent: &str, name: &str) -> Vec<String> {
        if let Some(prefix) = name.strip_suffix('*') {
            return self.registry.names().filter(|known| known.starts_with(prefix)).map(str::to_owned).collect();
        }
        let remote = self.prefixes.iter().any(|prefix| name.starts_with(prefix));
        if remote && self.registry.spec(name).is_none() {
            tracing::warn!(target: "glassbox", agent, tool = name, "no MCP server offers this tool now");
            return Vec::new();
        }
        vec![name.to_owned()]
    }
}

fn listings(servers: &Servers) -> Vec<Listing> {
    servers.iter().map(|server| server.listing().borrow().clone()).collect()
}
