//! Builds models and agents from the configuration.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{Own, Setup, SystemClock, lineup::Lineup, mcp::Servers, tools, toolsets::Toolsets};
use crate::{
    config::{self, Config},
    core::{Model, fact::ModelInfo},
    model::{self, Anthropic, Counting, OpenAi, Prompted, React, Scripted, StructuredOutput, react::ToolCalling},
    policy::Policy,
    session::{Agent, Fallback},
    tool::ToolSet,
};

/// What is wrong with an agent's parts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A script cannot be read.
    #[error("models.{model}.script: {path} cannot be read: {source}")]
    ScriptFile {
        /// The model.
        model: String,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A script is wrong.
    #[error("models.{model}.script: {source}")]
    Script {
        /// The model.
        model: String,
        /// What is wrong.
        source: model::scripted::Error,
    },
    /// A model cannot be reached this way.
    #[error("models.{model}: {wrong}")]
    Http {
        /// The model.
        model: String,
        /// What is wrong.
        wrong: model::http::Error,
    },
    /// A limit on money, and a model whose price nobody knows.
    #[error(
        "agents.{agent}.limits.cost_limit_usd: needs to know what tokens of the model {model} cost; its prices are missing"
    )]
    Prices {
        /// The agent.
        agent: String,
        /// The model.
        model: String,
    },
    /// What the program brings along is for nobody.
    #[error("{}; the configuration declares agents {} and models {}", .wrong.join(", "), .agents.join(", "), .models.join(", "))]
    Own {
        /// Which names are not declared, and where.
        wrong: Vec<String>,
        /// The agents that there are.
        agents: Vec<String>,
        /// The models that there are.
        models: Vec<String>,
    },
    /// A tool is wrong.
    #[error(transparent)]
    Tools(#[from] tools::Error),
}

/// Builds everything that the configured agents need.
pub(super) fn build(config: &Config, setup: &Setup, policy: &Arc<Policy>, servers: &Servers) -> Result<Lineup, Error> {
    let own = &setup.own;
    check_own(config, own)?;
    let wanted = config.agents.iter().map(|(name, agent)| {
        let names = agent.tools.iter().map(String::as_str).chain(own.tools_of(name));
        (name.clone(), names.map(str::to_owned).collect())
    });
    let toolsets = Toolsets::new(tools::fixed(config, setup)?, wanted.collect());
    let models = build_models(config)?;
    let mut agents = BTreeMap::new();
    let offered = toolsets.now(servers).map_err(tools::Error::from)?;
    for (name, agent) in &config.agents {
        let tools = offered.of(name).map_err(tools::Error::from)?;
        let agent = build_agent(config, own, &models, policy, name, agent, tools);
        check_prices(&agent)?;
        agents.insert(name.clone(), Arc::new(agent));
    }
    drop(offered);
    Ok(Lineup {
        agents: Arc::new(agents),
        default: config.default_agent().map(str::to_owned),
        toolsets: Arc::new(toolsets),
        kinds: Arc::new(tools::Kinds::of(config)),
    })
}

fn build_agent(
    config: &Config,
    own: &Own,
    models: &BTreeMap<String, Arc<dyn Model>>,
    policy: &Arc<Policy>,
    name: &str,
    agent: &config::Agent,
    tools: ToolSet,
) -> Agent {
    let model = |name: &String| {
        let configured = config.models.get(name).expect("the configuration checks that models are declared");
        (own.model(name).unwrap_or(&models[name]).clone(), configured.timeout)
    };
    let (own_model, model_timeout) = model(&agent.model);
    let fallback = agent.fallback.as_ref().map(model).map(|(model, timeout)| Fallback { model, timeout });
    Agent {
        name: name.to_owned(),
        system_prompt: agent.system_prompt.as_str().into(),
        prompt_version: agent.prompt_version.clone(),
        language: agent.language,
        limits: agent.limits.clone(),
        model: own_model,
        model_timeout,
        fallback,
        tools,
        policy: policy.clone(),
        output_schema: agent.output_schema.clone().map(Arc::new),
        task_types: agent.task_types.clone(),
        default_task_type: agent.default_task_type().to_owned(),
        fingerprint: config.agent_fingerprint(name).unwrap_or_default(),
    }
}

