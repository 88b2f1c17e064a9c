//! The way to a provider over HTTP: one endpoint a model, through the client that all of them share.
//!
//! A credential stands in a header that is marked as sensitive and nowhere else. It must never
//! know what a body means; timeouts and repeats are the policy's.

mod failure;

use std::collections::BTreeMap;

use bytes::Bytes;
use reqwest::{
    Response, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

pub(super) use self::failure::{error_in, phrase};
pub use crate::web::Client;
use crate::{
    core::{
        Fault, FaultKind, Sensitive,
        port::{ModelCallInput, TraceContext},
        retry_after,
    },
    web::{self, unsent},
};

/// Bytes of a reply at the most.
pub(super) const MAX_REPLY: usize = 32 << 20;
/// Bytes of an error's body that are read.
const MAX_ERROR: usize = 64 << 10;

/// Where a model is reached, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// What stands before the path of a call.
    pub base_url: String,
    /// The credential; servers of one's own often ask for none.
    pub api_key: Option<Sensitive<String>>,
    /// Further headers of each request; they win over our own.
    pub headers: BTreeMap<String, Sensitive<String>>,
    /// Whether replies are asked for as streams.
    pub stream: bool,
}

/// What is wrong with the way to a model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client.
    #[error(transparent)]
    Client(#[from] web::Error),
    /// The address.
    #[error("base_url must be an http or https address, not {0:?}")]
    BaseUrl(String),
    /// A header or the credential.
    #[error("{0} holds characters that no HTTP header may hold")]
    Header(String),
}

/// Where one model is asked.
#[derive(Clone)]
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
    secrets: Vec<Sensitive<String>>,
}

/// How a reply comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As one body.
    Whole,
    /// As a stream of events.
    Stream,
}

impl Endpoint {
    /// The endpoint of this path under the base, with these headers of the provider.
    pub(super) fn new(
        client: Client,
        access: &Access,
        path: &str,
        own: &[(&'static str, Sensitive<String>)],
    ) -> Result<Self, Error> {
        let url = url(&access.base_url, path)?;
        client.check_scheme(url.scheme())?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let given = access.headers.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in own.iter().map(|(name, value)| (*name, value)).chain(given) {
            let wrong = |_| Error::Header(format!("the header {name}"));
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(()))?;
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| wrong(()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let secrets = access.api_key.iter().chain(access.headers.values()).cloned().collect();
        Ok(Self { client, url, headers, secrets })
    }

    /// What must not come back in the text of an error.
    pub(super) fn secrets(&self) -> &[Sensitive<String>] {
        &self.secrets
    }

    /// Sends a request; what comes back is the beginning of a reply.
    pub(super) async fn send(&self, call: ModelCallInput<'_>, stream: bool) -> Result<(Form, Response), Fault> {
        self.post(call.body.clone(), call.trace, stream).await
    }

    /// Sends a body.
    pub(super) async fn post(&self, body: Bytes, trace: TraceContext, stream: bool) -> Result<(Form, Response), Fault> {
        let accept = if stream { "text/event-stream" } else { "application/json" };
        let request = self
            .client
            .inner()
            .post(self.url.clone())
            .header(ACCEPT, accept)
            .header("traceparent", trace.traceparent())
            .headers(self.headers.clone())
            .body(body);
        let response = request.send().await.map_err(|error| unsent(&error, "the provider"))?;
        if !response.status().is_success() {
            return Err(self.failure(response).await);
        }
        Ok((form(&response, stream), response))
    }

    /// The whole body of a reply.
    pub(super) async fn body_of(&self, response: Response) -> Result<String, Fault> {
        let (body, end) = read(response, MAX_REPLY).await;
        match end {
            End::All => String::from_utf8(body).map_err(|_| Fault::new(FaultKind::Malformed, "the reply is not UTF-8")),
            End::Cut => Err(Fault::new(FaultKind::Malformed, format!("the reply is longer than {MAX_REPLY} bytes"))),
            End::Broken(error) => {
                Err(Fault::new(FaultKind::Transport, format!("the reply broke off: {}", web::describe(&error))))
            }
        }
    }

    async fn failure(&self, response: Response) -> Fault {
        let status = response.status().as_u16();
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let wait = retry_after::asked(text, self.client.now());
        let (body, _) = read(response, MAX_ERROR).await;
        let fault = failure::of_response(status, &body, &self.secrets);
        match wait {
            Some(wait) => fault.retry_after(wait),
            None => fault,
        }
    }
}

/// Why reading a body ended.
enum End {
    All,
    Cut,
    Broken(reqwest::Error),
}

async fn read(mut response: Response, most: usize) -> (Vec<u8>, End) {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > most => return (body, End::Cut),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return (body, End::All),
            Err(error) => return (body, End::Broken(error)),
        }
    }
}

fn url(base: &str, path: &str) -> Result<Url, Error> {
    let wrong = || Error::BaseUrl(base.split('@').next_back().unwrap_or_default().to_owned());
    let base = base.trim_end_matches('/');
    let url = Url::parse(&format!("{base}{path}")).map_err(|_| wrong())?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() { Ok(url) } else { Err(wrong()) }
}

/// What the answer itself says wins over what was asked for: some servers cannot stream.
fn form(response: &Response, stream: bool) -> Form {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.starts_with("text/event-stream") {
        Form::Stream
    } else if kind.starts_with("application/json") || !stream {
        Form::Whole
    } else {
        Form::Stream
    }
}
