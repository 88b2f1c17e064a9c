//! `agents`, and what a model is: who answers, and who thinks.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    reader::Section,
    scalar::{self, Read},
    schema,
    tools::tool_name,
    tree::Node,
};
use crate::{
    core::{
        Injection, Limits, Money, Prices,
        fact::{CountedBy, Language, ModelInfo},
    },
    model::{Access, StructuredOutput, openai::MaxTokensKey, react::ToolCalling},
};

/// A named agent: a prompt, a model, tools and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// What the model is told before the task.
    pub system_prompt: String,
    /// The version of that text, for traces and comparisons.
    pub prompt_version: Option<String>,
    /// The language of what a customer reads.
    pub language: Language,
    /// The name of its model, a key of `models`.
    pub model: String,
    /// The name of the model that is asked where that one does not answer, another key of `models`.
    pub fallback: Option<String>,
    /// The names of its tools: keys of `tools`, names with the prefix of an MCP server, or such a
    /// prefix and `*` for all tools of that server.
    pub tools: Vec<String>,
    /// Where its sessions are stopped.
    pub limits: Limits,
    /// The kinds of task that a caller may name, labels in metrics; never empty.
    pub task_types: Vec<String>,
    /// JSON Schema that its answers are held to, if any.
    pub output_schema: Option<serde_json::Value>,
}

/// A model as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Who answers.
    pub provider: Provider,
    /// The name that the provider knows.
    pub request_model: String,
    /// Tokens that fit into one request and its reply.
    pub context_window: u64,
    /// Output tokens of one reply at the most.
    pub max_output_tokens: u64,
    /// Time of one attempt.
    pub timeout: Duration,
    /// Who counts a request before it is made, where a limit is near.
    pub count_tokens: CountedBy,
    /// What its tokens cost.
    pub prices: Option<Prices>,
    /// How it asks for tools.
    pub tool_calling: ToolCalling,
    /// How it is told the form of its answer.
    pub structured_output: StructuredOutput,
    /// Where there is one, it is slow or fails on purpose.
    pub inject: Option<Injection>,
}

/// Who answers for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Replies from a script: no key, no network.
    Scripted(Script),
    /// Anthropic, or a server that speaks its Messages.
    Anthropic(Access),
    /// OpenAI, or a server that speaks its chat completions.
    OpenAi(Access, MaxTokensKey),
}

/// Where a script is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// The bank assistant's, a part of the program.
    Bank,
    /// A file.
    File(PathBuf),
}

/// The tools that an agent can name.
struct ToolNames<'a> {
    /// Those under `tools`.
    declared: &'a [String],
    /// What the names of MCP servers' tools begin with.
    prefixes: &'a [String],
}

impl Agent {
    /// The kind of a task that names none: `other` where it is declared, else the first.
    pub fn default_task_type(&self) -> &str {
        let other = self.task_types.iter().find(|name| *name == "other");
        other.or(self.task_types.first()).map_or("other", String::as_str)
    }
}

impl Model {
    /// The model as a session's first fact describes it.
    pub fn info(&self, name: &str) -> ModelInfo {
        ModelInfo {
            name: name.to_owned(),
            request_model: self.request_model.clone(),
            provider: self.provider.label().to_owned(),
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
            prices: self.prices,
        }
    }
}

impl Provider {
    /// The word in configuration and `gen_ai.provider.name`.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Scripted(_) => "scripted",
            Self::Anthropic(_) => "anthropic",
            Self::OpenAi(..) => "openai",
        }
    }

    /// Where it is reached, if over a network.
    pub const fn access(&self) -> Option<&Access> {
        match self {
            Self::Scripted(_) => None,
            Self::Anthropic(access) | Self::OpenAi(access, _) => Some(access),
        }
    }

    /// Whether its key goes over a network in the clear.
    pub(super) fn shows_key(&self) -> bool {
        self.access().filter(|access| access.api_key.is_some()).is_some_and(|access| {
            let host = access.base_url.strip_prefix("http://").unwrap_or("localhost");
            !["localhost", "127.", "[::1]"].iter().any(|own| host.starts_with(own))
        })
    }
}

