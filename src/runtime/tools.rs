//! Builds tools from the configuration: built-in ones, and those that it declares.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use super::{OwnTool, Runtime, Setup};
use crate::{
    config::{self, Builtin, Config, Declared, Kind, Means},
    core::{Tool, ToolSpec},
    tool::{
        self, Bank, CommandTool, HttpTool, Overrides, Registration, SqlTool,
        bank::service,
        http::{self, Shared},
        sql::{Database, Plan},
    },
};

/// The file of the demo bank inside the data folder.
const BANK_FILE: &str = "bank.sqlite";

/// What is wrong with a tool.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Names and schemas.
    #[error(transparent)]
    Registry(#[from] tool::Error),
    /// The way to a service.
    #[error("tools.{name}.http: {wrong}")]
    Http {
        /// The tool.
        name: String,
        /// What is wrong.
        wrong: tool::http::Error,
    },
    /// The way to a database.
    #[error("tools.{name}.sql: {wrong}")]
    Sql {
        /// The tool.
        name: String,
        /// What is wrong.
        wrong: tool::sql::Error,
    },
    /// The demo bank's web service.
    #[error("tools.{name}.http: the demo bank's service cannot listen: {source}")]
    BankService {
        /// The tool.
        name: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The demo bank.
    #[error("tools.{name}.sql: {fault}")]
    Bank {
        /// The tool.
        name: String,
        /// What is wrong with its file.
        fault: crate::core::Fault,
    },
}

/// What tools are built with.
struct Builder<'a> {
    setup: &'a Setup,
    bank: Bank,
    http: Shared,
}

/// What is behind the tools, for people.
pub(super) struct Kinds {
    configured: BTreeMap<String, &'static str>,
    /// How the names of servers' tools begin.
    prefixes: Vec<String>,
}

impl Kinds {
    pub(super) fn of(config: &Config) -> Self {
        let configured = config.tools.iter().map(|(name, tool)| (name.clone(), tool.kind.label()));
        let prefixes = config.mcp_servers.values().map(|server| server.prefix.clone());
        Self { configured: configured.collect(), prefixes: prefixes.collect() }
    }
}

impl Runtime {
    /// What is behind a tool: the kind in its configuration, `mcp`, or `own` where the program
    /// brought it along.
    pub fn tool_kind(&self, name: &str) -> &'static str {
        let kinds = self.inner.agents.kinds();
        let remote = || kinds.prefixes.iter().any(|prefix| name.starts_with(prefix)).then_some("mcp");
        kinds.configured.get(name).copied().or_else(remote).unwrap_or("own")
    }
}

/// The tools that are there whatever any server lists: those of the configuration, then those of
/// the program.
pub(super) fn fixed(config: &Config, setup: &Setup) -> Result<Vec<Registration>, Error> {
    let bank = Bank::at(setup.data_dir.join(BANK_FILE));
    let mut builder = Builder { setup, bank, http: Shared::default() };
    let built = config.tools.iter().map(|(name, tool)| Ok(Registration::new(builder.build(name, tool)?)));
    let mut registrations = built.collect::<Result<Vec<_>, Error>>()?;
    registrations.extend(setup.own.tools.iter().map(|OwnTool { registration, .. }| registration.clone()));
    Ok(registrations)
}

impl Builder<'_> {
    fn build(&mut self, name: &str, config: &config::Tool) -> Result<Arc<dyn Tool>, Error> {
        let overrides = overrides(name, config);
        let tool: Arc<dyn Tool> = match &config.kind {
            Kind::Builtin(Builtin::TxnSum) => Arc::new(self.bank.txn_sum(overrides)),
            Kind::Builtin(Builtin::CardBlock) => Arc::new(self.bank.card_block(overrides)),
            Kind::Declared(declared) => self.declared(name, declared, overrides)?,
        };
        Ok(match config.inject {
            Some(rule) => Arc::new(tool::Injected::new(tool, rule)),
            None => tool,
        })
    }

    fn declared(&mut self, name: &str, declared: &Declared, overrides: Overrides) -> Result<Arc<dyn Tool>, Error> {
        let spec = overrides.apply(ToolSpec::new(name, "", declared.parameters.clone()));
        Ok(match &declared.means {
            Means::Http(plan) => {
                let wrong = |wrong| Error::Http { name: name.to_owned(), wrong };
                let client = self.http.client(&self.setup.clock).map_err(wrong)?;
                Arc::new(HttpTool::new(spec, in_reach(name, plan)?, client).map_err(wrong)?)
            }
            Means::Sql(plan) => {
                let plan = self.at_home(name, plan)?;
                Arc::new(SqlTool::new(spec, plan).map_err(|wrong| Error::Sql { name: name.to_owned(), wrong })?)
            }
            Means::Command(plan) => Arc::new(CommandTool::new(spec, plan.clone())),
        })
    }

    /// A file of SQLite whose path is not absolute begins at the data folder. The demo bank is
    /// made by whichever of its tools is there first.
    fn at_home(&self, name: &str, plan: &Plan) -> Result<Plan, Error> {
        let Database::Sqlite(path) = &plan.database else { return Ok(plan.clone()) };
        if path == Path::new(BANK_FILE) {
            self.bank.make().map_err(|fault| Error::Bank { name: name.to_owned(), fault })?;
        }
        Ok(Plan { database: Database::Sqlite(self.setup.data_dir.join(path)), ..plan.clone() })
    }
}

/// The demo bank's own service is reached where this process started it.
fn in_reach(name: &str, plan: &http::Plan) -> Result<http::Plan, Error> {
    let source = plan.address.source();
    let reachable =
        service::reachable(source).map_err(|source| Error::BankService { name: name.to_owned(), source })?;
    let address = http::Address::parse(&reachable).expect("a loopback address in the place of another good one");
    Ok(http::Plan { address, ..plan.clone() })
}

fn overrides(name: &str, config: &config::Tool) -> Overrides {
    Overrides {
        name: Some(name.to_owned()),
        description: config.description.clone(),
        effect: Some(config.effect),
        confirm: Some(config.confirm),
        confirm_when: config.confirm_when.clone(),
        bind: config.bind.clone(),
        confirm_expires: Some(config.confirm_expires),
        timeout: Some(config.timeout),
        scopes: Some(config.scopes.clone()),
        roles: Some(config.roles.clone()),
        circuit: config.circuit.clone(),
        max_concurrent: config.max_concurrent,
        fallback_tool: config.fallback_tool.clone(),
        cache: config.cache,
    }
}
