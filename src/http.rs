//! The HTTP API: `app(runtime) -> Router`. Thin calls into the runtime, no rules.
//!
//! It must never decide what a session is or may do; it turns requests into tasks and what
//! comes back into JSON, and every error into problem+json.

mod auth;
mod body;
mod circuits;
mod confirmations;
mod data;
mod idempotency;
mod ops;
mod origin;
mod problem;
mod sessions;
mod traceparent;

use std::time::Duration;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{HeaderName, StatusCode},
    middleware,
    routing::{delete, get, post},
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer},
    timeout::TimeoutLayer,
};

pub use self::auth::new_api_key;
use crate::{config, runtime::Runtime};

/// The header that names a request, in and out.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How the API behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The largest body of a request.
    pub max_body_bytes: usize,
    /// The longest time that a request may take.
    pub request_timeout: Duration,
    /// Who callers are.
    pub auth: config::Auth,
}

impl Options {
    /// The options that a configuration asks for.
    pub fn of(config: &config::Config) -> Self {
        Self {
            max_body_bytes: usize::try_from(config.server.max_body_bytes).unwrap_or(usize::MAX),
            request_timeout: config.server.request_timeout,
            auth: config.auth.clone(),
        }
    }
}

/// What the handlers work with.
#[derive(Clone)]
struct Api {
    runtime: Runtime,
    options: Options,
}

/// The whole API.
pub fn app(runtime: Runtime, options: Options) -> Router {
    let limit = DefaultBodyLimit::max(options.max_body_bytes);
    let timeout = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, options.request_timeout);
    let gate = auth::Gate::of(&options.auth, runtime.clock());
    // Without a login, where a request comes from is all that can be asked. A credential is never
    // sent along by a browser of itself, so with one there is nothing to guard against.
    let guarded = !gate.has_login();
    let routes = Router::new()
        .route("/v1/sessions", post(sessions::create).get(sessions::list))
        .route("/v1/sessions/{id}", get(sessions::show).delete(data::erase_session))
        .route("/v1/sessions/{id}/journal", get(sessions::journal))
        .route("/v1/sessions/{id}/cancel", post(sessions::cancel))
        .route("/v1/sessions/{id}/confirmations/{call_id}", post(confirmations::decide))
        .route("/v1/confirmations", get(confirmations::list))
        .route("/v1/principals/{id}", delete(data::erase_principal))
        .route("/v1/principals/{id}/export", get(data::export_principal))
        .route("/v1/circuits", get(circuits::list))
        .route("/v1/circuits/{kind}/{name}", post(circuits::switch))
        .route("/metrics", get(ops::metrics))
        .route("/healthz", get(ops::healthz))
        .route("/readyz", get(ops::readyz));
    // From the inside out: limits, who asks, panics, where it comes from, then every error gets its form and its name.
    let routes = routes
        .layer(limit)
        .layer(middleware::from_fn_with_state(gate, auth::guard))
        .layer(timeout)
        .layer(CatchPanicLayer::new());
    let routes = if guarded { routes.layer(middleware::from_fn(origin::guard)) } else { routes };
    routes
        .layer(middleware::map_response(problem::dress))
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .layer(SetRequestIdLayer::new(REQUEST_ID, NewRequestId(runtime.clone())))
        .with_state(Api { runtime, options })
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
