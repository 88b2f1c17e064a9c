//! What probes and scrapers ask.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{Api, problem::Problem};

/// The content type of the Prometheus text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of this process
#[utoipa::path(
    get, path = "/metrics", tag = "operation", operation_id = "scrape_metrics", security(()),
    responses((status = 200, description = "In the text format of Prometheus", body = String, content_type = "text/plain"))
)]
pub(super) async fn metrics(State(api): State<Api>) -> Response {
    ([(header::CONTENT_TYPE, TEXT_FORMAT)], api.runtime.scrape().await).into_response()
}

/// Whether the process answers
#[utoipa::path(
    get, path = "/healthz", tag = "operation", operation_id = "probe_health", security(()),
    responses((status = 200, description = "It does", body = String, content_type = "text/plain"))
)]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether it takes sessions and can keep them
#[utoipa::path(
    get, path = "/readyz", tag = "operation", operation_id = "probe_readiness", security(()),
    responses((status = 200, description = "It does", body = String, content_type = "text/plain"))
)]
pub(super) async fn readyz(State(api): State<Api>) -> Result<&'static str, Problem> {
    match api.runtime.ready().await {
        Ok(()) => Ok("ready\n"),
        Err(why) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)),
    }
}
