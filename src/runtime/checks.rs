//! Whether models take the tool definitions that their agents offer: tried on request, recorded
//! under the hash of the definitions, and asked for at every start.
//!
//! A check runs no tool and belongs to no session: breakers and metrics of calls do not see it.
//! Scripted models are tried like all others, so that there is one way and no exception.

use std::{collections::HashMap, sync::Arc};

use super::{Runtime, agents::Agents, random};
use crate::{
    core::{
        BlobHash, Fact, Fault, Message, Model, ModelRequest, SpanId, Store, TraceId,
        fact::{MODEL_CHECKED, ModelInfo},
        port::{StoreError, TraceContext},
    },
    policy::{ModelInput, ask_once},
    session::Agent,
};

/// What a model is told in a check.
const SYSTEM: &str = "This is a check of the connection and of the tool definitions. Call no tool.";
/// And asked.
const QUESTION: &str = "Answer with the word ok.";
/// Tokens of its answer at the most; fewer are refused by some providers.
const MAX_TOKENS: u64 = 64;

/// What one model made of one agent's tool definitions.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCheck {
    /// The agent.
    pub agent: String,
    /// The model.
    pub model: ModelInfo,
    /// Whether it stands in for the agent's own model.
    pub fallback: bool,
    /// The hash of the definitions.
    pub tools_hash: BlobHash,
    /// The model's own name for itself, or why it did not answer.
    pub result: Result<String, Fault>,
}

/// A fallback that was not found to take its agent's current definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untested {
    /// The agent.
    pub agent: String,
    /// The model.
    pub model: String,
}

impl Runtime {
    /// Tries every model of every agent with all of the agent's tool definitions. What is
    /// returned is durable.
    ///
    /// # Errors
    /// Where the results cannot be recorded.
    pub async fn check_models(&self) -> Result<Vec<ModelCheck>, StoreError> {
        for name in self.inner.agents.current().keys() {
            self.tools_settled(name).await;
        }
        let mut checks = Vec::new();
        for agent in self.inner.agents.current().values() {
            let own = (&agent.model, agent.model_timeout, false);
            let fallback = agent.fallback.as_ref().map(|fallback| (&fallback.model, fallback.timeout, true));
            for (model, timeout, fallback) in [Some(own), fallback].into_iter().flatten() {
                let result = self.try_definitions(agent, model, timeout).await;
                let (model, tools_hash) = (model.info().clone(), agent.definitions_hash());
                self.inner.system.record(Fact::ModelChecked {
                    model: model.name.clone(),
                    request_model: model.request_model.clone(),
                    tools_hash,
                    ok: result.is_ok(),
                });
                checks.push(ModelCheck { agent: agent.name.clone(), model, fallback, tools_hash, result });
            }
        }
        self.inner.system.flush().await?;
        Ok(checks)
    }

    /// Fallbacks that were not found to take their agents' definitions before this start.
    pub fn untested_fallbacks(&self) -> &[Untested] {
        &self.inner.untested
    }

    /// Says so in the diagnostics, a line each.
    pub fn report_untested(&self) {
        for Untested { agent, model } in self.untested_fallbacks() {
            tracing::warn!(
                target: "glassbox",
                agent,
                model,
                "the fallback was not tried with the current tool definitions: `glassbox check models` does it"
            );
        }
    }

    async fn try_definitions(
        &self,
        agent: &Agent,
        model: &Arc<dyn Model>,
        timeout: std::time::Duration,
    ) -> Result<String, Fault> {
        let request = ModelRequest {
            system: SYSTEM.to_owned(),
            messages: vec![Message::User { content: QUESTION.to_owned() }],
            tools: agent.tools.all_definitions(),
            max_tokens: MAX_TOKENS.min(model.info().max_output_tokens),
            output_schema: agent.output_schema.as_deref().cloned(),
            ..ModelRequest::default()
        };
        let body = model.encode(&request);
        let input =
            ModelInput { model: &**model, request: &request, body: &body, timeout, probe: true, is_private: true };
        let entropy = &*self.inner.entropy;
        let trace_id = TraceId::from_bytes(random(entropy));
        let trace = TraceContext { trace_id, span_id: SpanId::from_bytes(random(entropy)), sampled: false };
        ask_once(input, trace).await.map(|reply| reply.model)
    }
}

/// Fallbacks whose last check with the definitions of now is missing or failed.
///
/// # Errors
/// Where the store cannot be read.
pub(super) fn untested(agents: &Agents, store: &dyn Store) -> Result<Vec<Untested>, StoreError> {
    let agents = agents.current();
    let with_fallback: Vec<_> =
        agents.values().filter_map(|agent| Some((&**agent, agent.fallback.as_ref()?))).collect();
    if with_fallback.is_empty() {
        return Ok(Vec::new());
    }
    let checked = last_checks(store)?;
    let is_untested = |agent: &Agent, info: &ModelInfo| {
        let key = (info.name.clone(), info.request_model.clone(), agent.definitions_hash());
        checked.get(&key) != Some(&true)
    };
    let untested = with_fallback.into_iter().filter(|(agent, fallback)| is_untested(agent, fallback.model.info()));
    let named = |(agent, fallback): (&Agent, &crate::session::Fallback)| Untested {
        agent: agent.name.clone(),
        model: fallback.model.info().name.clone(),
    };
    Ok(untested.map(named).collect())
}

/// How the last check of each model with each set of definitions ended.
fn last_checks(store: &dyn Store) -> Result<HashMap<(String, String, BlobHash), bool>, StoreError> {
    let mut last = HashMap::new();
    for entry in store.system_facts(MODEL_CHECKED)? {
        if let Fact::ModelChecked { model, request_model, tools_hash, ok } = entry.fact {
            last.insert((model, request_model, tools_hash), ok);
        }
    }
    Ok(last)
}
