//! `mcp_servers`: servers whose tools are taken, how they are reached, and how far they are
//! trusted.
//!
//! It must never know what a server says: names and definitions come from there, later.

use std::{collections::BTreeMap, time::Duration};

use super::{
    agents::label_name,
    auth,
    models::{base_url, header_value},
    otel,
    reader::Section,
    scalar::{self, Read},
    secret::Vault,
    tools::read_rules,
    tree::Node,
};
use crate::{
    core::BlobHash,
    tool::{
        Overrides, Strict,
        mcp::{OnDrift, Reach, Settings},
    },
};

/// The variables of this process that every child gets, so that programs are found and know where
/// they may write and which language to speak.
const INHERITED: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE"];

/// The words for what is done with open schemas.
pub(super) const STRICT: [(&str, Strict); 2] = [("close", Strict::Close), ("refuse", Strict::Refuse)];

pub(super) fn read_servers(root: &Section<'_>, vault: Vault<'_>, login: bool) -> BTreeMap<String, Settings> {
    let tools = root.names("tools");
    let mut servers = BTreeMap::new();
    for (name, section) in root.named("mcp_servers", label_name) {
        // What tools there will be is the server's word, so the rule is for all of them.
        auth::require_access(&section, login);
        let settings = read_server(&section, &name, vault);
        refuse_mixed_names(&section, &settings.prefix, &tools, &servers);
        servers.insert(name, settings);
    }
    servers
}

fn read_server(section: &Section<'_>, name: &str, vault: Vault<'_>) -> Settings {
    let (second, long) = (Duration::from_secs(1), Duration::from_secs(600));
    let overrides = section.named("overrides", remote_name);
    let each = |(tool, section): (String, Section<'_>)| {
        let description = section.get("description", scalar::text);
        (tool, Overrides { description, ..read_rules(&section) })
    };
    Settings {
        reach: read_reach(section, vault),
        prefix: section.get("prefix", prefix).unwrap_or_else(|| format!("{name}_")),
        tools: section.list("tools", scalar::text),
        strict: section.get("strict", scalar::word(&STRICT)).unwrap_or(Strict::Close),
        trusted: section.get("trusted", scalar::flag).unwrap_or(false),
        start_timeout: section.get("start_timeout", scalar::duration(second, long)).unwrap_or(Duration::from_secs(30)),
        all: read_rules(section),
        each: overrides.into_iter().map(each).collect(),
        pins: section.map("pin", remote_name, pin),
        on_drift: section.get("on_drift", scalar::word(&OnDrift::ALL)).unwrap_or_default(),
    }
}

fn read_reach(section: &Section<'_>, vault: Vault<'_>) -> Reach {
    let command = section.words("command", scalar::text);
    let env = section.map("env", variable, |node| vault.any(node));
    let cwd = section.get("cwd", scalar::text).map(|folder| vault.folder.join(folder));
    let url = section.get("url", base_url);
    let headers = section.map("headers", otel::header_name, |node| header_value(vault.any(node)?));
    let (piped, remote) = (section.has("command"), section.has("url"));
    if piped == remote {
        section.wrong_here("must have either command, for a child process, or url");
    }
    if command.as_ref().is_some_and(Vec::is_empty) {
        section.wrong("command", "must name a program and its arguments, such as [mcp-server-time, --utc]");
    }
    for (key, other, fits) in [("env", "command", piped), ("cwd", "command", piped), ("headers", "url", remote)] {
        if section.has(key) && !fits {
            section.wrong(key, format!("is for servers with {other} only"));
        }
    }
    match url {
        Some(url) => {
            let headers = headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
            Reach::Http { url, headers }
        }
        None => {
            let mut command = command.unwrap_or_default();
            // A path is one beside the configuration; a bare name is looked for.
            if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
                *program = vault.folder.join(&*program).display().to_string();
            }
            let own = INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), vault.env.get(*name)?.clone())));
            Reach::Stdio { command, env, inherited: own.collect(), cwd }
        }
    }
}

/// A name must tell by itself whose it is.
fn refuse_mixed_names(section: &Section<'_>, prefix: &str, tools: &[String], earlier: &BTreeMap<String, Settings>) {
    if let Some(tool) = tools.iter().find(|tool| tool.starts_with(prefix)) {
        section.wrong("prefix", format!("{prefix} begins the name of tools.{tool}; choose another"));
    }
    let meets = |server: &Settings| prefix.starts_with(&server.prefix) || server.prefix.starts_with(prefix);
    if let Some((name, server)) = earlier.iter().find(|(_, server)| meets(server)) {
        let wrong =
            format!("{prefix} and {} of mcp_servers.{name} cannot be told apart; choose another", server.prefix);
        section.wrong("prefix", wrong);
    }
}

fn prefix(node: &Node) -> Read<String> {
    let text = scalar::text(node)?;
    let fits = text.len() <= 32 && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if fits { Ok(text) } else { Err("must be 1 to 32 letters, digits, _ and -".to_owned()) }
}

fn pin(node: &Node) -> Read<BlobHash> {
    let text = scalar::text(node)?;
    let wrong = || format!("must be sha256: and 64 hex digits, not {}", scalar::show(node));
    text.parse().map_err(|_| wrong())
}

/// A server's own name of a tool, whatever it is.
fn remote_name(name: &str) -> Read<()> {
    if name.is_empty() || name.len() > 256 { Err("must have 1 to 256 characters".to_owned()) } else { Ok(()) }
}

fn variable(name: &str) -> Read<()> {
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if fits { Ok(()) } else { Err("a variable's name must be letters, digits and _".to_owned()) }
}
