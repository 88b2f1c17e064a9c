//! What probes and scrapers ask.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{Api, problem::Problem};

/// The content type of the Prometheus text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /metrics`
pub(super) async fn metrics(State(api): State<Api>) -> Response {
    ([(header::CONTENT_TYPE, TEXT_FORMAT)], api.runtime.metrics().render()).into_response()
}

/// `GET /healthz`: the process answers.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: it takes sessions and can keep them.
pub(super) async fn readyz(State(api): State<Api>) -> Result<&'static str, Problem> {
    match api.runtime.ready().await {
        Ok(()) => Ok("ready\n"),
        Err(why) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)),
    }
}
