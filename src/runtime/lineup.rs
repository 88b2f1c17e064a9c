//! The agents as sessions that begin now have them, and how they change while the process lives:
//! a server lists other tools, or the configuration is read again.
//!
//! A session keeps the agent that it began with. It must never build a part.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use super::{Refused, mcp::Servers, tools::Kinds, toolsets::Toolsets};
use crate::{core::circuit::CircuitId, session::Agent, tool};

/// All agents with their tools, at one time.
#[derive(Clone)]
pub(super) struct Lineup {
    pub(super) agents: Arc<BTreeMap<String, Arc<Agent>>>,
    /// The only agent, where there is only one.
    pub(super) default: Option<String>,
    pub(super) toolsets: Arc<Toolsets>,
    pub(super) kinds: Arc<Kinds>,
}

/// The agents by name.
pub(super) struct Agents {
    current: RwLock<Lineup>,
    /// Held by whoever changes them, so that no change undoes another.
    turn: Mutex<()>,
}

impl Agents {
    pub(super) fn new(lineup: Lineup) -> Self {
        Self { current: RwLock::new(lineup), turn: Mutex::default() }
    }

    /// The agents as sessions that begin now have them.
    pub(super) fn current(&self) -> Arc<BTreeMap<String, Arc<Agent>>> {
        self.lineup().agents
    }

    /// Which tools there are and which an agent has.
    pub(super) fn toolsets(&self) -> Arc<Toolsets> {
        self.lineup().toolsets
    }

    /// What is behind the tools.
    pub(super) fn kinds(&self) -> Arc<Kinds> {
        self.lineup().kinds
    }

    /// Whether an agent asks for tools whose names begin so.
    pub(super) fn uses(&self, agent: &str, prefix: &str) -> bool {
        self.lineup().toolsets.uses(agent, prefix)
    }

    /// The name of the agent that is meant: this one, or the only one where none is named.
    pub(super) fn meant(&self, name: Option<&str>) -> Option<String> {
        name.map(str::to_owned).or_else(|| self.lineup().default)
    }

    /// Puts others in their place.
    pub(super) fn replace(&self, lineup: Lineup) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = lineup;
    }

    /// Gives the agents the tools that the servers list now; `declare` is told their names and
    /// breakers before anybody can call them.
    pub(super) fn refresh(&self, servers: &Servers, declare: impl FnOnce(Vec<String>, Vec<CircuitId>)) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let lineup = self.lineup();
        let refreshed = lineup.toolsets.if_changed(servers, |offered| {
            let with = |(name, agent): (&String, &Arc<Agent>)| {
                Ok((name.clone(), Arc::new(Agent { tools: offered.of(name)?, ..Agent::clone(agent) })))
            };
            let agents: BTreeMap<_, _> = lineup.agents.iter().map(with).collect::<Result<_, tool::Error>>()?;
            let names: Vec<String> = agents.values().flat_map(|agent| agent.tools.names()).map(str::to_owned).collect();
            let specs = agents.values().flat_map(|agent| agent.tools.names().filter_map(|name| agent.tools.spec(name)));
            declare(names, specs.flat_map(|spec| [Some(spec.circuit_id()), spec.upstream_id()]).flatten().collect());
            self.current.write().unwrap_or_else(PoisonError::into_inner).agents = Arc::new(agents);
            Ok(())
        });
        if let Err(error) = refreshed {
            tracing::warn!(target: "glassbox", %error, "the agents keep the tools that they had");
        }
    }

    /// The agent of this name, or the only one where none is named.
    pub(super) fn find(&self, name: Option<&str>) -> Result<Arc<Agent>, Refused> {
        let current = self.current();
        self.meant(name).and_then(|name| current.get(&name)).cloned().ok_or_else(|| Refused::UnknownAgent {
            given: name.unwrap_or_default().to_owned(),
            declared: current.keys().cloned().collect(),
        })
    }

    /// The declared kind of task, or the agent's default where none is named.
    pub(super) fn task_type(&self, agent: &Agent, wanted: Option<String>) -> Result<String, Refused> {
        match wanted {
            None => Ok(agent.default_task_type.clone()),
            Some(name) if agent.task_types.contains(&name) => Ok(name),
            Some(given) => {
                Err(Refused::UnknownTaskType { agent: agent.name.clone(), given, declared: agent.task_types.clone() })
            }
        }
    }

    fn lineup(&self) -> Lineup {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
