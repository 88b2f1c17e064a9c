//! Tools of MCP servers: listed by the server, called over the pipes of a child process or over
//! HTTP, by the official client.
//!
//! A [`Server`] is kept connected by a task of its own, which the runtime starts; a tool holds on
//! to its server and not to a connection, so that it outlives every restart. What a server says of
//! its tools is somebody else's word: names are made safe, schemas closed, changes noted.
//! It must never know sessions, and never starts a task in the trace of one.

mod child;
mod connect;
mod content;
mod drift;
mod fault;
mod listing;
mod naming;
mod server;
mod settings;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

pub use self::{
    server::{Listing, Server},
    settings::{OnDrift, Reach, Settings},
};
use crate::core::{
    Fault, FaultKind, Tool, ToolSpec,
    fact::McpPeer,
    port::{ToolContext, ToolReply},
};

/// One tool of a server.
struct McpTool {
    spec: ToolSpec,
    /// The server's own name of it.
    remote: String,
    server: Arc<Server>,
}

impl McpTool {
    fn blocked(&self) -> String {
        let (name, server) = (self.spec.name(), self.server.name());
        format!(
            "the definition of {name} at the MCP server {server} changed, and it is blocked until an operator accepts it"
        )
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> &'static str {
        "mcp"
    }

    fn mcp(&self) -> Option<McpPeer> {
        Some(McpPeer { protocol: self.server.protocol(), way: self.server.settings().reach.way()? })
    }

    async fn probe(&self) -> Result<(), Fault> {
        if self.server.is_blocked(&self.remote) {
            return Err(Fault::new(FaultKind::Refused, self.blocked()));
        }
        match self.server.trouble() {
            Some(why) => Err(Fault::new(FaultKind::Connection, why)),
            None => Ok(()),
        }
    }

    fn check(&self, _cx: &ToolContext, _arguments: &Value) -> Result<(), String> {
        if !self.server.is_blocked(&self.remote) {
            return Ok(());
        }
        Err(self.blocked())
    }

    async fn call(&self, cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
        match arguments {
            Value::Object(arguments) => self.server.call(&self.remote, arguments, cx).await,
            _ => Err(Fault::new(FaultKind::Refused, "the arguments are no object")),
        }
    }
}
