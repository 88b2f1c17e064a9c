//! The configuration: one YAML file, the environment over it, and a built-in default.
//!
//! It answers plain typed data, and keeps nothing that runs. It must never know how a part is
//! built from it, and never prints a secret. Every mistake is found in one reading and told with
//! its line, its key and what would be right.
//!
//! What wins, from the strongest: `GLASSBOX__` variables, the file, the standard `OTEL_` variables
//! (for `telemetry` and `privacy.span_content` only), the defaults. With no file the built-in
//! `default.yaml` is the file; a file replaces it as a whole.

mod agents;
mod alternatives;
mod auth;
mod console;
mod effective;
mod env;
mod hints;
mod inject;
mod mcp;
mod models;
mod otel;
mod reader;
mod report;
mod resilience;
mod restart;
mod scalar;
mod schema;
mod secret;
mod service;
mod telemetry;
mod tools;
mod tree;
mod units;
mod webhooks;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read as _,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use self::{reader::Reader, secret::Vault};
use crate::{core::notice::Hook, tool::mcp::Settings};

pub use self::{
    agents::{Agent, Model, Provider, Script},
    auth::{ApiKey, Approvers, Auth, Claims, Jwks, Jwt, Login, ROLES},
    console::{Console, Content, Links},
    env::process as process_environment,
    report::{Mistake, Place, Report},
    resilience::{CircuitBreaker, Exception, RateLimits, RetryPolicy, ToolRate},
    service::{Privacy, Retention, Server, ShedAbove, Store, Synchronous},
    telemetry::{Events, Otlp, Protocol, Sampling, Telemetry},
    tools::{Builtin, Declared, Kind, Means, Tool},
    units::parse_duration,
    webhooks::Webhook,
};

/// The built-in configuration, the bank assistant; it names every key, with a line on each.
pub const DEFAULT_YAML: &str = include_str!("config/default.yaml");

/// Bytes of a configuration file at the most.
const MAX_FILE: u64 = 1 << 20;
const EMBEDDED: &str = "default.yaml (built in)";

/// Where a configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file; none is the built-in default.
    pub file: Option<PathBuf>,
    /// The variables, as [`process_environment`] gives them.
    pub env: BTreeMap<String, String>,
}

/// A configuration that was found right: names that are used are declared, values are in range.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// By name; at least one.
    pub agents: BTreeMap<String, Agent>,
    /// By name.
    pub models: BTreeMap<String, Model>,
    /// By the name that models call.
    pub tools: BTreeMap<String, Tool>,
    /// MCP servers, by name.
    pub mcp_servers: BTreeMap<String, Settings>,
    /// For model calls.
    pub llm_retry_policy: RetryPolicy,
    /// For tool calls whose effect allows it.
    pub tool_retry_policy: RetryPolicy,
    /// Of every tool and every model.
    pub circuit_breaker: CircuitBreaker,
    /// Of principals and tools.
    pub rate_limits: RateLimits,
    /// Where sessions are kept.
    pub store: Store,
    /// The HTTP API.
    pub server: Server,
    /// Who callers are.
    pub auth: Auth,
    /// The pages for people.
    pub console: Console,
    /// Where the signals go.
    pub telemetry: Telemetry,
    /// How people are kept out of them.
    pub privacy: Privacy,
    /// How long sessions are kept.
    pub retention: Retention,
    /// Who is told of what waits for a person.
    pub webhooks: BTreeMap<Hook, Webhook>,
}

impl Config {
    /// Reads and checks a configuration. Errors: all mistakes together.
    pub fn load(sources: &Sources) -> Result<Self, Report> {
        let Some(path) = &sources.file else {
            return Self::from_text(EMBEDDED, DEFAULT_YAML.as_bytes(), Path::new(""), &sources.env);
        };
        let name = path.display().to_string();
        let alone = |wrong: String| Report::new(&name, vec![Mistake::new(Place::File, "", wrong)]);
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
            .map_err(|error| alone(format!("cannot be read: {error}")))?;
        Self::from_text(&name, &bytes, path.parent().unwrap_or(Path::new("")), &sources.env)
    }

    /// The built-in default, with nothing from the environment.
    pub fn embedded() -> Self {
        Self::load(&Sources::default()).expect("the built-in default is right, which a test holds")
    }

    /// Reads a configuration that is already in memory. `name` stands in the report; relative
    /// paths begin at `folder`. Errors: all mistakes together.
    pub fn from_text(name: &str, bytes: &[u8], folder: &Path, env: &BTreeMap<String, String>) -> Result<Self, Report> {
        let (config, _) = read(name, bytes, folder, env)?;
        Ok(config)
    }

