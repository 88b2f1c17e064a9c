//! The series of tool definitions that MCP servers brought or changed.
//!
//! It must never make a label of a tool's name: what a server calls its tools is its own word.

use std::collections::HashMap;

use prometheus::{IntCounter, Registry};

use super::{MetricLabels, catalogue as c, series::counters};
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
