//! A tiny OTLP collector in this process: gRPC and HTTP on ports of 127.0.0.1, with the manners
//! of good and bad collectors.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::AtomicUsize, atomic::Ordering},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    trace::v1::{ResourceSpans, Span},
};
use prost::Message as _;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};
use tonic::codec::CompressionEncoding;

/// How the collector answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Takes everything.
    Accept,
    /// Says that it is not available (503, UNAVAILABLE).
    Refuse,
    /// Never answers.
    Hang,
    /// Takes everything, and answers once it behaves otherwise.
    Hold,
    /// Takes everything but this many spans of each request.
    Reject(i64),
}

/// The collector; it ends with its value.
pub(crate) struct Collector {
    shared: Arc<Shared>,
    grpc: SocketAddr,
    http: SocketAddr,
    tasks: [JoinHandle<()>; 2],
}

struct Shared {
    manner: Mutex<Manner>,
    received: Mutex<Vec<ResourceSpans>>,
    headers: Mutex<Vec<String>>,
    requests: AtomicUsize,
    arrived: Notify,
}

#[derive(Clone)]
struct Service(Arc<Shared>);

/// What is said to a request.
enum Verdict {
    Taken(ExportTraceServiceResponse),
    Unavailable,
}

#[allow(dead_code, reason = "shared by several test modules")]
impl Collector {
    /// A collector that answers in this manner.
    #[expect(clippy::disallowed_methods, reason = "servers of a test stand outside any trace")]
    pub(crate) async fn start(manner: Manner) -> Self {
        let shared = Arc::new(Shared {
            manner: Mutex::new(manner),
            received: Mutex::default(),
            headers: Mutex::default(),
            requests: AtomicUsize::new(0),
            arrived: Notify::new(),
        });
        let (grpc_listener, grpc) = listen().await;
        let (http_listener, http) = listen().await;
        let service =
            TraceServiceServer::new(Service(Arc::clone(&shared))).accept_compressed(CompressionEncoding::Gzip);
        let incoming = tonic::transport::server::TcpIncoming::from(grpc_listener);
        let grpc_task = tokio::spawn(async move {
            tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        let app = Router::new().route("/v1/traces", post(take_http)).with_state(Service(Arc::clone(&shared)));
        let http_task = tokio::spawn(async move { axum::serve(http_listener, app).await.unwrap() });
        Self { shared, grpc, http, tasks: [grpc_task, http_task] }
    }

    /// The endpoint for gRPC.
    pub(crate) fn grpc(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// The base of the endpoint for HTTP.
    pub(crate) fn http(&self) -> String {
        format!("http://{}", self.http)
    }

    /// Changes the manner for the requests to come.
    pub(crate) fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
        self.shared.arrived.notify_waiters();
    }

    /// Requests so far, whatever they were answered.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// The spans taken so far, in the order of their arrival.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let received = self.shared.received.lock().unwrap();
        received.iter().flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The resources that they came with.
    pub(crate) fn resources(&self) -> Vec<ResourceSpans> {
        self.shared.received.lock().unwrap().clone()
    }

    /// The `x-test` headers of the requests.
    pub(crate) fn headers(&self) -> Vec<String> {
        self.shared.headers.lock().unwrap().clone()
    }

    /// Waits until a request has come in, answered or not.
    pub(crate) async fn requested(&self) {
        self.shared.soon(|| self.requests() > 0).await;
    }

    /// Waits until so many spans were taken, ten seconds at the most; gives them.
    pub(crate) async fn wait_for(&self, spans: usize) -> Vec<Span> {
        self.shared.soon(|| self.spans().len() >= spans).await;
        self.spans()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    /// Waits until this is so, as it can be after every request and change of manner.
    async fn until(&self, reached: impl Fn() -> bool) {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if reached() {
                return;
            }
            arrived.await;
        }
    }

    /// The same, ten seconds at the most.
    async fn soon(&self, reached: impl Fn() -> bool) {
        let waiting = self.until(reached);
        tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("the spans arrive within ten seconds");
    }

    fn manner(&self) -> Manner {
        *self.manner.lock().unwrap()
    }

    fn count(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.arrived.notify_waiters();
    }
}

impl Service {
    async fn take(&self, request: ExportTraceServiceRequest, header: Option<String>) -> Verdict {
        let held = self.0.manner() == Manner::Hold;
        if held {
            self.0.count();
            self.0.until(|| self.0.manner() != Manner::Hold).await;
        }
        let manner = self.0.manner();
        self.0.headers.lock().unwrap().extend(header);
        if matches!(manner, Manner::Accept | Manner::Reject(_)) {
            self.0.received.lock().unwrap().extend(request.resource_spans);
        }
        if !held {
            self.0.count();
        }
        match manner {
            Manner::Accept => Verdict::Taken(ExportTraceServiceResponse { partial_success: None }),
            Manner::Refuse => Verdict::Unavailable,
            Manner::Hang | Manner::Hold => std::future::pending().await,
            Manner::Reject(rejected_spans) => {
                let partial = ExportTracePartialSuccess { rejected_spans, error_message: "too old".into() };
                Verdict::Taken(ExportTraceServiceResponse { partial_success: Some(partial) })
            }
        }
    }
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let header = request.metadata().get("x-test").and_then(|value| value.to_str().ok()).map(str::to_owned);
        match self.take(request.into_inner(), header).await {
            Verdict::Taken(response) => Ok(tonic::Response::new(response)),
            Verdict::Unavailable => Err(tonic::Status::unavailable("closed")),
        }
    }
}

async fn take_http(State(service): State<Service>, headers: HeaderMap, body: Bytes) -> Response {
    let request = ExportTraceServiceRequest::decode(body).expect("an uncompressed protobuf request");
    let header = headers.get("x-test").and_then(|value| value.to_str().ok()).map(str::to_owned);
    match service.take(request, header).await {
        Verdict::Taken(response) => {
            ([("content-type", "application/x-protobuf")], response.encode_to_vec()).into_response()
        }
        Verdict::Unavailable => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}
