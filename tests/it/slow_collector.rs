//! A collector that answers, but slowly: sessions do not wait for it, and nothing of them is lost.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeSet;

use serde_json::json;

use crate::{
    collector::{Collector, Manner},
    process::Home,
};

/// How many sessions run while it holds its first answer back.
const SESSIONS: usize = 25;

fn value(metrics: &str, series: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().unwrap()
}

/// No clock in it: all sessions end between the arrival of the first batch and its answer, which
/// comes when they have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_end_while_the_first_batch_is_not_answered_yet() {
    let collector = Collector::start(Manner::Hold).await;
    let home = Home::new()
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http())
        .variable("GLASSBOX__TELEMETRY__OTLP__TIMEOUT", "60s")
        .variable("GLASSBOX__RATE_LIMITS__SESSIONS_PER_USER_PER_HOUR", "unlimited");
    let collector = std::sync::Arc::new(collector);
    let gate = collector.clone();
    let ids = tokio::task::spawn_blocking(move || {
        let server = home.serve();
        let mut ids = BTreeSet::from([server.run("hi")["session_id"].as_str().unwrap().to_owned()]);
        tokio::runtime::Handle::current().block_on(gate.requested());
        for _ in 1..SESSIONS {
            let report = server.run("hi");
            assert_eq!(report["status"], json!("done"), "{report}");
            ids.insert(report["session_id"].as_str().unwrap().to_owned());
        }
        let metrics = server.get("/metrics").body;
        assert_eq!(value(&metrics, "glassbox_spans_acknowledged_total"), 0, "not one answer yet");
        assert!(gate.spans().is_empty(), "the first batch is still held");
        gate.behave(Manner::Accept);
        assert_eq!(server.stop().code, Some(0));
        ids
    })
    .await
    .unwrap();
    let spans = collector.spans();
    let roots: Vec<_> = spans.iter().filter(|span| span.parent_span_id.is_empty()).collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let traces: BTreeSet<_> = roots.iter().map(|span| format!("sess_{}", hex(&span.trace_id))).collect();
    assert_eq!((roots.len(), traces), (SESSIONS, ids), "each session arrived, once");
}
