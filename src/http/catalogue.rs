//! `/v1/agents` and `/v1/tools`: what the caller may ask for.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{Api, auth::Caller};
use crate::{
    core::{
        ToolSpec,
        fact::Language,
        spec::{Confirm, Effect, ToolDefinition},
    },
    session::Agent,
};

/// The declared agents, by name.
#[derive(Serialize, ToSchema)]
pub(super) struct Agents {
    agents: Vec<AgentEntry>,
}

/// An agent.
#[derive(Serialize, ToSchema)]
#[schema(as = Agent)]
struct AgentEntry {
    /// The name to ask for it by.
    #[schema(example = "bank")]
    name: String,
    /// The language of what a customer reads.
    #[schema(example = "ru")]
    #[schema(value_type = String)]
    language: Language,
    /// The configured model that it asks.
    model: String,
    /// The model that stands in for that one.
    fallback: Option<String>,
    /// The kinds of task that it can be given.
    task_types: Vec<String>,
    /// The kind of a task that names none.
    default_task_type: String,
    /// Those of its tools that the caller may use.
    tools: Vec<String>,
}

/// The tools that the caller may use, by name.
#[derive(Serialize, ToSchema)]
pub(super) struct Tools {
    tools: Vec<ToolEntry>,
}

/// A tool.
#[derive(Serialize, ToSchema)]
#[schema(as = Tool)]
struct ToolEntry {
    /// The name that models call.
    #[schema(example = "txn_sum")]
    name: String,
    /// What models are told of it.
    description: String,
    /// What is behind it: `builtin`, `http`, `sql`, `command`, `mcp`, or `own`, a part of the
    /// program that glassbox is built into.
    #[schema(example = "builtin")]
    kind: &'static str,
    /// What a call changes.
    effect: Effect,
    /// When a person must agree to a call.
    confirm: Confirm,
    /// What a principal must hold to use it.
    scopes: Vec<String>,
    /// Of these, a principal must hold one; none is no condition.
    roles: Vec<String>,
    /// The agents that have it.
    agents: Vec<String>,
    /// JSON Schema of the arguments, as models are shown it.
    #[schema(value_type = Object)]
    input_schema: Value,
}

/// The agents
///
/// Each with those of its tools that the caller may use.
#[utoipa::path(
    get, path = "/v1/agents", tag = "catalogue", operation_id = "list_agents",
    responses((status = 200, description = "All of them", body = Agents))
)]
pub(super) async fn agents(State(api): State<Api>, caller: Caller) -> Json<Agents> {
    let principal = caller.principal();
    let entry = |agent: &Agent| AgentEntry {
        name: agent.name.clone(),
        language: agent.language,
        model: agent.model.info().name.clone(),
        fallback: agent.fallback.as_ref().map(|fallback| fallback.model.info().name.clone()),
        task_types: agent.task_types.clone(),
        default_task_type: agent.default_task_type.clone(),
        tools: agent.tools.specs(principal).map(|spec| spec.name().to_owned()).collect(),
    };
    Json(Agents { agents: api.runtime.agents().values().map(|agent| entry(agent)).collect() })
}

/// The tools that the caller may use
///
/// Those of all agents; any other is not shown, to the model neither.
#[utoipa::path(
    get, path = "/v1/tools", tag = "catalogue", operation_id = "list_tools",
    responses((status = 200, description = "All of them", body = Tools))
)]
pub(super) async fn tools(State(api): State<Api>, caller: Caller) -> Json<Tools> {
    let (agents, principal) = (api.runtime.agents(), caller.principal());
    let mut tools = BTreeMap::<String, ToolEntry>::new();
    for agent in agents.values() {
        for (spec, definition) in agent.tools.specs(principal).zip(agent.tools.definitions(principal).iter()) {
            let kind = api.runtime.tool_kind(spec.name());
            let entry = tools.entry(spec.name().to_owned()).or_insert_with(|| ToolEntry::new(kind, spec, definition));
            entry.agents.push(agent.name.clone());
        }
    }
    Json(Tools { tools: tools.into_values().collect() })
}

impl ToolEntry {
    fn new(kind: &'static str, spec: &ToolSpec, definition: &ToolDefinition) -> Self {
        Self {
            name: definition.name.clone(),
            description: definition.description.clone(),
            kind,
            effect: spec.effect,
            confirm: spec.confirm,
            scopes: spec.scopes.clone(),
            roles: spec.roles.clone(),
            agents: Vec::new(),
            input_schema: definition.input_schema.clone(),
        }
    }
}
