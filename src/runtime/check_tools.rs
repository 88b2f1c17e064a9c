//! Whether every tool could be called: its schema, the way to what is behind it, its breaker, and
//! which agents have it. Nothing is called, and nothing behind a tool is changed.
//!
//! It must never know how a kind of tool is reached; the tools say that themselves.

use std::sync::Arc;

use super::Runtime;
use crate::{
    core::{
        Fault, FaultKind, Tool, ToolSpec,
        circuit::{CircuitId, CircuitState},
    },
    tool::{self, Registry, Schema, Strict},
};

/// What is known of one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCheck {
    /// What it declares, and what configuration makes of it.
    pub spec: ToolSpec,
    /// What sort of tool it is: `builtin`, `http`, `sql`, `command`, `mcp`, `rust`.
    pub kind: &'static str,
    /// Whether its schema let undeclared arguments through and was closed for it.
    pub closed: bool,
    /// JSON Pointers of the objects in its schema that stay open, because they are maps.
    pub maps: Vec<String>,
    /// Its circuit breaker.
    pub circuit: CircuitId,
    /// How that stands; nothing where no agent has the tool.
    pub state: Option<CircuitState>,
    /// The agents that have it.
    pub agents: Vec<String>,
    /// Why it could not be called.
    pub result: Result<(), Fault>,
}

/// All tools, and what is wrong besides.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolsReport {
    /// The tools by name.
    pub tools: Vec<ToolCheck>,
    /// What is wrong with no tool that is there: servers that are down, tools that had to be
    /// left out, names that no server offers. One phrase each.
    pub faults: Vec<String>,
}

impl ToolsReport {
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.faults.is_empty() && self.tools.iter().all(|tool| tool.result.is_ok())
    }
}

impl Runtime {
    /// Looks at every tool that there is, also at those that no agent has. Servers are waited for
    /// as long as their start may take.
    ///
    /// # Errors
    /// Where the tools cannot be registered together.
    pub async fn check_tools(&self) -> Result<ToolsReport, tool::Error> {
        self.all_tools_settled().await;
        let toolsets = self.inner.agents.toolsets();
        let (registry, mut faults) = {
            let offered = toolsets.now(&self.inner.servers)?;
            (offered.registry().clone(), offered.missing())
        };
        for server in self.inner.servers.iter() {
            let name = server.name();
            faults.extend(server.trouble().map(|why| format!("mcp_servers.{name}: {why}")));
            let left_out = server.left_out();
            faults.extend(left_out.iter().map(|(tool, why)| format!("mcp_servers.{name}: {tool} is left out: {why}")));
        }
        let tools = registry.all();
        let checks = tools.names().filter_map(|name| self.check_tool(&registry, name));
        Ok(ToolsReport { tools: futures_util::future::join_all(checks).await, faults })
    }

    /// What a tool declares, whoever has it; nothing where there is none of this name.
    ///
    /// # Errors
    /// Where the tools cannot be registered together.
    pub async fn tool_spec(&self, name: &str) -> Result<Option<ToolSpec>, tool::Error> {
        self.all_tools_settled().await;
        Ok(self.inner.agents.toolsets().now(&self.inner.servers)?.registry().spec(name).cloned())
    }

    fn check_tool<'a>(&'a self, registry: &'a Registry, name: &'a str) -> Option<impl Future<Output = ToolCheck> + 'a> {
        let (tool, schema) = (registry.tool(name)?, registry.schema(name)?);
        Some(async move {
            let spec = tool.spec();
            let agents = self.agents();
            let has = |(agent, parts): (&String, &Arc<crate::session::Agent>)| {
                parts.tools.spec(name).is_some().then(|| agent.clone())
            };
            let agents: Vec<_> = agents.iter().filter_map(has).collect();
            let circuit = spec.circuit_id();
            let state = self.circuits().standing(&circuit).map(|standing| standing.state);
            ToolCheck {
                kind: tool.kind(),
                closed: Schema::compile(&spec.definition.input_schema, Strict::Refuse).is_err(),
                maps: schema.maps().to_vec(),
                state,
                circuit,
                agents,
                result: probe(&**tool).await,
                spec: spec.clone(),
            }
        })
    }

    /// Waits until every server has been asked for its tools once.
    pub(super) async fn all_tools_settled(&self) {
        for server in self.inner.servers.iter() {
            // An error says that the server is gone with the process.
            let _ = server.listing().wait_for(|listing| listing.tried).await;
        }
        self.refresh_tools();
    }
}

async fn probe(tool: &dyn Tool) -> Result<(), Fault> {
    let timeout = tool.spec().timeout;
    let late = |_| Err(Fault::new(FaultKind::Timeout, format!("no answer within {timeout:?}")));
    tokio::time::timeout(timeout, tool.probe()).await.unwrap_or_else(late)
}
