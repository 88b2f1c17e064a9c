//! OpenAI-compatible chat completions over HTTP, plain and as a stream.
//!
//! It must never know another provider's form, nor what the loop does with a reply.

mod reply;
mod request;

use async_trait::async_trait;

use self::reply::CompletionReader;
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
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// The key under which a server takes the limit of output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxTokensKey {
    /// `max_tokens`, which most compatible servers know.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI asks for.
    MaxCompletionTokens,
}

/// A model of OpenAI, or of a server that speaks its chat completions.
pub struct OpenAi {
    info: ModelInfo,
    endpoint: Endpoint,
    stream: bool,
    max_tokens_key: MaxTokensKey,
    counting: Counting,
}

impl MaxTokensKey {
    /// Both, with their words in configuration.
    pub const ALL: [(&'static str, Self); 2] =
        [("max_tokens", Self::MaxTokens), ("max_completion_tokens", Self::MaxCompletionTokens)];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

impl OpenAi {
    /// A model that is reached this way.
    ///
    /// # Errors
    /// Where the address or a header cannot be used.
    pub fn new(info: ModelInfo, access: &Access, max_tokens_key: MaxTokensKey, client: Client) -> Result<Self, Error> {
        let bearer = access.api_key.as_ref().map(|key| Sensitive::new(format!("Bearer {}", key.expose())));
        let headers: Vec<_> = bearer.map(|bearer| ("authorization", bearer)).into_iter().collect();
        let endpoint = Endpoint::new(client, access, "/chat/completions", &headers)?;
        Ok(Self { info, endpoint, stream: access.stream, max_tokens_key, counting: Counting::Estimate })
    }

    /// The same, with requests counted before they are made; the API itself counts none.
    #[must_use]
    pub fn counting(self, counting: Counting) -> Self {
        Self { counting, ..self }
    }
}

impl std::fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAi").field("info", &self.info).finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for OpenAi {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        request::encode(request, &self.info.request_model, self.max_tokens_key, self.stream)
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        let reader = || CompletionReader::new(call.body, &self.info.request_model, self.endpoint.secrets());
        exchange(&self.endpoint, call, self.stream, reader).await
    }

    fn counted_by(&self) -> CountedBy {
        self.counting.by()
    }

    async fn count(&self, request: &ModelRequest, _trace: TraceContext) -> Option<u64> {
        match self.counting {
            Counting::Tokenizer(tokenizer) => tokens::count(tokenizer, request).await,
            Counting::Estimate | Counting::Provider => None,
        }
    }
}
