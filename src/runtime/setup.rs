//! How a runtime is set up, besides the configuration: its surface, its folder, and what a
//! program brings along of its own.
//!
//! It must never know how a part is built; it only carries what `Runtime::start` is given.

use std::{path::PathBuf, sync::Arc};

use super::{SystemClock, SystemEntropy};
use crate::{
    config,
    core::{Clock, Model, Store, Tool, port::Entropy},
    journal::{Mode, OnFault},
    tool::Registration,
};

/// How a runtime is set up, besides the configuration.
///
/// Begin with [`Setup::run`] or [`Setup::serve`] and change what differs.
#[derive(Clone)]
pub struct Setup {
    /// The surface that it serves, for the system journal: `run`, `serve`.
    pub surface: &'static str,
    /// Where journal, demo bank and hash key are kept.
    pub data_dir: PathBuf,
    /// What a barrier does while the journal cannot write.
    pub on_fault: OnFault,
    /// Where events go if the configuration leaves it open.
    pub events: config::Events,
    /// Where commits happen.
    pub mode: Mode,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of ids.
    pub entropy: Arc<dyn Entropy>,
    /// Another store than the configured one.
    pub store: Option<Arc<dyn Store>>,
    /// What the program brings along.
    pub own: Own,
}

/// Tools and models that are code of the program and not parts of glassbox.
#[derive(Clone, Default)]
pub struct Own {
    /// Tools, each for the agents that it names.
    pub tools: Vec<OwnTool>,
    /// Models, each in the place of the configured model of the same name.
    pub models: Vec<Arc<dyn Model>>,
}

/// A tool and the agents that have it.
#[derive(Clone)]
pub struct OwnTool {
    /// Names of configured agents.
    pub agents: Vec<String>,
    /// The tool.
    pub registration: Registration,
}

impl Setup {
    /// For one task and a person who waits for it: no events, and a journal that cannot write
    /// ends the session with an error.
    pub fn run(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            surface: "run",
            data_dir: data_dir.into(),
            on_fault: OnFault::Fail,
            events: config::Events::Off,
            mode: Mode::Thread,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            store: None,
            own: Own::default(),
        }
    }

    /// For a service: events on the standard output, and sessions wait while the journal cannot
    /// write.
    pub fn serve(data_dir: impl Into<PathBuf>) -> Self {
        Self { surface: "serve", on_fault: OnFault::Wait, events: config::Events::Stdout, ..Self::run(data_dir) }
    }

    /// Keeps sessions in this store and not in the configured one.
    #[must_use]
    pub fn with_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Registers a tool for the agents of these names. Its schema must be closed.
    #[must_use]
    pub fn with_tool<S: Into<String>>(
        mut self,
        agents: impl IntoIterator<Item = S>,
        tool: impl Tool + 'static,
    ) -> Self {
        let agents = agents.into_iter().map(Into::into).collect();
        self.own.tools.push(OwnTool { agents, registration: Registration::new(Arc::new(tool)) });
        self
    }

    /// Puts a model in the place of the configured one of the same name, whose timeout it keeps.
    #[must_use]
    pub fn with_model(mut self, model: impl Model + 'static) -> Self {
        self.own.models.push(Arc::new(model));
        self
    }
}

impl Own {
    /// The names of an agent's own tools, in the order in which they were registered.
    pub(super) fn tools_of<'a>(&'a self, agent: &'a str) -> impl Iterator<Item = &'a str> {
        self.tools.iter().filter(move |own| own.agents.iter().any(|name| name == agent)).map(OwnTool::name)
    }

    /// The model that stands in the place of the configured one.
    pub(super) fn model(&self, name: &str) -> Option<&Arc<dyn Model>> {
        self.models.iter().find(|model| model.info().name == name)
    }

    /// The names of agents and models that it speaks of and the configuration does not declare.
    pub(super) fn undeclared(&self, config: &config::Config) -> Vec<String> {
        let agents = self.tools.iter().flat_map(|own| own.agents.iter().map(move |agent| (own, agent)));
        let agents = agents
            .filter(|(_, agent)| !config.agents.contains_key(*agent))
            .map(|(own, agent)| format!("tool {:?} is for agent {agent:?}", own.name()));
        let models = self.models.iter().map(|model| &model.info().name);
        let models =
            models.filter(|name| !config.models.contains_key(*name)).map(|name| format!("a model is named {name:?}"));
        agents.chain(models).collect()
    }
}

impl OwnTool {
    pub(super) fn name(&self) -> &str {
        self.registration.tool.spec().name()
    }
}