pub(super) fn read_agents(
    root: &Section<'_>,
    models: &BTreeMap<String, Model>,
    prefixes: &[String],
    folder: &Path,
) -> BTreeMap<String, Agent> {
    let (names, declared) = (root.names("models"), root.names("tools"));
    let tools = ToolNames { declared: &declared, prefixes };
    let entries = root.named("agents", label_name);
    if root.is_empty("agents") {
        root.wrong("agents", "must declare at least one agent");
    }
    let read = |(name, section): (String, Section<'_>)| (name, read_agent(&section, (&names, models), &tools, folder));
    entries.into_iter().map(read).collect()
}

/// Names of agents and task types are label values and parts of paths.
pub(super) fn label_name(name: &str) -> Read<()> {
    let right = "must be small letters, digits and _, and begin with a letter";
    let (first, rest) = (name.chars().next(), name.chars().skip(1));
    let fits = first.is_some_and(|c| c.is_ascii_lowercase())
        && rest.clone().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !fits {
        return Err(right.to_owned());
    }
    // Two underscores stand for one level down in the names of variables.
    if name.contains("__") || name.len() > 64 {
        return Err("must have at most 64 characters and no two underscores in a row".to_owned());
    }
    Ok(())
}

fn read_agent(
    section: &Section<'_>,
    models: (&[String], &BTreeMap<String, Model>),
    tools: &ToolNames<'_>,
    folder: &Path,
) -> Agent {
    let (names, models) = models;
    let languages = [("ru", Language::Ru), ("en", Language::En)];
    let task_types = section.list("task_types", |node| {
        let name = scalar::text(node)?;
        label_name(&name).map(|()| name)
    });
    if task_types.as_ref().is_some_and(Vec::is_empty) {
        section.wrong("task_types", "must name at least one kind of task, such as [other]");
    }
    let model = section.need("model", scalar::name_of(names, "a model under models")).unwrap_or_default();
    let fallback = section.get("fallback", scalar::name_of(names, "a model under models"));
    if fallback.as_ref() == Some(&model) {
        section.wrong("fallback", "must be another model than model");
    }
    let asked = std::iter::once(&model).chain(&fallback).filter_map(|name| models.get_key_value(name));
    let limits = read_priced_limits(&section.section("limits"), asked);
    Agent {
        system_prompt: section.need("system_prompt", scalar::text).unwrap_or_default(),
        prompt_version: section.get("prompt_version", scalar::text),
        language: section.get("language", scalar::word(&languages)).unwrap_or_default(),
        model,
        fallback,
        tools: section.list("tools", |node| tools.read(node)).unwrap_or_default(),
        limits,
        task_types: task_types.unwrap_or_else(|| vec!["other".to_owned()]),
        output_schema: section.get("output_schema", |node| schema::read(node, folder)),
    }
}

impl ToolNames<'_> {
    /// A declared tool, one of an MCP server, which only that server can know, or all of its tools.
    fn read(&self, node: &Node) -> Read<String> {
        let text = scalar::scalar(node, "must be the name of a tool").map_or("", |(text, _)| text);
        let remote = |prefix: &String| text.strip_prefix(prefix.as_str()).is_some_and(|rest| !rest.is_empty());
        if self.prefixes.iter().any(remote) {
            return tool_name(text.strip_suffix('*').unwrap_or(text)).map(|()| text.to_owned());
        }
        scalar::name_of(self.declared, "a tool under tools")(node)
    }
}

/// Limits; one on money needs to know what the agent's models take.
fn read_priced_limits<'a>(section: &Section<'_>, models: impl IntoIterator<Item = (&'a String, &'a Model)>) -> Limits {
    let limits = read_limits(section);
    if limits.cost_limit.is_some() {
        for (name, _) in models.into_iter().filter(|(_, model)| model.prices.is_none()) {
            section.wrong("cost_limit_usd", format!("needs to know what tokens cost; write models.{name}.prices"));
        }
    }
    limits
}

fn read_limits(section: &Section<'_>) -> Limits {
    let normal = Limits::default();
    let presets = [
        ("default", normal.clone()),
        ("simple", Limits { max_iterations: 5, ..normal.clone() }),
        // The seed asks for more steps with a stricter budget; it gives no number for that.
        ("research", Limits { max_iterations: 25, token_budget: 40_000, ..normal }),
    ];
    let words: Vec<(&str, usize)> = presets.iter().enumerate().map(|(index, (name, _))| (*name, index)).collect();
    let preset = section.get("preset", scalar::word(&words)).unwrap_or(0);
    let preset = &presets[preset].1;
    let (second, week) = (Duration::from_secs(1), Duration::from_secs(7 * 86_400));
    Limits {
        max_iterations: section.get("max_iterations", scalar::whole(1..=1000)).unwrap_or(preset.max_iterations),
        token_budget: section.get("token_budget", scalar::whole(1..=1_000_000_000)).unwrap_or(preset.token_budget),
        cost_limit: section.get("cost_limit_usd", scalar::money(Money::from_nanos(1))),
        context_ratio: section.get("context_ratio", scalar::decimal(0.0, 1.0, true)).unwrap_or(preset.context_ratio),
        deadline: section.get("deadline", scalar::duration(second, week)).unwrap_or(preset.deadline),
        max_parallel_tools: section
            .get("max_parallel_tools", scalar::whole(1..=256))
            .unwrap_or(preset.max_parallel_tools),
    }
}