/// The configuration checks its own models; one that the program brings along has prices of its own.
fn check_prices(agent: &Agent) -> Result<(), Error> {
    let models = std::iter::once(&agent.model).chain(agent.fallback.iter().map(|fallback| &fallback.model));
    let unpriced = models.map(|model| model.info()).find(|model| model.prices.is_none());
    match unpriced.filter(|_| agent.limits.cost_limit.is_some()) {
        None => Ok(()),
        Some(model) => Err(Error::Prices { agent: agent.name.clone(), model: model.name.clone() }),
    }
}

fn check_own(config: &Config, own: &Own) -> Result<(), Error> {
    let wrong = own.undeclared(config);
    if wrong.is_empty() {
        return Ok(());
    }
    let (agents, models) = (config.agents.keys().cloned().collect(), config.models.keys().cloned().collect());
    Err(Error::Own { wrong, agents, models })
}

/// Builds the configured models, by name. Those that are reached over HTTP share one client.
///
/// # Errors
/// A script that cannot be read or is wrong, or an address or header that cannot be used.
pub fn build_models(config: &Config) -> Result<BTreeMap<String, Arc<dyn Model>>, Error> {
    let mut client = None;
    let mut build = |(name, model): (&String, _)| Ok((name.clone(), build_model(name, model, &mut client)?));
    config.models.iter().map(&mut build).collect()
}

fn build_model(
    name: &str,
    config: &config::Model,
    client: &mut Option<model::Client>,
) -> Result<Arc<dyn Model>, Error> {
    let info = config.info(name);
    let counting = Counting::of(config.count_tokens, &info.request_model);
    let wrong = |wrong| Error::Http { model: name.to_owned(), wrong };
    let model: Arc<dyn Model> = match &config.provider {
        config::Provider::Scripted(script) => Arc::new(build_scripted(name, info, script)?),
        config::Provider::Anthropic(access) => {
            Arc::new(Anthropic::new(info, access, shared(client).map_err(wrong)?).map_err(wrong)?.counting(counting))
        }
        config::Provider::OpenAi(access, key) => {
            Arc::new(OpenAi::new(info, access, *key, shared(client).map_err(wrong)?).map_err(wrong)?.counting(counting))
        }
    };
    let model: Arc<dyn Model> = match (&config.provider, config.tool_calling, config.structured_output) {
        (config::Provider::Scripted(_), ..) | (_, ToolCalling::Native, StructuredOutput::Native) => model,
        (_, ToolCalling::React, _) => Arc::new(React::new(model)),
        (_, ToolCalling::Native, StructuredOutput::Prompt) => Arc::new(Prompted::new(model)),
    };
    Ok(match config.inject {
        Some(rule) => Arc::new(model::Injected::new(model, rule)),
        None => model,
    })
}

/// The client that all models share; none is built where no model needs it.
fn shared(client: &mut Option<model::Client>) -> Result<model::Client, model::http::Error> {
    if let Some(client) = client {
        return Ok(client.clone());
    }
    Ok(client.insert(model::Client::new(Arc::new(SystemClock))?).clone())
}

fn build_scripted(name: &str, info: ModelInfo, script: &config::Script) -> Result<Scripted, Error> {
    let text = match script {
        config::Script::Bank => model::scripted::BANK.to_owned(),
        config::Script::File(path) => std::fs::read_to_string(path).map_err(|source| Error::ScriptFile {
            model: name.to_owned(),
            path: path.clone(),
            source,
        })?,
    };
    Scripted::from_yaml(info, &text).map_err(|source| Error::Script { model: name.to_owned(), source })
}
