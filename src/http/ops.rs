//! What probes and scrapers ask.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{Api, problem::Problem};
use crate::signal::metrics::Format;

/// The metrics of this process
#[utoipa::path(
    get, path = "/metrics", tag = "operation", operation_id = "scrape_metrics", security(()),
    responses((
        status = 200,
        description = "In the text format of Prometheus, or as OpenMetrics with exemplars, as Accept prefers",
        content((String = "text/plain"), (String = "application/openmetrics-text"))
    ))
)]
pub(super) async fn metrics(State(api): State<Api>, headers: HeaderMap) -> Response {
    let format = preferred(&headers);
    let page = api.runtime.scrape(format).await;
    let vary = HeaderValue::from_static("accept");
    ([(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type())), (header::VARY, vary)], page)
        .into_response()
}

/// OpenMetrics for whoever asks for its version 1 and does not like plain text better.
fn preferred(headers: &HeaderMap) -> Format {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (mut open_metrics, mut plain) = (0.0_f64, 0.0_f64);
    for range in accepted.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |name: &str| {
            parameters
                .iter()
                .find(|(found, _)| found.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim_matches('"'))
        };
        let weight = parameter("q").map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        match (kind.as_str(), parameter("version")) {
            ("application/openmetrics-text", None | Some("1.0.0")) => open_metrics = open_metrics.max(weight),
            ("text/plain" | "text/*", _) => plain = plain.max(weight),
            _ => {}
        }
    }
    if open_metrics > 0.0 && open_metrics >= plain { Format::OpenMetrics } else { Format::Prometheus }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_for_openmetrics_gets_it() {
        let asked = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            preferred(&headers)
        };
        for accept in [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; Version=1.0.0; charset=utf-8",
            // As Prometheus 2.42 and 3.5 ask.
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        ] {
            assert_eq!(asked(accept), Format::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/plain",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.3,text/plain",
        ] {
            assert_eq!(asked(accept), Format::Prometheus, "{accept}");
        }
        assert_eq!(preferred(&HeaderMap::new()), Format::Prometheus);
    }
}
