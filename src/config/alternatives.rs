//! `fallback_tool`: whether the tools that stand in for others can do so, which only the whole
//! configuration can say.

use std::collections::{BTreeMap, BTreeSet};

use super::{agents::Agent, reader::Section, tools::Tool};
use crate::tool::mcp::Settings;

/// The key.
const KEY: &str = "fallback_tool";

/// What there is.
pub(super) struct Parts<'a> {
    pub(super) agents: &'a BTreeMap<String, Agent>,
    pub(super) tools: &'a BTreeMap<String, Tool>,
    pub(super) servers: &'a BTreeMap<String, Settings>,
}

/// Notes every alternative that is not there, that an agent lacks, or that leads back.
pub(super) fn check(root: &Section<'_>, parts: &Parts<'_>) {
    let note = |name: &str, other: Option<&String>, path: &[&str]| {
        if let Some(wrong) = other.and_then(|other| parts.wrong(name, other)) {
            root.wrong_at(path, wrong);
        }
    };
    for (name, tool) in parts.tools {
        note(name, tool.fallback_tool.as_ref(), &["tools", name, KEY]);
    }
    for (name, server) in parts.servers {
        note(&format!("{}*", server.prefix), server.all.fallback_tool.as_ref(), &["mcp_servers", name, KEY]);
        for (tool, rules) in &server.each {
            let path = ["mcp_servers", name, "overrides", tool, KEY];
            note(&format!("{}{tool}", server.prefix), rules.fallback_tool.as_ref(), &path);
        }
    }
}

impl Parts<'_> {
    /// What is wrong with `other` as the alternative of `name`, which may be all tools of a server.
    fn wrong(&self, name: &str, other: &str) -> Option<String> {
        if !self.tools.contains_key(other) && self.prefix(other).is_none() {
            let known = self.tools.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Some(format!("must be the name of a tool, not {other}; declared: {known}"));
        }
        if other == name || self.leads_back(name) {
            return Some(format!("must not lead back to {name}"));
        }
        if self.prefix(name).is_some() && self.prefix(name) == self.prefix(other) {
            return Some(format!("must not be a tool of the same server, which fails together with {name}"));
        }
        let circuit = |name: &str| self.tools.get(name).and_then(|tool| tool.circuit.as_ref());
        if let Some(shared) = circuit(name).filter(|own| circuit(other) == Some(own)) {
            return Some(format!("must not share the circuit {shared}, which is open for both"));
        }
        let lacks = |agent: &Agent| {
            agent.tools.iter().any(|asked| meets(asked, name)) && !agent.tools.iter().any(|asked| meets(asked, other))
        };
        let (agent, _) = self.agents.iter().find(|(_, agent)| lacks(agent))?;
        Some(format!("must be a tool of every agent that has {name}; agents.{agent}.tools lacks {other}"))
    }

    /// Whether following the alternatives from one tool to the next comes back to it.
    fn leads_back(&self, name: &str) -> bool {
        let next = |name: &str| self.tools.get(name).and_then(|tool| tool.fallback_tool.as_deref());
        let (mut seen, mut at) = (BTreeSet::new(), next(name));
        while let Some(other) = at.filter(|other| seen.insert((*other).to_owned())) {
            if other == name {
                return true;
            }
            at = next(other);
        }
        false
    }

    /// The prefix of the server that a tool belongs to.
    fn prefix(&self, name: &str) -> Option<&str> {
        let prefixes = self.servers.values().map(|server| server.prefix.as_str());
        prefixes.into_iter().find(|prefix| name.starts_with(prefix))
    }
}

/// Whether a name that an agent asks for stands for this tool, or for one of these tools.
fn meets(asked: &str, name: &str) -> bool {
    let begins = |pattern: &str, name: &str| pattern.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix));
    asked == name || begins(asked, name) || begins(name, asked)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Config;

    const CONFIG: &str = "
agents:
  a: {system_prompt: A., model: m, tools: [first, second, web_*]}
  b: {system_prompt: B., model: m, tools: [second]}
models:
  m: {provider: scripted, script: bank}
mcp_servers:
  web: {command: [server]}
tools:
  first: {builtin: txn_sum}
  second: {builtin: txn_sum}
  third: {builtin: txn_sum}
";

    /// What the report says of a configuration in which this line is another.
    fn wrong(old: &str, new: &str) -> String {
        let text = CONFIG.replace(old, new);
        assert_ne!(text, CONFIG);
        match Config::from_text("t", text.as_bytes(), Path::new(""), &Default::default()) {
            Ok(_) => String::new(),
            Err(report) => report.to_string(),
        }
    }

    #[test]
    fn an_alternative_must_be_there_for_every_agent_and_not_lead_back() {
        let first = |other: &str| {
            wrong("first: {builtin: txn_sum}", &format!("first: {{builtin: txn_sum, fallback_tool: {other}}}"))
        };
        assert_eq!(first("second"), "");
        assert_eq!(first("web_search"), "");
        assert!(first("nobody").contains("tools.first.fallback_tool: must be the name of a tool, not nobody"));
        assert!(first("first").contains("must not lead back to first"), "{}", first("first"));
        assert!(first("third").contains("agents.a.tools lacks third"), "{}", first("third"));
        let second = wrong("second: {builtin: txn_sum}", "second: {builtin: txn_sum, fallback_tool: first}");
        assert!(second.contains("every agent that has second; agents.b.tools lacks first"), "{second}");
        let round = wrong(
            "first: {builtin: txn_sum}\n  second: {builtin: txn_sum}",
            "first: {builtin: txn_sum, fallback_tool: second}\n  second: {builtin: txn_sum, fallback_tool: first}",
        );
        assert!(round.contains("tools.first.fallback_tool: must not lead back to first"), "{round}");
    }

    #[test]
    fn what_fails_together_is_no_alternative() {
        let both = wrong(
            "first: {builtin: txn_sum}\n  second: {builtin: txn_sum}",
            "first: {builtin: txn_sum, circuit: bank, fallback_tool: second}\n  second: {builtin: txn_sum, circuit: bank}",
        );
        assert!(both.contains("must not share the circuit bank"), "{both}");
        let server = |other: &str| {
            wrong("command: [server]", &format!("command: [server], overrides: {{read: {{fallback_tool: {other}}}}}"))
        };
        assert_eq!(server("second"), "");
        assert!(server("web_other").contains("mcp_servers.web.overrides.read.fallback_tool: must not be a tool of"));
        let all = wrong("command: [server]", "command: [server], fallback_tool: third");
        assert!(all.contains("every agent that has web_*; agents.a.tools lacks third"), "{all}");
    }
}
