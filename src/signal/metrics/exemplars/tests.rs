//! Sessions by hand, exemplars by hand, and the page of OpenMetrics line by line.

use std::{sync::Arc, time::Duration};

use super::Traces;
use crate::{
    core::{
        EndReason, Fact, SessionStatus, ToolOutcome,
        fact::{ModelOutcome, SessionEnd},
    },
    signal::{
        metrics::{Format, MetricLabels, Metrics},
        otlp::TailRule,
        samples::{Journal, session_end},
    },
};

const NEVER: TailRule = TailRule { slow: Duration::MAX, share: 0.0 };

fn metrics(traces: Traces) -> Metrics {
    let labels = MetricLabels {
        agents: vec![("bank".into(), vec!["cards".into()])],
        models: vec![("main".into(), "anthropic".into(), "claude-x".into())],
        tools: vec!["search".into()],
        version: "1.2.3".into(),
        ..MetricLabels::default()
    };
    Metrics::with_exemplars(&labels, traces).expect("a right catalogue")
}

/// One call of the model of 0.3 s, one of the tool of so many milliseconds, and an end.
fn journal(id: u8, millis: u64, end: SessionEnd) -> Journal {
    let mut journal = Journal::new(id);
    journal.started("bank", "cards");
    let call = journal.model_started(1, "main");
    journal.model_attempt(call, 1, "main", ModelOutcome::Ok);
    journal.after(Duration::from_millis(300)).model_finished(call, ModelOutcome::Ok, (10, 5));
    let call = journal.tool_started(1, "search", true);
    journal.tool_attempt(call, 1, ToolOutcome::Ok);
    journal.after(Duration::from_millis(millis)).tool_finished(call, ToolOutcome::Ok, Some(true), 2);
    journal.push(Fact::SessionFinished(Box::new(end)));
    journal
}

fn done() -> SessionEnd {
    session_end(SessionStatus::Done, None)
}

fn publish(metrics: &Metrics, journal: &Journal) {
    metrics.sink().publish(&journal.entries.iter().cloned().map(Arc::new).collect::<Vec<_>>());
}

/// What stands behind the mark of an exemplar in the line of this series.
fn exemplar(metrics: &Metrics, series: &str) -> Option<String> {
    let page = metrics.render_as(Format::OpenMetrics);
    let line = page.lines().find(|line| line.starts_with(&format!("{series} "))).expect("the series").to_owned();
    line.split_once(" # ").map(|(_, exemplar)| exemplar.to_owned())
}

const TOOL_HALF: &str = r#"glassbox_tool_duration_seconds_bucket{tool="search",le="0.5"}"#;
const TOOL_ONE: &str = r#"glassbox_tool_duration_seconds_bucket{tool="search",le="1.0"}"#;

