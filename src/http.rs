//! The HTTP API: `app(runtime) -> Router`. Thin calls into the runtime, no rules.
//!
//! It must never decide what a session is or may do; it turns requests into tasks and what
//! comes back into JSON, and every error into problem+json.

mod auth;
mod body;
mod catalogue;
mod circuits;
mod confirmations;
mod connections;
mod console;
mod data;
mod feed;
mod handovers;
mod idempotency;
mod openapi;
mod ops;
mod origin;
mod problem;
mod quota;
mod resume;
mod sessions;
mod stall;
mod traceparent;
mod wait;
mod why;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::DefaultBodyLimit,
    http::{HeaderName, StatusCode},
    middleware,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer},
    timeout::TimeoutLayer,
};
use utoipa_axum::{router::OpenApiRouter, routes};

pub use self::auth::{Access, new_api_key};
use crate::{config, core::Clock, runtime::Runtime};

/// The header that names a request, in and out.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How the API behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The largest body of a request.
    pub max_body_bytes: usize,
    /// The longest time that a request may take; streams are not held to it.
    pub request_timeout: Duration,
    /// How long nothing may move on a connection.
    pub idle_timeout: Duration,
    /// How often a stream gives a sign of life.
    pub heartbeat: Duration,
    /// Ends all streams and, where the service keeps its connections itself, those too.
    pub closing: CancellationToken,
    /// Who callers are.
    pub access: Access,
    /// The pages for people.
    pub console: config::Console,
    /// When circuit breakers open, for those pages.
    pub breaker: config::CircuitBreaker,
}

impl Options {
    /// The options that a configuration asks for; the clock says which tokens have expired.
    pub fn of(config: &config::Config, clock: Arc<dyn Clock>) -> Self {
        Self {
            max_body_bytes: usize::try_from(config.server.max_body_bytes).unwrap_or(usize::MAX),
            request_timeout: config.server.request_timeout,
            idle_timeout: config.server.idle_timeout,
            heartbeat: config.server.heartbeat,
            closing: CancellationToken::new(),
            access: Access::of(&config.auth, clock),
            console: config.console.clone(),
            breaker: config.circuit_breaker.clone(),
        }
    }
}

/// What the handlers work with.
#[derive(Clone)]
struct Api {
    runtime: Runtime,
    options: Options,
}

/// Serves the API on a listener until `options.closing`, each connection under its bounds in time.
pub async fn serve(listener: TcpListener, runtime: Runtime, options: Options) {
    let (idle, closing) = (options.idle_timeout, options.closing.clone());
    connections::serve(listener, app(runtime, options), idle, closing).await;
}

/// The whole service: the pages for people where there are any, and the API for everything else.
pub fn app(runtime: Runtime, options: Options) -> Router {
    let (pages, new_id) = (options.console.enabled, NewRequestId(runtime.clone()));
    let api = Api { runtime, options };
    let routes = routes(api.clone());
    // Pages have their own way of saying that something is wrong, so they stand outside.
    let routes = if pages { console::routes(api).fallback_service(routes) } else { routes };
    routes.layer(PropagateRequestIdLayer::new(REQUEST_ID)).layer(SetRequestIdLayer::new(REQUEST_ID, new_id))
}

/// The API. No header lets pages of other sites read an answer (CORS).
fn routes(api: Api) -> Router {
    let limit = DefaultBodyLimit::max(api.options.max_body_bytes);
    let timeout = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, api.options.request_timeout);
    let (access, metrics) = (api.options.access.clone(), api.runtime.metrics().clone());
    // Without a login, where a request comes from is all that can be asked. A credential is never
    // sent along by a browser of itself, so with one there is nothing to guard against.
    let guarded = !access.gate().has_login();
    let (routes, document) = documented().split_for_parts();
    let routes = routes.layer(Extension(openapi::Document::of(document)));
    // From the inside out: limits, who asks, panics, where it comes from, then every error gets its form.
    let routes = routes
        .layer(limit)
        .layer(middleware::from_fn_with_state((access, metrics), auth::guard))
        .layer(timeout)
        .layer(CatchPanicLayer::new());
    let routes = if guarded { routes.layer(middleware::from_fn(origin::guard)) } else { routes };
    routes.layer(middleware::map_response(problem::dress)).with_state(api)
}

/// All routes with their documents; there is no other way to add one.
fn documented() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::show, data::erase_session))
        .routes(routes!(feed::events))
        .routes(routes!(sessions::journal))
        .routes(routes!(sessions::cancel))
        .routes(routes!(resume::resume))
        .routes(routes!(confirmations::decide))
        .routes(routes!(confirmations::list))
        .routes(routes!(handovers::list))
        .routes(routes!(handovers::handle))
        .routes(routes!(data::erase_principal))
        .routes(routes!(data::export_principal))
        .routes(routes!(catalogue::agents))
        .routes(routes!(catalogue::tools))
        .routes(routes!(circuits::list))
        .routes(routes!(circuits::switch))
        .routes(routes!(ops::metrics))
        .routes(routes!(ops::healthz))
        .routes(routes!(ops::readyz))
        .routes(routes!(openapi::document))
}

/// Names requests that come without a name.
#[derive(Clone)]
struct NewRequestId(Runtime);

impl MakeRequestId for NewRequestId {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        let id = self.0.new_request_id();
        id.parse().ok().map(RequestId::new)
    }
}
