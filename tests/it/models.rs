//! Models over HTTP: against recorded traffic, and a provider of the test that plays what
//! providers do right and wrong, byte by byte where it matters.

mod broken;
mod pool;
pub(crate) mod provider;
mod react;
mod sessions;
mod streaming;
mod structured;
mod wire;

use std::{collections::BTreeMap, sync::Arc};

use glassbox::core::{
    Fault, Message, Model, ModelReply, ModelRequest, SpanId, ToolDefinition, TraceId,
    fact::ModelInfo,
    port::{ModelCallInput, Nobody, TraceContext},
};
use glassbox::model::{Access, Anthropic, Client, Counting, OpenAi, openai::MaxTokensKey};
use glassbox::runtime::SystemClock;
use serde_json::json;

use self::provider::Provider;

const KEY: &str = "sk-hunter2-hunter2";

/// The two wire formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Anthropic,
    OpenAi,
}

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::OpenAi];

impl Wire {
    fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// A model of this wire at this address.
    fn model(self, base_url: &str, stream: bool) -> Arc<dyn Model> {
        let info = ModelInfo {
            name: "test".into(),
            request_model: "test-1".into(),
            provider: self.name().into(),
            context_window: 8000,
            max_output_tokens: 1000,
            prices: None,
        };
        let headers = BTreeMap::from([("x-tenant".to_owned(), "demo".into())]);
        let access = Access { base_url: base_url.into(), api_key: Some(KEY.into()), headers, stream };
        let client = Client::new(Arc::new(SystemClock)).expect("a client");
        match self {
            Self::Anthropic => Arc::new(Anthropic::new(info, &access, client).expect("a model")),
            Self::OpenAi => Arc::new(OpenAi::new(info, &access, MaxTokensKey::MaxTokens, client).expect("a model")),
        }
    }
}

fn request() -> ModelRequest {
    ModelRequest {
        system: "Help.".into(),
        messages: vec![Message::User { content: "What is the weather in Paris?".into() }],
        tools: [ToolDefinition {
            name: "get_weather".into(),
            description: "The weather.".into(),
            input_schema: json!({"type": "object", "properties": {"city": {"type": "string"}},
                "required": ["city"], "additionalProperties": false}),
        }]
        .into(),
        max_tokens: 300,
        ..ModelRequest::default()
    }
}

/// A model whose provider counts.
fn counting_anthropic(base_url: &str) -> Anthropic {
    let info = Wire::Anthropic.model(base_url, false).info().clone();
    let access =
        Access { base_url: base_url.into(), api_key: Some(KEY.into()), headers: BTreeMap::new(), stream: false };
    let client = Client::new(Arc::new(SystemClock)).expect("a client");
    Anthropic::new(info, &access, client).expect("a model").counting(Counting::Provider)
}

fn trace() -> TraceContext {
    TraceContext { trace_id: TraceId::from_bytes([0xab; 16]), span_id: SpanId::from_bytes([0xcd; 8]), sampled: true }
}

/// Asks the model once.
async fn ask(model: &dyn Model) -> Result<ModelReply, Fault> {
    let request = request();
    let body = model.encode(&request).into();
    model.call(ModelCallInput { request: &request, body: &body, trace: trace(), progress: &Nobody }).await
}

/// Tokens of the request by estimate: a quarter of its bytes.
fn estimated_input(model: &dyn Model) -> u64 {
    (model.encode(&request()).len() as u64).div_ceil(4)
}