#[test]
fn each_bucket_keeps_the_last_observation_that_fell_into_it() {
    let metrics = metrics(Traces::Head);
    let first = journal(1, 400, done());
    // Both calls open spans at known places of the journal.
    let op = |journal: &Journal, kind: &str| {
        let at = journal.entries.iter().position(|entry| entry.fact.name() == kind).expect("the fact") as u64;
        crate::core::SpanId::of_fact(journal.session, at)
    };
    publish(&metrics, &first);
    let trace = "01".repeat(16);
    // 10:23:45 and 0.7 seconds.
    let expected =
        format!(r#"{{trace_id="{trace}",span_id="{}"}} 0.4 1771410225.700"#, op(&first, "tool_call_started"));
    assert_eq!(exemplar(&metrics, TOOL_HALF), Some(expected));
    assert_eq!(exemplar(&metrics, TOOL_ONE), None, "it fell into the bucket below");
    let model = r#"gen_ai_client_operation_duration_seconds_bucket{error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-x",le="0.32"}"#;
    let expected =
        format!(r#"{{trace_id="{trace}",span_id="{}"}} 0.3 1771410225.300"#, op(&first, "model_call_started"));
    assert_eq!(exemplar(&metrics, model), Some(expected));
    let session = r#"glassbox_session_duration_seconds_bucket{agent="bank",task_type="cards",le="1.0"}"#;
    let expected = format!(r#"{{trace_id="{trace}",span_id="{}"}} 0.7 1771410225.700"#, op(&first, "session_started"));
    assert_eq!(exemplar(&metrics, session), Some(expected));

    publish(&metrics, &journal(2, 450, done()));
    publish(&metrics, &journal(3, 500, done()));
    publish(&metrics, &journal(4, 70_000, done()));
    let seen = |series| exemplar(&metrics, series).map(|text| text[11..13].to_owned());
    assert_eq!(seen(TOOL_HALF).as_deref(), Some("03"), "the bound belongs to its bucket, and the last one stays");
    let beyond = r#"glassbox_tool_duration_seconds_bucket{tool="search",le="+Inf"}"#;
    assert_eq!(seen(beyond).as_deref(), Some("04"));
}

#[test]
fn only_traces_that_can_be_looked_at_are_named() {
    let nowhere = metrics(Traces::Nowhere);
    publish(&nowhere, &journal(1, 400, done()));
    assert!(!nowhere.render_as(Format::OpenMetrics).contains("trace_id"), "nothing is exported");

    let head = metrics(Traces::Head);
    let mut unsampled = journal(1, 400, done());
    let Fact::SessionStarted(started) = &mut unsampled.entries[0].fact else { panic!("the first fact") };
    started.trace.sampled = false;
    publish(&head, &unsampled);
    assert!(!head.render_as(Format::OpenMetrics).contains("trace_id"), "not drawn");
    publish(&head, &journal(2, 400, done()));
    assert!(!head.render().contains("trace_id"), "the format of Prometheus has no place for them");
}

#[test]
fn under_tail_sampling_they_wait_for_the_end() {
    let metrics = metrics(Traces::Tail(NEVER));
    publish(&metrics, &journal(1, 400, done()));
    assert_eq!(exemplar(&metrics, TOOL_HALF), None, "a good, fast session is not kept");
    let mut failed = journal(2, 400, session_end(SessionStatus::Error, Some(EndReason::NoProgress)));
    let end = failed.entries.pop().expect("its end");
    publish(&metrics, &failed);
    assert_eq!(exemplar(&metrics, TOOL_HALF), None, "not decided yet");
    metrics.sink().publish(&[Arc::new(end)]);
    assert!(exemplar(&metrics, TOOL_HALF).expect("it is kept").contains(&"02".repeat(16)));
    let session = r#"glassbox_session_duration_seconds_bucket{agent="bank",task_type="cards",le="1.0"}"#;
    assert!(exemplar(&metrics, session).expect("so is the session").contains(&"02".repeat(16)));
}

#[test]
fn both_formats_have_the_same_samples() {
    let metrics = metrics(Traces::Head);
    publish(&metrics, &journal(1, 400, done()));
    let samples = |format| -> Vec<String> {
        let page = metrics.render_as(format);
        let lines = page.lines().filter(|line| !line.starts_with('#') && !line.starts_with("process_"));
        lines.map(|line| line.split(" # ").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(samples(Format::OpenMetrics), samples(Format::Prometheus));

    let page = metrics.render_as(Format::OpenMetrics);
    assert!(page.ends_with("\n# EOF\n") && page.matches("# EOF").count() == 1);
    for line in [
        "# TYPE glassbox_sessions counter",
        "# UNIT glassbox_sessions sessions",
        "# TYPE glassbox_tool_duration_seconds histogram",
        "# UNIT glassbox_tool_duration_seconds seconds",
        "# TYPE glassbox_journal_queue_facts gauge",
        r#"glassbox_sessions_total{agent="bank",status="done",task_type="cards"} 1"#,
        r#"glassbox_build_info{version="1.2.3"} 1"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line}");
    }
    let classic = metrics.render();
    assert!(classic.lines().any(|line| line == "# TYPE glassbox_sessions_total counter"));
    assert!(!classic.contains("# UNIT") && !classic.contains("# EOF"));
}
