//! `tools`: what models may call, built in or declared as a request, a statement or a program.
//!
//! It must never know how a call is made. What a tool takes and what its parts use are held
//! against each other here, so that no argument is lost without a word.

mod bind;
mod cache;
mod command;
mod confirm;
mod declared;
mod effective;
mod free;
mod http;
mod sql;

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{
    agents::label_name,
    auth, inject,
    reader::Section,
    scalar::{self, Read},
    secret::Vault,
};
use crate::{
    core::{
        Effect, Injection,
        spec::{ArgumentRule, CacheRule, Confirm, DEFAULT_CONFIRM_EXPIRES, DEFAULT_TOOL_TIMEOUT},
    },
    tool::{self, Overrides},
};

pub(super) use self::cache::effective as effective_cache;
pub(super) use self::effective::{bind as effective_bind, confirm as effective_confirm, tool as effective};

/// A tool as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// What is behind it.
    pub kind: Kind,
    /// What the model is told of it; for a built-in one, where that differs from its own text.
    pub description: Option<String>,
    /// What a call changes.
    pub effect: Effect,
    /// Whether a person must agree.
    pub confirm: Confirm,
    /// Where there is one, a person must agree only to calls whose arguments meet it.
    pub confirm_when: Option<ArgumentRule>,
    /// Arguments that come from the login: name of the argument, name of the claim.
    pub bind: BTreeMap<String, String>,
    /// How long a person may take to agree.
    pub confirm_expires: Duration,
    /// Time of one attempt.
    pub timeout: Duration,
    /// Scopes that the principal must hold.
    pub scopes: Vec<String>,
    /// Roles of which the principal must hold one; none is no condition.
    pub roles: Vec<String>,
    /// The circuit breaker that it shares with others that name it; its own if none is named.
    pub circuit: Option<String>,
    /// Attempts that run at once, by all sessions together; none is no limit.
    pub max_concurrent: Option<u32>,
    /// The tool that the model is told of where this one's circuit is open.
    pub fallback_tool: Option<String>,
    /// Where there is one, results are kept and given again.
    pub cache: Option<CacheRule>,
    /// Where there is one, it is slow or fails on purpose.
    pub inject: Option<Injection>,
}

/// What is behind a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A part of the program.
    Builtin(Builtin),
    /// What the configuration says.
    Declared(Box<Declared>),
}

/// A tool that is declared and not programmed.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// JSON Schema of the arguments, as it was written.
    pub parameters: Value,
    /// What a call does.
    pub means: Means,
}

/// What a call of a declared tool does.
#[derive(Clone, Debug, PartialEq)]
pub enum Means {
    /// Sends a request.
    Http(Box<tool::http::Plan>),
    /// Runs a statement.
    Sql(tool::sql::Plan),
    /// Runs a program.
    Command(tool::command::Plan),
}

/// The tools that are a part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// The customer's spending for one category and month.
    TxnSum,
    /// Blocks the customer's card.
    CardBlock,
}

impl Tool {
    /// Whether its means look as if it changed nothing, whatever its effect says.
    pub(super) fn only_asks(&self) -> bool {
        match &self.kind {
            Kind::Builtin(_) => false,
            Kind::Declared(declared) => match &declared.means {
                Means::Http(plan) => plan.method == tool::http::Method::Get,
                Means::Sql(plan) => !plan.write,
                Means::Command(_) => false,
            },
        }
    }
}

impl Kind {
    /// The word for it; that of a declared tool is its key in the configuration.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Builtin(_) => "builtin",
            Self::Declared(declared) => match declared.means {
                Means::Http(_) => "http",
                Means::Sql(_) => "sql",
                Means::Command(_) => "command",
            },
        }
    }

    const fn effect(&self) -> Effect {
        match self {
            Self::Builtin(Builtin::TxnSum) => Effect::Read,
            Self::Builtin(Builtin::CardBlock) | Self::Declared(_) => Effect::Unsafe,
        }
    }

    const fn confirm(&self) -> Confirm {
        match self {
            Self::Builtin(Builtin::CardBlock) => Confirm::AskCustomer,
            Self::Builtin(Builtin::TxnSum) | Self::Declared(_) => Confirm::Never,
        }
    }
}

impl Builtin {
    /// Every one, with its word in configuration.
    pub const ALL: [(&'static str, Self); 2] = [("txn_sum", Self::TxnSum), ("card_block", Self::CardBlock)];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::TxnSum => "txn_sum",
            Self::CardBlock => "card_block",
        }
    }
}

pub(super) fn read_tools(root: &Section<'_>, vault: Vault<'_>, login: bool) -> BTreeMap<String, Tool> {
    let read = |(name, section): (String, Section<'_>)| {
        auth::require_access(&section, login);
        (name, read_tool(&section, vault))
    };
    root.named("tools", tool_name).into_iter().map(read).collect()
}

/// Names of tools go to providers, all of which take these characters.
pub(super) fn tool_name(name: &str) -> Read<()> {
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !fits || name.is_empty() || name.len() > 64 {
        return Err("must be 1 to 64 letters, digits, _ and -, for providers take no others".to_owned());
    }
    Ok(())
}

fn read_tool(section: &Section<'_>, vault: Vault<'_>) -> Tool {
    let rules = read_rules(section);
    let kind = declared::read(section, &rules.bind, vault);
    let tool = Tool {
        description: section.get("description", scalar::text),
        effect: rules.effect.unwrap_or(kind.effect()),
        confirm: rules.confirm.unwrap_or(kind.confirm()),
        confirm_when: rules.confirm_when,
        bind: rules.bind,
        confirm_expires: rules.confirm_expires.unwrap_or(DEFAULT_CONFIRM_EXPIRES),
        timeout: rules.timeout.unwrap_or(DEFAULT_TOOL_TIMEOUT),
        scopes: rules.scopes.unwrap_or_default(),
        roles: rules.roles.unwrap_or_default(),
        circuit: rules.circuit,
        max_concurrent: rules.max_concurrent,
        fallback_tool: rules.fallback_tool,
        cache: rules.cache,
        inject: inject::read(section, 503),
        kind,
    };
    declared::check(section, &tool);
    tool
}

/// What can be said of one tool or of many, wherever they come from.
pub(super) fn read_rules(section: &Section<'_>) -> Overrides {
    let effects = [Effect::Read, Effect::Idempotent, Effect::Unsafe].map(|effect| (effect.label(), effect));
    let (second, month) = (Duration::from_secs(1), Duration::from_secs(30 * 86_400));
    let (shortest, longest) = (Duration::from_millis(1), Duration::from_secs(600));
    let (confirm, confirm_when) = confirm::read(section);
    Overrides {
        name: None,
        description: None,
        effect: section.get("effect", scalar::word(&effects)),
        confirm,
        confirm_when,
        bind: bind::read(section),
        confirm_expires: section.get("confirm_expires", scalar::duration(second, month)),
        timeout: section.get("timeout", scalar::duration(shortest, longest)),
        scopes: section.list("scopes", scalar::text),
        roles: section.list("roles", auth::role),
        circuit: section.get("circuit", |node| {
            let name = scalar::text(node)?;
            label_name(&name).map(|()| name)
        }),
        max_concurrent: section.get("max_concurrent", scalar::whole(1..=1_000_000)),
        fallback_tool: section.get("fallback_tool", scalar::text),
        cache: cache::read(section),
    }
}
