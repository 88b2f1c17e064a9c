//! A tool made of a closure: with arguments as JSON, as a type of the program, or with code that
//! blocks.

use std::{fmt, future::Future, sync::Arc};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::schema::{Schema, Strict};
use crate::core::{
    Fault, FaultKind, Tool, ToolSpec,
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

/// What a tool with typed arguments does in an attempt.
pub type TypedFunction = Box<dyn Fn(ToolContext, Value) -> BoxFuture<'static, Result<ToolReply, Fault>> + Send + Sync>;

impl FnTool<TypedFunction> {
    /// A tool whose arguments are a type of the program. [`spec_of`] makes the spec from the type.
    ///
    /// ```
    /// use glassbox::{schemars, Effect, FnTool, JsonSchema, ToolReply, tool::spec_of};
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Convert {
    ///     /// Tenge.
    ///     amount: u64,
    ///     currency: Option<String>,
    /// }
    ///
    /// let spec = spec_of::<Convert>("convert", "What an amount of tenge is worth.").effect(Effect::Read);
    /// let tool = FnTool::typed(spec, |_cx, arguments: Convert| async move {
    ///     Ok(ToolReply::Json(json!({"dollars": arguments.amount / 521})))
    /// });
    /// ```
    pub fn typed<A, F, Fut>(spec: ToolSpec, function: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolReply, Fault>> + Send + 'static,
    {
        let function: TypedFunction = Box::new(move |cx, arguments| match parse(arguments) {
            Ok(arguments) => Box::pin(function(cx, arguments)),
            Err(fault) => Box::pin(std::future::ready(Err(fault))),
        });
        Self { spec, function }
    }

    /// The same with code that blocks, which runs on a thread where that is allowed. It is not
    /// stopped where its time is over: what it does then is done.
    pub fn blocking<A, F>(spec: ToolSpec, function: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        F: Fn(ToolContext, A) -> Result<ToolReply, Fault> + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        Self::typed(spec, move |cx, arguments| {
            let (function, span) = (Arc::clone(&function), tracing::Span::current());
            async move {
                let work = tokio::task::spawn_blocking(move || span.in_scope(|| function(cx, arguments))).await;
                work.unwrap_or_else(|error| {
                    let kind = if error.is_panic() { FaultKind::Panic } else { FaultKind::Internal };
                    Err(Fault::new(kind, "the tool's code broke off"))
                })
            }
        })
    }
}

/// The spec of a tool whose arguments are a type: its schema, closed, and the cautious defaults of
/// [`ToolSpec::new`]. A type whose schema cannot be closed is refused when the tool is registered.
pub fn spec_of<A: JsonSchema>(name: impl Into<String>, description: impl Into<String>) -> ToolSpec {
    let plain = |settings: &mut SchemaSettings| {
        settings.meta_schema = None;
        // Models read a schema that stands in one place better than one with references.
        settings.inline_subschemas = true;
    };
    let generator = SchemaSettings::draft2020_12().with(plain).into_generator();
    let mut schema = Value::from(generator.into_root_schema_for::<A>());
    if let Some(fields) = schema.as_object_mut() {
        // The name of a Rust type says nothing to a model.
        fields.remove("title");
    }
    let closed = Schema::compile(&schema, Strict::Close).map(|closed| closed.source().clone());
    ToolSpec::new(name, description, closed.unwrap_or(schema))
}

fn parse<A: DeserializeOwned>(arguments: Value) -> Result<A, Fault> {
    serde_json::from_value(arguments)
        .map_err(|error| Fault::new(FaultKind::Refused, format!("the arguments do not fit: {error}")))
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::{
        core::{Principal, SessionId, SpanId, port::TraceContext},
        tool::{Registration, Registry},
    };

    #[derive(Deserialize, JsonSchema)]
    struct Convert {
        /// Tenge.
        amount: u8,
        currency: Option<String>,
        #[serde(default)]
        parts: Vec<Part>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    struct Part {
        share: f64,
    }

    fn cx() -> ToolContext {
        let session = SessionId::from_bytes([7; 16]);
        let principal =
            Principal { id: "C-1".into(), scopes: Vec::new(), roles: Vec::new(), attributes: Default::default() };
        let trace = TraceContext { trace_id: session.trace_id(), span_id: SpanId::of_fact(session, 1), sampled: true };
        ToolContext::new(session, Arc::new(principal), "a", trace)
    }

    #[test]
    fn a_type_gives_a_closed_schema_that_the_registry_takes() {
        let spec = spec_of::<Convert>("convert", "What it is worth.");
        let schema = &spec.definition.input_schema;
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["amount"]["description"], json!("Tenge."));
        assert_eq!(schema["properties"]["amount"]["maximum"], json!(255));
        assert_eq!(schema["required"], json!(["amount"]));
        assert_eq!(schema["properties"]["parts"]["items"]["additionalProperties"], json!(false));
        assert_eq!((schema.get("title"), schema.get("$schema")), (None, None));
        let tool = FnTool::typed(spec, |_, _: Convert| async { Ok(ToolReply::Text(String::new())) });
        assert!(Registry::new(vec![Registration::new(Arc::new(tool))]).is_ok());
    }

    #[tokio::test]
    async fn arguments_come_as_the_type() {
        let tool = FnTool::typed(spec_of::<Convert>("convert", ""), |cx, it: Convert| async move {
            let shares: f64 = it.parts.iter().map(|part| part.share).sum();
            Ok(ToolReply::Json(json!([cx.principal.id, it.amount, it.currency, shares])))
        });
        let reply = tool.call(&cx(), json!({"amount": 5, "parts": [{"share": 0.5}, {"share": 1}]})).await;
        assert_eq!(reply, Ok(ToolReply::Json(json!(["C-1", 5, null, 1.5]))));
        let fault = tool.call(&cx(), json!({"amount": 256})).await.expect_err("no u8");
        assert_eq!(fault.kind, FaultKind::Refused);
    }

    #[tokio::test]
    async fn code_that_blocks_runs_elsewhere_and_its_panic_is_a_fault() {
        let here = std::thread::current().id();
        let tool = FnTool::blocking(spec_of::<Convert>("convert", ""), move |_, it: Convert| {
            assert!(it.amount < 10, "too much");
            Ok(ToolReply::Json(json!(std::thread::current().id() != here)))
        });
        assert_eq!(tool.call(&cx(), json!({"amount": 5})).await, Ok(ToolReply::Json(json!(true))));
        assert_eq!(tool.call(&cx(), json!({"amount": 50})).await.expect_err("a panic").kind, FaultKind::Panic);
    }
}