    /// Listens at another place than the configured one.
    ///
    /// # Errors
    /// Where others could reach it and no login is configured.
    pub fn listen_on(&mut self, address: SocketAddr) -> Result<(), Report> {
        service::reachable(address, self.auth.login.is_some()).map_err(|wrong| {
            let place = Place::Env("--listen".to_owned());
            Report::new("", vec![Mistake::new(place, "server.listen", format!("{wrong}, not \"{address}\""))])
        })?;
        self.server.listen = address;
        Ok(())
    }

    /// Everything as it took effect, as YAML; secrets are `[secret]`. The same for the same values.
    pub fn effective_yaml(&self) -> String {
        effective::yaml(self)
    }

    /// What decides how an agent's sessions run, as JSON with sorted keys, to be hashed. None for
    /// a name that is not declared.
    pub fn agent_fingerprint(&self, agent: &str) -> Option<String> {
        effective::fingerprint(self, agent)
    }

    /// The agent of a caller who names none: the only one, if there is only one.
    pub fn default_agent(&self) -> Option<&str> {
        let mut names = self.agents.keys();
        names.next().filter(|_| names.next().is_none()).map(String::as_str)
    }

    /// Models and tools that are slow or fail on purpose, one phrase each.
    pub fn injections(&self) -> Vec<String> {
        let models = self.models.iter().filter(|(_, model)| model.inject.is_some()).map(|(name, _)| ("models", name));
        let tools = self.tools.iter().filter(|(_, tool)| tool.inject.is_some()).map(|(name, _)| ("tools", name));
        models.chain(tools).map(|(kind, name)| format!("{kind}.{name}.inject: is slow or fails on purpose")).collect()
    }
}

/// The configuration, and every key that was asked for.
fn read(
    name: &str,
    bytes: &[u8],
    folder: &Path,
    env: &BTreeMap<String, String>,
) -> Result<(Config, BTreeSet<String>), Report> {
    let alone = |mistake: Mistake| Report::new(name, vec![mistake]);
    let text = text_of(bytes).map_err(alone)?;
    let mut tree = tree::parse(text, None).map_err(alone)?;
    tree.mistakes.extend(env::override_keys(&mut tree.root, env));

    let reader = Reader::new(tree.mistakes);
    let config = sections(&reader, &tree.root, Vault { env, folder });
    let (mistakes, known) = reader.finish();
    if mistakes.is_empty() { Ok((config, known)) } else { Err(Report::new(name, mistakes)) }
}

