//! What a configuration allows that is rarely meant.

use std::time::Duration;

use super::{Config, Store, units};
use crate::core::{Effect, fact::SpanContent};

impl Config {
    /// What is allowed but rarely meant, one phrase each, for `check`.
    pub fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        for (name, tool) in &self.tools {
            if !(Duration::from_secs(10)..=Duration::from_secs(30)).contains(&tool.timeout) {
                let timeout = units::write_duration(tool.timeout);
                hints.push(format!("tools.{name}.timeout: 10s to 30s are recommended, this is {timeout}"));
            }
            if tool.only_asks() && tool.effect == Effect::Unsafe {
                hints.push(format!(
                    "tools.{name}.effect: it seems to read only; with effect: read it can be tried again"
                ));
            }
            if !self.agents.values().any(|agent| agent.tools.contains(name)) {
                hints.push(format!("tools.{name}: no agent uses it"));
            }
            if self.auth.login.is_some() {
                continue;
            }
            let missing: Vec<&str> = tool.scopes.iter().map(String::as_str).collect();
            let missing =
                missing.into_iter().filter(|scope| !self.auth.default_principal.scopes.iter().any(|own| own == scope));
            for scope in missing {
                hints.push(format!("tools.{name}.scopes: auth.default_principal does not hold {scope}"));
            }
        }
        for (name, model) in self.models.iter().filter(|(_, model)| model.provider.shows_key()) {
            let url = model.provider.access().map_or("", |access| &access.base_url);
            hints.push(format!("models.{name}.base_url: {url} sends the key in the clear; use https"));
        }
        hints.extend(self.injections());
        for name in self.models.keys().filter(|name| !self.agents.values().any(|agent| agent.model == **name)) {
            hints.push(format!("models.{name}: no agent uses it"));
        }
        for (name, server) in &self.mcp_servers {
            let used = |tool: &String| tool.starts_with(&server.prefix);
            if !self.agents.values().any(|agent| agent.tools.iter().any(used)) {
                hints.push(format!("mcp_servers.{name}: no agent uses it"));
            }
        }
        if self.auth.login.is_some() && !self.server.listen.ip().is_loopback() {
            hints.push(
                "server.listen: keys and tokens come in the clear; put a proxy that speaks https before it".to_owned(),
            );
        }
        hints.extend(self.shown_content());
        if self.store == Store::Memory {
            hints.push("store.kind: memory forgets every session at a restart".to_owned());
        }
        hints
    }

    /// What goes to the collector of what people say, in one phrase; nothing where nothing does.
    pub fn shown_content(&self) -> Option<String> {
        match (self.privacy.span_content, &self.telemetry.otlp) {
            (SpanContent::Off, _) => None,
            (_, None) => Some("privacy.span_content: shows nothing while no trace is exported".to_owned()),
            (SpanContent::Masked, Some(_)) => Some(
                "privacy.span_content: traces show what people say; what looks personal or secret is masked, by its \
                 shape alone"
                    .to_owned(),
            ),
            (SpanContent::Full, Some(_)) => Some(
                "privacy.span_content: traces show what people say, as it is; whoever reads traces reads it".to_owned(),
            ),
        }
    }
}
