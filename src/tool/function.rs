//! A tool made of a closure.

use std::{fmt, future::Future};

use async_trait::async_trait;
use serde_json::Value;

use crate::core::{
    Fault, Tool, ToolSpec,
    port::{ToolContext, ToolReply},
};

/// A tool whose code is a closure.
///
/// ```
/// use glassbox::{Effect, ToolReply, ToolSpec, tool::FnTool};
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
/// let spec = ToolSpec::new("whoami", "The customer's number.", schema).effect(Effect::Read);
/// let tool = FnTool::new(spec, |cx, _arguments| async move { Ok(ToolReply::Text(cx.principal.id.clone())) });
/// ```
pub struct FnTool<F> {
    spec: ToolSpec,
    function: F,
}

impl<F, Fut> FnTool<F>
where
    F: Fn(ToolContext, Value) -> Fut + Send + Sync,
    Fut: Future<Output = Result<ToolReply, Fault>> + Send,
{
    /// A tool that runs `function` for each attempt.
    pub const fn new(spec: ToolSpec, function: F) -> Self {
        Self { spec, function }
    }
}

impl<F> fmt::Debug for FnTool<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

#[async_trait]
impl<F, Fut> Tool for FnTool<F>
where
    F: Fn(ToolContext, Value) -> Fut + Send + Sync,
    Fut: Future<Output = Result<ToolReply, Fault>> + Send,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
        (self.function)(cx.clone(), arguments).await
    }
}
