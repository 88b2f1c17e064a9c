//! The series of tool definitions that MCP servers brought or changed.
//!
//! It must never make a label of a tool's name: what a server calls its tools is its own word.

use std::collections::HashMap;

use prometheus::{IntCounter, Registry};

use super::{MetricLabels, catalogue as c, make::counters};
use crate::core::fact::{DefinitionChange, DefinitionVerdict};

/// Of each configured server, a counter for each verdict.
pub(super) struct Definitions {
    servers: HashMap<String, [IntCounter; 3]>,
}

impl Definitions {
    pub(super) fn new(registry: &Registry, labels: &MetricLabels) -> Result<Self, prometheus::Error> {
        let changes = counters(registry, &c::DEFINITIONS)?;
        let series = |server: &String| {
            let each = DefinitionVerdict::ALL.map(|verdict| changes.with_label_values(&[server, verdict.label()]));
            (server.clone(), each)
        };
        Ok(Self { servers: labels.mcp_servers.iter().map(series).collect() })
    }

    /// A definition is new, or no longer as it was; only configured servers are listened to.
    pub(super) fn count(&self, change: &DefinitionChange) {
        if let Some(series) = self.servers.get(&change.server) {
            series[change.verdict() as usize].inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::{BlobHash, ToolDefinition};

    fn change(server: &str, old: Option<u8>, blocked: bool) -> DefinitionChange {
        let definition = ToolDefinition { name: "read".into(), description: String::new(), input_schema: json!({}) };
        let (old, new) = (old.map(|byte| BlobHash::from_bytes([byte; 32])), BlobHash::from_bytes([9; 32]));
        let (server, tool) = (server.to_owned(), "read".to_owned());
        DefinitionChange { server, tool, called: None, old, new, blocked, definition }
    }

    #[test]
    fn definitions_are_counted_by_what_became_of_them() {
        let labels = MetricLabels { mcp_servers: vec!["files".into()], ..MetricLabels::default() };
        let definitions = Definitions::new(&Registry::new(), &labels).expect("a family");
        for (server, old, blocked) in [
            ("files", None, false),
            ("files", Some(1), false),
            ("files", Some(1), true),
            ("files", None, true),
            ("gone", None, false),
        ] {
            definitions.count(&change(server, old, blocked));
        }
        let counted = definitions.servers["files"].each_ref().map(IntCounter::get);
        assert_eq!(counted, [1, 1, 2], "new, accepted, blocked");
        assert_eq!(definitions.servers.len(), 1, "a server that is no longer configured has no series");
    }
}