fn sections(reader: &Reader, root: &tree::Node, vault: Vault<'_>) -> Config {
    let root = reader.root(root);
    let otel = otel::Otel { env: vault.env, reader };
    let auth = auth::read(&root.section("auth"), vault);
    let login = auth.login.is_some();
    let mcp_servers = mcp::read_servers(&root, vault, login);
    let prefixes: Vec<_> = mcp_servers.values().map(|server| server.prefix.clone()).collect();
    let models = models::read_models(&root, vault);
    let agents = agents::read_agents(&root, &models, &prefixes, vault.folder);
    let tools = tools::read_tools(&root, vault, login);
    let parts = alternatives::Parts { agents: &agents, tools: &tools, servers: &mcp_servers };
    alternatives::check(&root, &parts);
    Config {
        agents,
        models,
        tools,
        mcp_servers,
        llm_retry_policy: resilience::read_retry(&root.section("llm_retry_policy"), RetryPolicy::llm()),
        tool_retry_policy: resilience::read_retry(&root.section("tool_retry_policy"), RetryPolicy::tool()),
        circuit_breaker: resilience::read_breaker(&root.section("circuit_breaker")),
        rate_limits: resilience::read_rate_limits(&root.section("rate_limits"), &root.names("tools"), &prefixes),
        store: service::read_store(&root.section("store")),
        server: service::read_server(&root.section("server"), login),
        auth,
        console: console::read(&root.section("console")),
        telemetry: telemetry::read(&root.section("telemetry"), &otel, vault),
        privacy: service::read_privacy(&root.section("privacy"), &otel, vault),
        retention: service::read_retention(&root.section("retention")),
        webhooks: webhooks::read(&root, vault),
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, Mistake> {
    if bytes.len() as u64 > MAX_FILE {
        return Err(Mistake::new(Place::File, "", "is larger than 1 MiB; a configuration is not"));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = 1 + String::from_utf8_lossy(&before[start..]).chars().count();
        Mistake::new(Place::At { line, column }, "", "this byte is not UTF-8; save the file as UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of(node: &tree::Node, path: &str, found: &mut BTreeSet<String>) {
        for (key, below) in node.entries().unwrap_or_default() {
            let free = matches!(
                path,
                "agents"
                    | "models"
                    | "tools"
                    | "mcp_servers"
                    | "mcp_servers.*.env"
                    | "mcp_servers.*.headers"
                    | "mcp_servers.*.pin"
                    | "mcp_servers.*.overrides"
                    | "rate_limits.tools"
                    | "models.*.headers"
                    | "telemetry.otlp.headers"
                    | "telemetry.resource_attributes"
                    | "auth.default_principal.attributes"
                    | "auth.api_keys"
                    | "auth.api_keys.*.principal.attributes"
                    | "auth.jwt.claims.attributes"
                    | "tools.*.bind"
                    | "tools.*.http.query"
                    | "tools.*.http.headers"
                    | "tools.*.http.form"
                    | "tools.*.command.env"
            );
            let path = tree::join(path, if free { "*" } else { &key.text });
            found.insert(path.clone());
            keys_of(below, &path, found);
        }
    }

    /// The variables that the mentioned keys point to.
    fn keys() -> BTreeMap<String, String> {
        let names = ["GLASSBOX_HASH_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "RATES_TOKEN", "LEDGER_URL"];
        let secret = format!("whsec_{}", "k".repeat(32));
        let secrets = ["HANDOVERS_SECRET", "CONFIRMATIONS_SECRET"].map(|name| (name.to_owned(), secret.clone()));
        names.iter().map(|name| ((*name).to_owned(), "k".repeat(32))).chain(secrets).collect()
    }

    /// The default with every key that it only mentions switched on.
    fn uncommented() -> String {
        let line = |line: &str| {
            if line.starts_with("##") {
                line.to_owned()
            } else {
                line.replacen("# ", "", usize::from(line.starts_with("# ")))
            }
        };
        DEFAULT_YAML.lines().map(|text| line(text) + "\n").collect()
    }

    #[test]
    fn the_default_names_every_key_and_each_with_a_comment() {
        let env = keys();
        let text = uncommented();
        let (_, known) = read("all", text.as_bytes(), Path::new(""), &env).unwrap_or_else(|report| panic!("{report}"));
        let mut named = BTreeSet::new();
        keys_of(&tree::parse(&text, None).unwrap_or_else(|wrong| panic!("{wrong:?}")).root, "", &mut named);
        let missing: Vec<_> = known.difference(&named).collect();
        assert!(missing.is_empty(), "not in default.yaml: {missing:?}");
        for line in text.lines().filter(|line| line.contains(':') && !line.trim_start().starts_with('#')) {
            let prompt = line.trim_start().chars().next().is_some_and(|c| !c.is_ascii());
            assert!(prompt || line.contains(" # "), "no comment: {line}");
        }
    }

    #[test]
    fn what_the_default_mentions_in_comments_is_what_is_implied() {
        let env = keys();
        let (mut all, _) =
            read("all", uncommented().as_bytes(), Path::new(""), &env).unwrap_or_else(|report| panic!("{report}"));
        let mut plain = Config::embedded();
        // Some keys have no default to mention; they stand there as examples.
        all.retention.sessions = None;
        all.webhooks.clear();
        all.privacy.hash_key = None;
        all.telemetry.otlp = None;
        all.telemetry.resource_attributes.clear();
        all.telemetry.events = None;
        all.rate_limits.tools.clear();
        all.auth.default_principal.attributes.clear();
        all.auth.login = None;
        all.console.links = Links::default();
        all.models.retain(|name, _| name == "bank");
        all.models.values_mut().for_each(|model| (model.prices, model.inject) = (None, None));
        all.mcp_servers.clear();
        for agent in all.agents.values_mut() {
            (agent.prompt_version, agent.fallback, agent.output_schema) = (None, None, None);
            agent.limits.cost_limit = None;
        }
        all.tools.retain(|name, _| plain.tools.contains_key(name));
        for tool in all.tools.values_mut() {
            (tool.circuit, tool.max_concurrent) = (None, None);
            (tool.fallback_tool, tool.cache, tool.inject) = (None, None, None);
            if matches!(tool.kind, Kind::Builtin(_)) {
                tool.description = None;
            }
            tool.roles.clear();
        }
        plain.agents.values_mut().for_each(|agent| agent.prompt_version = None);
        assert_eq!(all, plain);
    }
}
