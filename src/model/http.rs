//! The way to a provider over HTTP: one client for the whole process, one endpoint a model.
//!
//! A credential stands in a header that is marked as sensitive and nowhere else. It must never
//! know what a body means; timeouts and repeats are the policy's.

mod failure;

use std::{collections::BTreeMap, error::Error as _, sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::{
    Response, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};

pub(super) use self::failure::{error_in, phrase};
use crate::core::{
    Clock, Fault, FaultKind, Sensitive,
    port::{ModelCallInput, TraceContext},
    retry_after,
};

/// Bytes of a reply at the most.
pub(super) const MAX_REPLY: usize = 32 << 20;
/// Bytes of an error's body that are read.
const MAX_ERROR: usize = 64 << 10;
/// After this a provider is not there; the attempt's own timeout stands above it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections are closed before the usual servers and balancers close them.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

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
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
    /// The certificates that https needs.
    #[error("https needs the system's CA certificates, and none can be read: {0}")]
    Certificates(String),
    /// The address.
    #[error("base_url must be an http or https address, not {0:?}")]
    BaseUrl(String),
    /// A header or the credential.
    #[error("{0} holds characters that no HTTP header may hold")]
    Header(String),
}

/// The HTTP client that all models of a process share: its pool holds a connection for each
/// session that waits, and lets go of those that idle.
#[derive(Clone)]
pub struct Client {
    inner: reqwest::Client,
    /// Why only http can be spoken, where that is so.
    plain_only: Option<String>,
    clock: Arc<dyn Clock>,
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

impl Client {
    /// A client with the proxies of the environment and the certificates of the system. The clock
    /// is for waits that a provider gives as a date.
    ///
    /// # Errors
    /// Where no client can be built at all; one without certificates still speaks http.
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self, Error> {
        // An error means that a provider is there already, which is all that is asked for.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (inner, plain_only) = match builder().build() {
            Ok(client) => (client, None),
            Err(error) => {
                let plain = builder().tls_certs_only([]).build();
                (plain.map_err(|error| Error::Client(describe(&error)))?, Some(describe(&error)))
            }
        };
        Ok(Self { inner, plain_only, clock })
    }
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("glassbox/", env!("CARGO_PKG_VERSION")))
        // One stream a connection: a shared HTTP/2 connection makes sessions beyond the server's
        // limit of streams wait for each other.
        .http1_only()
        .pool_max_idle_per_host(usize::MAX)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        // A redirect would carry the credential to another host.
        .redirect(redirect::Policy::none())
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
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
        if let Some(why) = client.plain_only.as_ref().filter(|_| url.scheme() == "https") {
            return Err(Error::Certificates(why.clone()));
        }
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
            .inner
            .post(self.url.clone())
            .header(ACCEPT, accept)
            .header("traceparent", trace.traceparent())
            .headers(self.headers.clone())
            .body(body);
        let response = request.send().await.map_err(|error| unsent(&error))?;
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
                Err(Fault::new(FaultKind::Transport, format!("the reply broke off: {}", describe(&error))))
            }
        }
    }

    async fn failure(&self, response: Response) -> Fault {
        let status = response.status().as_u16();
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let wait = retry_after::asked(text, self.client.clock.now());
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

/// The fault of a request that got no answer.
fn unsent(error: &reqwest::Error) -> Fault {
    let (kind, what) = if error.is_connect() {
        (FaultKind::Connection, "no connection to the provider")
    } else if error.is_timeout() {
        (FaultKind::Timeout, "the provider did not answer in time")
    } else if error.is_builder() {
        (FaultKind::Internal, "the request cannot be built")
    } else {
        (FaultKind::Transport, "the connection was lost before an answer came")
    };
    Fault::new(kind, format!("{what}: {}", describe(error)))
}

/// The innermost cause of an error of the client, which names no address and no credential.
pub(super) fn describe(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(std::error::Error::source) {
        cause = Some(deeper);
    }
    cause.map_or_else(|| "the client gives no reason".to_owned(), ToString::to_string)
}
