//! The way out over HTTP that all rooms share who ask somebody else: how clients are built, and
//! what an error of one means.
//!
//! It must never know what is asked, of whom or how often: limits of an attempt and repeats are the
//! policy's. An error names no address and no credential.

pub mod loopback;

use std::{error::Error as _, sync::Arc, time::Duration};

use reqwest::{ClientBuilder, redirect};

use crate::core::{Clock, Fault, FaultKind, Timestamp};

/// After this the other side is not there; an attempt's own timeout stands above it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections are closed before the usual servers and balancers close them.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// What is wrong with the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client.
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
    /// The certificates that https needs.
    #[error("https needs the system's CA certificates, and none can be read: {0}")]
    Certificates(String),
}

/// The client of calls that sessions make. Clones share its pool, which holds a connection for each
/// session that waits and lets go of those that idle.
#[derive(Clone)]
pub struct Client {
    inner: reqwest::Client,
    /// Why only http can be spoken, where that is so.
    plain_only: Option<String>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client with the proxies of the environment and the certificates of the system. The clock
    /// is for waits that the other side gives as a date.
    ///
    /// # Errors
    /// Where no client can be built at all; one without certificates still speaks http.
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let (inner, plain_only) = build_or_plain(|| {
            builder()
                // One stream a connection: a shared HTTP/2 connection makes sessions beyond the
                // server's limit of streams wait for each other.
                .http1_only()
                .pool_max_idle_per_host(usize::MAX)
                .pool_idle_timeout(IDLE_TIMEOUT)
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_nodelay(true)
        })?;
        Ok(Self { inner, plain_only, clock })
    }

    /// Whether addresses of this scheme can be reached.
    ///
    /// # Errors
    /// Why not.
    pub fn check_scheme(&self, scheme: &str) -> Result<(), Error> {
        match &self.plain_only {
            Some(why) if scheme == "https" => Err(Error::Certificates(why.clone())),
            Some(_) | None => Ok(()),
        }
    }

    /// What sends requests.
    pub const fn inner(&self) -> &reqwest::Client {
        &self.inner
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// What every client begins with: our name, and no redirects, which would carry a credential to
/// another host.
pub fn builder() -> ClientBuilder {
    install_crypto();
    reqwest::Client::builder()
        .user_agent(concat!("glassbox/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
}

/// Builds a client. Where no certificate of the system can be read it speaks http alone, and why
/// stands beside it.
///
/// # Errors
/// Where none can be built at all.
pub fn build_or_plain(builder: impl Fn() -> ClientBuilder) -> Result<(reqwest::Client, Option<String>), Error> {
    match builder().build() {
        Ok(client) => Ok((client, None)),
        Err(error) => {
            let plain = builder().tls_certs_only([]).build();
            Ok((plain.map_err(|error| Error::Client(describe(&error)))?, Some(describe(&error))))
        }
    }
}

/// Makes `ring` the provider of every TLS client of the process, unless one is installed already.
/// Clients that are built before panic; calling it again changes nothing.
pub fn install_crypto() {
    // An error means that a provider is there already, which is all that is asked for.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The fault of a request that got no answer from `whom`.
pub fn unsent(error: &reqwest::Error, whom: &str) -> Fault {
    let (kind, what) = if error.is_connect() {
        (FaultKind::Connection, format!("no connection to {whom}"))
    } else if error.is_timeout() {
        (FaultKind::Timeout, format!("{whom} did not answer in time"))
    } else if error.is_builder() {
        (FaultKind::Internal, "the request cannot be built".to_owned())
    } else {
        (FaultKind::Transport, "the connection was lost before an answer came".to_owned())
    };
    Fault::new(kind, format!("{what}: {}", describe(error)))
}

/// The innermost cause of an error of a client.
pub fn describe(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(std::error::Error::source) {
        cause = Some(deeper);
    }
    cause.map_or_else(|| "the client gives no reason".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Standing;

    impl Clock for Standing {
        fn now(&self) -> Timestamp {
            Timestamp::default()
        }
    }

    #[tokio::test]
    async fn an_error_says_what_happened_and_names_no_address() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let url = format!("http://user:planted@{}/planted", closed.expect("a port that was free"));
        let client = builder().no_proxy().tls_certs_only([]).build().expect("a client");
        let error = client.get(url).send().await.expect_err("nobody listens");
        let fault = unsent(&error, "the provider");
        let text = fault.to_string();
        assert_eq!(fault.kind, FaultKind::Connection);
        assert!(text.starts_with("connection: no connection to the provider: ") && !text.contains("planted"), "{text}");
        let error = client.get("http://").send().await.expect_err("no address");
        assert_eq!(unsent(&error, "the service").kind, FaultKind::Internal);
    }

    #[test]
    fn a_client_that_speaks_http_alone_says_so_of_https() {
        let inner = builder().tls_certs_only([]).build().expect("a client");
        let plain = Client { inner, plain_only: Some("no folder".to_owned()), clock: Arc::new(Standing) };
        assert!(plain.check_scheme("http").is_ok());
        let error = plain.check_scheme("https").expect_err("there are no certificates").to_string();
        assert_eq!(error, "https needs the system's CA certificates, and none can be read: no folder");
    }
}
