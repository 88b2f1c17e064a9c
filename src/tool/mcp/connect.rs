//! One connection to a server: made, listened to, closed.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion},
    service::{NotificationContext, Peer, RunningService, RunningServiceCancellationToken, ServiceExt as _},
    transport::{
        StreamableHttpClientTransport, common::client_side_sse::ExponentialBackoff,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio::{
    process::{ChildStdin, ChildStdout},
    sync::Notify,
};

use super::fault;
use crate::{core::Sensitive, web};

/// Times that a broken stream of events is opened again before the connection counts as lost.
const STREAM_RETRIES: usize = 5;
/// The longest wait between them.
const STREAM_WAIT: Duration = Duration::from_secs(5);
/// How long a closed connection may take to say so.
const CLOSING: Duration = Duration::from_secs(2);

/// What the client answers a server: it hears of changed lists, and offers nothing.
pub(super) struct Ears {
    changed: Arc<Notify>,
}

/// A connection that is initialized.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    stopper: RunningServiceCancellationToken,
    ended: Shared<BoxFuture<'static, ()>>,
}

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        let ours = Implementation::new("glassbox", env!("CARGO_PKG_VERSION"));
        // The newest one that begins with this handshake.
        ClientConfig::new(ClientCapabilities::default(), ours).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

impl Connection {
    fn new(service: RunningService<RoleClient, Ears>) -> Self {
        let (peer, stopper) = (service.peer().clone(), service.cancellation_token());
        // How it ended is all the same.
        let ended = async move { drop(service.waiting().await) }.boxed().shared();
        Self { peer, stopper, ended }
    }

    /// Initializes over the pipes of a child.
    pub(super) async fn over_pipes(
        input: ChildStdin,
        output: ChildStdout,
        changed: Arc<Notify>,
    ) -> Result<Self, String> {
        let service = Ears { changed }.serve((output, input)).await.map_err(|error| fault::of_start(&error))?;
        Ok(Self::new(service))
    }

    /// Initializes over HTTP.
    pub(super) async fn over_http(
        url: &str,
        headers: &BTreeMap<String, Sensitive<String>>,
        changed: Arc<Notify>,
    ) -> Result<Self, String> {
        let transport = StreamableHttpClientTransport::with_client(client()?, http_config(url, headers)?);
        let service = Ears { changed }.serve(transport).await.map_err(|error| fault::of_start(&error))?;
        Ok(Self::new(service))
    }

    /// Through which requests are sent; outlives the connection, and then only fails.
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// Waits until the other side is gone.
    pub(super) async fn lost(&self) {
        self.ended.clone().await;
    }

    /// Closes it.
    pub(super) async fn close(self) {
        self.stopper.cancel();
        // What is not closed by then is dropped.
        let _ = tokio::time::timeout(CLOSING, self.ended).await;
    }
}

fn client() -> Result<reqwest::Client, String> {
    web::builder().build().map_err(|error| format!("no HTTP client can be made: {error}"))
}

fn http_config(
    url: &str,
    headers: &BTreeMap<String, Sensitive<String>>,
) -> Result<StreamableHttpClientTransportConfig, String> {
    let mut retry = ExponentialBackoff::default();
    (retry.max_times, retry.max_delay) = (Some(STREAM_RETRIES), Some(STREAM_WAIT));
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.retry_config = Arc::new(retry);
    let mut all = HashMap::new();
    for (name, value) in headers {
        let wrong = || format!("the header {name} cannot be sent");
        let (name, mut value) = (
            HeaderName::try_from(name).map_err(|_| wrong())?,
            HeaderValue::try_from(value.expose()).map_err(|_| wrong())?,
        );
        value.set_sensitive(true);
        all.insert(name, value);
    }
    Ok(config.custom_headers(all))
}
