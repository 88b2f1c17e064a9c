//! Anthropic Messages over HTTP, plain and as a stream.
//!
//! It must never know another provider's form, nor what the loop does with a reply.

mod reply;
mod request;

use async_trait::async_trait;
use serde_json::Value;

use self::reply::MessageReader;
use super::{
    exchange::exchange,
    http::{Access, Client, Endpoint, Error},
    tokens::{self, Counting},
};
use crate::core::{
    Fault, Model, ModelReply, ModelRequest, Sensitive,
    fact::{CountedBy, ModelInfo},
    port::{ModelCallInput, TraceContext},
};

/// The address that is meant where none is configured.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// The model that is meant where none is configured.
pub const MODEL: &str = "claude-sonnet-5-5";

/// The version of the API whose forms these are.
const VERSION: &str = "2026-10-21";

/// A model of Anthropic, or of a server that speaks its Messages API.
pub struct Anthropic {
    info: ModelInfo,
    endpoint: Endpoint,
    /// Where it is counted, and by whom.
    counter: Endpoint,
    counting: Counting,
    stream: bool,
}

impl Anthropic {
    /// A model that is reached this way.
    ///
    /// # Errors
    /// Where the address or a header cannot be used.
    pub fn new(info: ModelInfo, access: &Access, client: Client) -> Result<Self, Error> {
        let mut headers = vec![("anthropic-version", Sensitive::from(VERSION))];
        headers.extend(access.api_key.clone().map(|key| ("x-api-key", key)));
        let endpoint = Endpoint::new(client.clone(), access, "/v1/messages", &headers)?;
        let counter = Endpoint::new(client, access, "/v1/messages/count_tokens", &headers)?;
        Ok(Self { info, endpoint, counter, counting: Counting::Estimate, stream: access.stream })
    }

    /// The same, with requests counted before they are made.
    #[must_use]
    pub fn counting(self, counting: Counting) -> Self {
        Self { counting, ..self }
    }

    async fn ask_for_count(&self, request: &ModelRequest, trace: TraceContext) -> Option<u64> {
        let body = request::encode_count(request, &self.info.request_model);
        let (_, response) = self.counter.post(body.into(), trace, false).await.ok()?;
        let body = self.counter.body_of(response).await.ok()?;
        serde_json::from_str::<Value>(&body).ok()?.get("input_tokens")?.as_u64()
    }
}

impl std::fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Anthropic").field("info", &self.info).finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for Anthropic {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        request::encode(request, &self.info.request_model, self.stream)
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        let reader = || MessageReader::new(call.body, &self.info.request_model, self.endpoint.secrets());
        exchange(&self.endpoint, call, self.stream, reader).await
    }

    fn counted_by(&self) -> CountedBy {
        self.counting.by()
    }

    async fn count(&self, request: &ModelRequest, trace: TraceContext) -> Option<u64> {
        match self.counting {
            Counting::Estimate => None,
            Counting::Provider => self.ask_for_count(request, trace).await,
            Counting::Tokenizer(tokenizer) => tokens::count(tokenizer, request).await,
        }
    }
}
