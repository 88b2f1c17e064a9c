//! A model that is slow or fails on purpose, by a rule; the rest is the model behind it.
//!
//! It must never fail where the rule does not say so.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;

use crate::core::{
    Fault, Injection, Model, ModelReply, ModelRequest,
    fact::{CountedBy, ModelInfo},
    port::{ModelCallInput, TraceContext},
};

/// A model with faults on purpose.
pub struct Injected {
    inner: Arc<dyn Model>,
    rule: Injection,
    calls: AtomicU64,
}

impl Injected {
    /// Does this to the calls of a model.
    pub fn new(inner: Arc<dyn Model>, rule: Injection) -> Self {
        Self { inner, rule, calls: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Model for Injected {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        self.inner.encode(request)
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.rule.latency).await;
        if self.rule.strikes(number) {
            return Err(self.rule.fault());
        }
        self.inner.call(call).await
    }

    fn form_tokens(&self, tools: usize) -> u64 {
        self.inner.form_tokens(tools)
    }

    fn counted_by(&self) -> CountedBy {
        self.inner.counted_by()
    }

    async fn count(&self, request: &ModelRequest, trace: TraceContext) -> Option<u64> {
        self.inner.count(request, trace).await
    }
}
