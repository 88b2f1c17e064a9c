//! What a real Prometheus makes of the metrics: it asks for OpenMetrics, and leads from a bucket
//! to a trace, which a real Jaeger shows.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use crate::{
    alerting::{encoded, free_port, wait_for},
    collector::{Collector, Manner},
    process::{Client, Home, Running},
    prometheus::{self, Prometheus},
    real_parts::{Jaeger, jaeger},
};

/// The trace and the span of each exemplar that Prometheus keeps of a query's series.
fn exemplars(prometheus: &Client, query: &str) -> BTreeSet<(String, String)> {
    let end = prometheus.get("/api/v1/query?query=time()").json()["data"]["result"][1].as_str().unwrap().to_owned();
    let end: f64 = end.parse().unwrap();
    let path = format!("/api/v1/query_exemplars?query={}&start={}&end={}", encoded(query), end - 600.0, end + 60.0);
    let answer = prometheus.get(&path);
    assert_eq!(answer.status, 200, "{answer:?}");
    let found = answer.json();
    let series = found["data"].as_array().unwrap().iter();
    let each = series.flat_map(|series| series["exemplars"].as_array().unwrap());
    let label = |one: &Value, name: &str| one["labels"][name].as_str().unwrap().to_owned();
    each.map(|one| (label(one, "trace_id"), label(one, "span_id"))).collect()
}

fn start(prometheus: &Prometheus, home: &Home, glassbox: std::net::SocketAddr) -> (Running, Client) {
    let address = free_port();
    let config = json!({
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
        "scrape_configs": [{"job_name": "glassbox", "static_configs": [{"targets": [glassbox.to_string()]}]}],
    });
    let running = prometheus.start(home, address, &config, &["--enable-feature=exemplar-storage"]);
    (running, Client::of(address))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_2_leads_from_a_bucket_to_the_trace_of_its_session() {
    a_bucket_leads_to_its_trace(prometheus::debian()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_3_leads_from_a_bucket_to_the_trace_of_its_session() {
    a_bucket_leads_to_its_trace(prometheus::current()).await;
}

async fn a_bucket_leads_to_its_trace(prometheus: Option<Prometheus>) {
    let Some(prometheus) = prometheus else { return };
    let collector = Collector::start(Manner::Accept).await;
    let home = Home::new().variable("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http());
    let server = home.serve();
    let (_running, prometheus) = start(&prometheus, &home, server.address());
    let report = server.run("Сколько я потратил на такси в сентябре?");
    let trace = report["trace_id"].as_str().unwrap().to_owned();
    let kept =
        |query: &'static str| wait_for(query, || Some(exemplars(&prometheus, query)).filter(|found| !found.is_empty()));
    let session = kept("glassbox_session_duration_seconds_bucket");
    let tool = kept("glassbox_tool_duration_seconds_bucket");
    let model = kept("gen_ai_client_operation_duration_seconds_bucket");
    for (sort, found) in [("invoke_agent", &session), ("execute_tool", &tool), ("chat", &model)] {
        let spans = collector.spans();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for (of_trace, of_span) in found {
            assert_eq!(*of_trace, trace, "{sort}");
            // The trace arrives by itself; an exemplar may be scraped before.
            let name = spans.iter().find(|span| hex(&span.span_id) == *of_span).map(|span| span.name.clone());
            assert!(name.as_ref().is_none_or(|name| name.starts_with(sort)), "{sort}: {name:?}");
        }
    }
    let up = prometheus.get(&format!("/api/v1/query?query={}", encoded("min_over_time(up[1m])"))).json();
    assert_eq!(up["data"]["result"][0]["value"][1], "1", "every page was understood: {up}");
    assert_eq!(server.stop().code, Some(0));
}

/// The name of a span, once Jaeger shows it: a moment after it took it.
fn shown(jaeger: &Jaeger, trace: &str, span: &str) -> String {
    let answer = jaeger.client().get_until(&format!("/api/traces/{trace}"), |answer| {
        answer.status == 200 && name_of(&answer.json()["data"][0], span).is_some()
    });
    name_of(&answer.json()["data"][0], span).unwrap()
}

fn name_of(trace: &Value, span: &str) -> Option<String> {
    let found = trace["spans"].as_array()?.iter().find(|one| one["spanID"] == span)?;
    Some(found["operationName"].as_str()?.to_owned())
}

#[test]
fn an_exemplar_of_prometheus_names_a_span_that_jaeger_shows() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/jaeger/jaeger.yaml");
    let (Some(prometheus), Some(jaeger)) = (prometheus::current(), jaeger(&shipped)) else { return };
    let home = Home::new().variable("OTEL_EXPORTER_OTLP_ENDPOINT", jaeger.http());
    let server = home.serve();
    let (_running, prometheus) = start(&prometheus, &home, server.address());
    let reports = ["taxi", "food"].map(|what| server.run(&format!("How much did I spend on {what}?")));
    let traces = reports.each_ref().map(|report| report["trace_id"].as_str().unwrap());
    for (query, sort) in [
        ("glassbox_session_duration_seconds_bucket", "invoke_agent bank"),
        ("glassbox_tool_duration_seconds_bucket", "execute_tool txn_sum"),
        ("gen_ai_client_operation_duration_seconds_bucket", "chat bank"),
    ] {
        let kept = wait_for(query, || Some(exemplars(&prometheus, query)).filter(|found| !found.is_empty()));
        for (trace, span) in kept {
            assert!(traces.contains(&trace.as_str()), "{query} leads to {trace}");
            assert_eq!(shown(&jaeger, &trace, &span), sort, "{query}");
        }
    }
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn the_page_says_what_it_is() {
    let home = Home::new();
    let server = home.serve();
    let asked = |accept: &str| server.request("GET", "/metrics", &[("accept", accept)], "");
    let open = asked("application/openmetrics-text; version=1.0.0, text/plain;q=0.5");
    assert_eq!(open.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(open.body.ends_with("# EOF\n"), "{}", open.body);
    let plain = asked("*/*");
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(!plain.body.contains("# EOF"), "{}", plain.body);
    assert_eq!((open.header("vary"), plain.header("vary")), (Some("accept"), Some("accept")));
    assert_eq!(server.stop().code, Some(0));
}
