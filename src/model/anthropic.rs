//! Anthropic Messages over HTTP, plain and as a stream.
//!
//! It must never know another provider's form, nor what the loop does with a reply.

mod reply;
mod request;

use async_trait::async_trait;

use self::reply::MessageReader;
use super::{
    exchange::exchange,
    http::{Access, Client, Endpoint, Error},
};
use crate::core::{Fault, Model, ModelReply, ModelRequest, Sensitive, fact::ModelInfo, port::ModelCallInput};

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
        let endpoint = Endpoint::new(client, access, "/v1/messages", &headers)?;
        Ok(Self { info, endpoint, stream: access.stream })
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
        let reader = MessageReader::new(call.body, &self.info.request_model, self.endpoint.secrets());
        exchange(&self.endpoint, call, self.stream, reader).await
    }
}
