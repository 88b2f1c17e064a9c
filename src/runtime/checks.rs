//! Whether models take the tool definitions that their agents offer: tried on request, recorded
//! under the hash of the definitions, and asked for at every start.
//!
//! A check runs no tool and belongs to no session: breakers and metrics of calls do not see it.
//! Scripted models are tried like all others, so that there is one way and no exception.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;

use super::{Runtime, lineup::Agents, random};
use crate::{
    core::{
        BlobHash, Entry, Fact, Fault, Message, Model, ModelRequest, SpanId, Store, TraceId,
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

/// How the last check of each model with each set of definitions ended.
#[derive(Default)]
pub(super) struct Checked {
    last: Mutex<HashMap<(String, String, BlobHash), bool>>,
    /// Whether the diagnostics are told of fallbacks that have none.
    reports: AtomicBool,
    /// What they were told last.
    told: Mutex<Vec<Untested>>,
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
                self.inner.checked.learn(&model, tools_hash, result.is_ok());
                checks.push(ModelCheck { agent: agent.name.clone(), model, fallback, tools_hash, result });
            }
        }
        self.inner.system.flush().await?;
        self.show_untested();
        Ok(checks)
    }

    /// Fallbacks that were not found to take their agents' definitions of now. An agent whose
    /// MCP servers were not asked for their tools yet has none to speak of, and is left out.
    pub fn untested_fallbacks(&self) -> Vec<Untested> {
        let current = self.inner.agents.current();
        let settled = current.values().filter(|agent| self.is_settled(&agent.name));
        settled.filter_map(|agent| self.inner.checked.untested(agent)).collect()
    }

    /// Says so in the diagnostics, a line each, now and whenever a server's tools change it.
    pub fn report_untested(&self) {
        self.inner.checked.reports.store(true, Ordering::Relaxed);
        self.show_untested();
    }

    /// Brings the metric, and the diagnostics where they are wanted, to what is true now.
    pub(super) fn show_untested(&self) {
        let (checked, untested) = (&self.inner.checked, self.untested_fallbacks());
        for fallback in self.inner.agents.current().values().filter_map(|agent| agent.fallback.as_ref()) {
            let model = &fallback.model.info().name;
            let is_untested = untested.iter().any(|untested| untested.model == *model);
            self.inner.signals.metrics().fallback_untested(model, is_untested);
        }
        if !checked.reports.load(Ordering::Relaxed) {
            return;
        }
        let mut told = checked.told.lock().unwrap_or_else(PoisonError::into_inner);
        for Untested { agent, model } in untested.iter().filter(|untested| !told.contains(untested)) {
            tracing::warn!(
                target: "glassbox",
                agent,
                model,
                "the fallback was not tried with the current tool definitions: `glassbox check models` does it"
            );
        }
        *told = untested;
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
        let body = Bytes::from(model.encode(&request));
        let input =
            ModelInput { model: &**model, request: &request, body: &body, timeout, probe: true, is_private: true };
        let entropy = &*self.inner.entropy;
        let trace_id = TraceId::from_bytes(random(entropy));
        let trace = TraceContext { trace_id, span_id: SpanId::from_bytes(random(entropy)), sampled: false };
        ask_once(input, trace).await.map(|reply| reply.model)
    }
}

impl Checked {
    /// What the store knows; where no agent has a fallback, nobody asks.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub(super) fn read(agents: &Agents, store: &dyn Store) -> Result<Self, StoreError> {
        let wanted = agents.current().values().any(|agent| agent.fallback.is_some());
        let checked = Self::default();
        if wanted {
            checked.take_in(store.system_facts(MODEL_CHECKED)?);
        }
        Ok(checked)
    }

    /// Learns what was tried before, oldest first.
    pub(super) fn take_in(&self, earlier: Vec<Entry>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in earlier {
            if let Fact::ModelChecked { model, request_model, tools_hash, ok } = entry.fact {
                last.insert((model, request_model, tools_hash), ok);
            }
        }
    }

    fn learn(&self, model: &ModelInfo, tools_hash: BlobHash, ok: bool) {
        let key = (model.name.clone(), model.request_model.clone(), tools_hash);
        self.last.lock().unwrap_or_else(PoisonError::into_inner).insert(key, ok);
    }

    /// The fallback of an agent, if its last check with the definitions of now is missing or
    /// failed.
    fn untested(&self, agent: &Agent) -> Option<Untested> {
        let model = agent.fallback.as_ref()?.model.info();
        let key = (model.name.clone(), model.request_model.clone(), agent.definitions_hash());
        let passed = self.last.lock().unwrap_or_else(PoisonError::into_inner).get(&key) == Some(&true);
        (!passed).then(|| Untested { agent: agent.name.clone(), model: model.name.clone() })
    }
}
