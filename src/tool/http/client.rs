//! The HTTP client that all declared tools share: the proxies of the environment, the
//! certificates of the system, bounded reading, redirects inside one origin.

use std::{error::Error as _, sync::Arc, time::Duration};

use reqwest::{Method, Request, Response, Url, header::LOCATION, redirect};

use super::Address;
use crate::core::{Clock, Fault, FaultKind, Timestamp};

/// After this a service is not there; the attempt's own timeout stands above it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections are closed before the usual servers and balancers close them.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// Redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// What is wrong with the way to a service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client.
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
    /// The certificates that https needs.
    #[error("https needs the system's CA certificates, and none can be read: {0}")]
    Certificates(String),
}

/// The client. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    inner: reqwest::Client,
    /// Why only http can be spoken, where that is so.
    plain_only: Option<String>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client; the clock is for waits that a service gives as a date.
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

    /// Whether an address can be reached by its scheme.
    pub(super) fn can_reach(&self, address: &Address) -> Result<(), Error> {
        match &self.plain_only {
            Some(why) if address.is_https() => Err(Error::Certificates(why.clone())),
            Some(_) | None => Ok(()),
        }
    }

    /// Now.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sends a request; what comes back is the beginning of an answer that is no redirect.
    pub(super) async fn send(&self, request: Request) -> Result<Response, Fault> {
        let mut again = (request.method() == Method::GET).then(|| request.try_clone()).flatten();
        let mut response = self.inner.execute(request).await.map_err(|error| unsent(&error))?;
        for _ in 0..MAX_REDIRECTS {
            let Some(target) = redirect_of(&response) else { return Ok(response) };
            let Some(mut request) = again.as_ref().and_then(Request::try_clone) else { break };
            let target = inside(request.url(), &target)?;
            *request.url_mut() = target;
            again = request.try_clone();
            response = self.inner.execute(request).await.map_err(|error| unsent(&error))?;
        }
        if redirect_of(&response).is_none() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let text = "the service answers with a redirect that is not followed";
        Err(Fault::new(FaultKind::Refused, format!("{text} ({status})")).status(status))
    }
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("glassbox/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .pool_idle_timeout(IDLE_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .redirect(redirect::Policy::none())
}

fn redirect_of(response: &Response) -> Option<String> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = redirects.then(|| response.headers().get(LOCATION)).flatten()?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// The target of a redirect, which must be of the same scheme, host and port: elsewhere may be a
/// place inside the network, and credentials would go along.
fn inside(from: &Url, target: &str) -> Result<Url, Fault> {
    let to = from.join(target).ok().filter(|to| to.origin() == from.origin());
    to.ok_or_else(|| Fault::new(FaultKind::Refused, "the service redirects to another host, which is not followed"))
}

/// The fault of a request that got no answer.
fn unsent(error: &reqwest::Error) -> Fault {
    let (kind, what) = if error.is_connect() {
        (FaultKind::Connection, "no connection to the service")
    } else if error.is_timeout() {
        (FaultKind::Timeout, "the service did not answer in time")
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
