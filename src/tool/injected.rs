//! A tool that is slow or fails on purpose, by a rule; the rest is the tool behind it.
//!
//! A call that fails so never reaches that tool. It must never fail where the rule does not say so.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use serde_json::Value;

use crate::core::{
    Fault, Injection, Tool, ToolSpec,
    fact::McpPeer,
    port::{ToolContext, ToolReply},
};

/// A tool with faults on purpose.
pub struct Injected {
    inner: Arc<dyn Tool>,
    rule: Injection,
    calls: AtomicU64,
}

impl Injected {
    /// Does this to the calls of a tool.
    pub fn new(inner: Arc<dyn Tool>, rule: Injection) -> Self {
        Self { inner, rule, calls: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Tool for Injected {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    async fn call(&self, cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.rule.latency).await;
        if self.rule.strikes(number) {
            return Err(self.rule.fault());
        }
        self.inner.call(cx, arguments).await
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn mcp(&self) -> Option<McpPeer> {
        self.inner.mcp()
    }

    async fn probe(&self) -> Result<(), Fault> {
        self.inner.probe().await
    }

    fn check(&self, cx: &ToolContext, arguments: &Value) -> Result<(), String> {
        self.inner.check(cx, arguments)
    }
}
