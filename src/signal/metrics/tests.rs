//! Facts by hand, numbers by hand.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{MetricLabels, Metrics, catalogue::FAMILIES};
use crate::{
    core::{
        EndReason, Entry, FaultKind, SessionStatus, StreamId, Timestamp, ToolOutcome,
        circuit::{CircuitCause, CircuitChange, CircuitId, CircuitState},
        fact::{Decision, EraseCause, Fact, FallbackCause, Limit, ModelOutcome, RateLimit, SuspendCause},
        id::ProcessId,
        port::{JournalWatch as _, StoreErrorKind},
    },
    signal::samples::{Journal, session_end},
};

fn metrics() -> Metrics {
    Metrics::new(&MetricLabels {
        agents: vec![("bank".into(), vec!["spending".into(), "cards".into()])],
        models: vec![("main".into(), "anthropic".into(), "claude-x".into())],
        tools: vec!["search".into(), "pay".into()],
        mcp_servers: vec!["files".into()],
        fallbacks: vec![("main".into(), "backup".into())],
        circuits: vec![CircuitId::tool("search"), CircuitId::model("main")],
        sinks: vec!["lines", "feed"],
        version: "1.2.3".into(),
    })
    .expect("a right catalogue")
}

fn publish(metrics: &Metrics, entries: &[Entry]) {
    let entries: Vec<Arc<Entry>> = entries.iter().cloned().map(Arc::new).collect();
    metrics.sink().publish(&entries);
}

/// The value of a series as it stands in the text format.
fn value(metrics: &Metrics, series: &str) -> Option<f64> {
    let text = metrics.render();
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
        .map(|value| value.parse().expect("a number"))
}

#[track_caller]
fn check(metrics: &Metrics, expected: &[(&str, f64)]) {
    for (series, number) in expected {
        assert_eq!(value(metrics, series), Some(*number), "{series}");
    }
}

#[test]
fn every_declared_series_is_born_at_zero() {
    let text = metrics().render();
    let born = [
        r#"glassbox_sessions_total{agent="bank",status="max_iterations",task_type="cards"} 0"#,
        r#"glassbox_sessions_degraded_total{agent="bank",task_type="spending"} 0"#,
        r#"glassbox_session_steps_bucket{agent="bank",task_type="cards",le="25.0"} 0"#,
        r#"glassbox_tool_calls_total{outcome="circuit_open",tool="pay"} 0"#,
        r#"glassbox_tool_calls_total{outcome="unknown_tool",tool="unknown"} 0"#,
        r#"glassbox_tool_attempts_total{outcome="timeout",tool="search"} 0"#,
        r#"glassbox_tool_definition_changes_total{server="files",verdict="blocked"} 0"#,
        r#"glassbox_model_calls_total{model="main",outcome="rate_limited"} 0"#,
        r#"glassbox_model_fallbacks_total{cause="primary_down",model="main"} 0"#,
        r#"glassbox_model_fallbacks_total{cause="circuit_open",model="main"} 0"#,
        r#"glassbox_model_fallback_active{model="main"} 0"#,
        r#"glassbox_model_fallback_untested{model="backup"} 0"#,
        r#"glassbox_model_tool_requests_total{model="main",verdict="invalid_arguments"} 0"#,
        r#"glassbox_telemetry_dropped_total{sink="lines"} 0"#,
        r#"glassbox_journal_errors_total{kind="full"} 0"#,
        r#"glassbox_limits_reached_total{limit="deadline"} 0"#,
        r#"glassbox_rate_limited_total{limit="tool_principal"} 0"#,
        r#"glassbox_circuit_state{kind="tool",name="search",state="closed"} 1"#,
        r#"glassbox_circuit_state{kind="model",name="main",state="open"} 0"#,
        r#"glassbox_circuit_transitions_total{kind="model",name="main",to="half_open"} 0"#,
        r#"glassbox_build_info{version="1.2.3"} 1"#,
        "glassbox_sessions_active 0",
        r#"glassbox_sessions_erased_total{cause="retention"} 0"#,
        r#"glassbox_sessions_erased_total{cause="request"} 0"#,
        "glassbox_journal_commits_total 0",
    ];
    for series in born {
        assert!(text.lines().any(|line| line == series), "{series}");
    }
    // Two task types of five statuses, three tools of fifteen outcomes, eighteen outcomes of a model.
    let count = |family: &str| text.lines().filter(|line| line.starts_with(&format!("{family}{{"))).count();
    assert_eq!(count("glassbox_sessions_total"), 10);
    assert_eq!(count("glassbox_tool_calls_total"), 45);
    assert_eq!(count("glassbox_model_calls_total"), 18);
    assert_eq!(count("gen_ai_client_operation_duration_seconds_count"), 17);
    assert_eq!(count("gen_ai_client_token_usage_count"), 2);
}

#[test]
fn circuits_and_rate_limits_count_their_facts() {
    let metrics = metrics();
    let mut journal = Journal::new(1);
    let circuit = |name: &str, to| {
        let (circuit, from, cause) = (CircuitId::tool(name), CircuitState::Closed, CircuitCause::Failures);
        Fact::CircuitChanged(Box::new(CircuitChange { circuit, from, to, cause, forced: false, until: None, by: None }))
    };
    for to in [CircuitState::Open, CircuitState::HalfOpen, CircuitState::Open] {
        journal.push(circuit("search", to));
        journal.push(circuit("no longer configured", to));
    }
    journal.push(Fact::RateLimited { limit: RateLimit::Tool, tool: Some("pay".into()), wait_ms: 1, times: 1 });
    publish(&metrics, &journal.entries);
    let expected = [
        (r#"glassbox_circuit_state{kind="tool",name="search",state="closed"}"#, 0.0),
        (r#"glassbox_circuit_state{kind="tool",name="search",state="open"}"#, 1.0),
        (r#"glassbox_circuit_state{kind="tool",name="search",state="half_open"}"#, 0.0),
        (r#"glassbox_circuit_state{kind="model",name="main",state="closed"}"#, 1.0),
        (r#"glassbox_circuit_transitions_total{kind="tool",name="search",to="open"}"#, 2.0),
        (r#"glassbox_circuit_transitions_total{kind="tool",name="search",to="half_open"}"#, 1.0),
        (r#"glassbox_circuit_transitions_total{kind="tool",name="search",to="closed"}"#, 0.0),
        (r#"glassbox_rate_limited_total{limit="tool"}"#, 1.0),
        (r#"glassbox_rate_limited_total{limit="tool_principal"}"#, 0.0),
    ];
    check(&metrics, &expected);
    assert!(!metrics.render().contains("no longer configured"));
}

#[test]
fn the_render_and_the_catalogue_name_the_same_families() {
    let text = metrics().render();
    let described = |word: &str| -> BTreeSet<(String, String)> {
        text.lines()
            .filter_map(|line| line.strip_prefix(word)?.split_once(' '))
            .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
            .collect()
    };
    let of_catalogue = |field: fn(&super::catalogue::Family) -> &'static str| -> BTreeSet<(String, String)> {
        FAMILIES.iter().map(|family| (family.name.to_owned(), field(family).to_owned())).collect()
    };
    assert_eq!(described("# TYPE "), of_catalogue(|family| family.kind.label()));
    assert_eq!(described("# HELP "), of_catalogue(|family| family.meaning));
}

#[test]
fn names_follow_the_rules_of_promtool() {
    for family in FAMILIES {
        let counter = family.kind == super::catalogue::Kind::Counter;
        assert_eq!(counter, family.name.ends_with("_total"), "{}", family.name);
        assert_eq!(family.unit == "seconds" && !counter, family.name.ends_with("_seconds"), "{}", family.name);
        assert!(family.meaning.ends_with('.'), "{}", family.name);
    }
}

#[test]
fn erased_sessions_count_by_cause() {
    let metrics = metrics();
    let stream = StreamId::System(ProcessId::from_bytes([1; 16]));
    let fact = |seq, count, cause| Entry {
        stream,
        seq,
        at: Timestamp::from_nanos(seq),
        fact: Fact::SessionsErased { count, cause },
    };
    let facts =
        [fact(0, 3, EraseCause::Retention), fact(1, 1, EraseCause::Request), fact(2, 40, EraseCause::Retention)];
    publish(&metrics, &facts);
    check(
        &metrics,
        &[
            (r#"glassbox_sessions_erased_total{cause="retention"}"#, 43.0),
            (r#"glassbox_sessions_erased_total{cause="request"}"#, 1.0),
        ],
    );
}

#[test]
fn a_session_counts_its_calls_tokens_and_end() {
    let metrics = metrics();
    let mut journal = Journal::new(1);
    journal.started("bank", "spending");
    let model = journal.model_started(1, "main");
    journal.model_attempt(model, 1, "main", ModelOutcome::Fault(FaultKind::Overloaded));
    journal.model_attempt(model, 2, "main", ModelOutcome::Ok);
    journal.after(Duration::from_millis(300)).model_finished(model, ModelOutcome::Ok, (1200, 90));
    let good = journal.tool_started(1, "search", true);
    let invented = journal.tool_started(1, "rm -rf", false);
    journal.tool_attempt(good, 1, ToolOutcome::Timeout);
    journal.tool_attempt(good, 2, ToolOutcome::Ok);
    journal.after(Duration::from_millis(700)).tool_finished(good, ToolOutcome::Ok, Some(true), 2);
    journal.tool_finished(invented, ToolOutcome::UnknownTool, None, 0);
    publish(&metrics, &journal.entries);
    check(&metrics, &[("glassbox_sessions_active", 1.0)]);
    let mut end = session_end(SessionStatus::Done, None);
    (end.steps, end.context_peak, end.active_ms) = (2, 0.61, 2500);
    let seen = journal.entries.len();
    journal.after(Duration::from_secs(2)).push(Fact::SessionFinished(Box::new(end)));
    publish(&metrics, &journal.entries[seen..]);

    check(
        &metrics,
        &[
            (r#"glassbox_sessions_total{agent="bank",status="done",task_type="spending"}"#, 1.0),
            (r#"glassbox_session_steps_bucket{agent="bank",task_type="spending",le="1.0"}"#, 0.0),
            (r#"glassbox_session_steps_bucket{agent="bank",task_type="spending",le="2.0"}"#, 1.0),
            (r#"glassbox_session_duration_seconds_sum{agent="bank",task_type="spending"}"#, 3.0),
            (r#"glassbox_session_active_seconds_sum{agent="bank",task_type="spending"}"#, 2.5),
            (r#"glassbox_context_utilization_ratio_bucket{agent="bank",le="0.6"}"#, 0.0),
            (r#"glassbox_context_utilization_ratio_bucket{agent="bank",le="0.65"}"#, 1.0),
            ("glassbox_sessions_active", 0.0),
            (r#"glassbox_model_calls_total{model="main",outcome="ok"}"#, 1.0),
            (r#"glassbox_model_retries_total{model="main",reason="overloaded"}"#, 1.0),
            // 1,200 tokens at 3 and 90 at 15 millionths of a dollar.
            (r#"glassbox_cost_usd_total{model="main"}"#, 0.00495),
            (r#"glassbox_model_tool_requests_total{model="main",verdict="valid"}"#, 1.0),
            (r#"glassbox_model_tool_requests_total{model="main",verdict="unknown_tool"}"#, 1.0),
            (r#"glassbox_tool_calls_total{outcome="ok",tool="search"}"#, 1.0),
            (r#"glassbox_tool_calls_total{outcome="unknown_tool",tool="unknown"}"#, 1.0),
            (r#"glassbox_tool_attempts_total{outcome="timeout",tool="search"}"#, 1.0),
            (r#"glassbox_tool_attempts_total{outcome="ok",tool="search"}"#, 1.0),
            (r#"glassbox_tool_duration_seconds_sum{tool="search"}"#, 0.7),
            (r#"glassbox_tool_duration_seconds_count{tool="unknown"}"#, 0.0),
            (
                r#"gen_ai_client_operation_duration_seconds_sum{error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-x"}"#,
                0.3,
            ),
            (
                r#"gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-x",gen_ai_token_type="input"}"#,
                1200.0,
            ),
            (
                r#"gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-x",gen_ai_token_type="output"}"#,
                90.0,
            ),
        ],
    );
    assert!(!metrics.render().contains("rm -rf"));
}

#[test]
fn a_primary_is_given_up_while_it_is_down_or_its_circuit_is_not_closed() {
    let metrics = metrics();
    let system = |fact| Entry {
        stream: StreamId::System(ProcessId::from_bytes([2; 16])),
        seq: 0,
        at: Timestamp::default(),
        fact,
    };
    let down = |down| system(Fact::PrimaryChanged { model: "main".into(), down });
    let circuit = |to| {
        system(Fact::CircuitChanged(Box::new(CircuitChange {
            circuit: CircuitId::model("main"),
            from: CircuitState::Closed,
            to,
            cause: CircuitCause::Failures,
            forced: false,
            until: None,
            by: None,
        })))
    };
    let active = |fact: Entry| {
        publish(&metrics, &[fact]);
        value(&metrics, r#"glassbox_model_fallback_active{model="main"}"#).expect("a series")
    };
    assert_eq!(active(circuit(CircuitState::Open)), 1.0);
    assert_eq!(active(circuit(CircuitState::HalfOpen)), 1.0, "all but the probe go to the fallback");
    assert_eq!(active(down(true)), 1.0);
    assert_eq!(active(circuit(CircuitState::Closed)), 1.0, "it is still down");
    assert_eq!(active(down(false)), 0.0);
    let mut journal = Journal::new(6);
    journal.started("bank", "cards");
    let cause = FallbackCause::Fault(FaultKind::RateLimited);
    journal.push(Fact::ModelFallback { step: 1, from: "main".into(), to: "backup".into(), cause });
    journal.push(Fact::ModelFallback { step: 2, from: "gone".into(), to: "backup".into(), cause });
    publish(&metrics, &journal.entries);
    check(
        &metrics,
        &[
            (r#"glassbox_model_fallbacks_total{cause="rate_limited",model="main"}"#, 1.0),
            (r#"glassbox_model_fallbacks_total{cause="rate_limited",model="unknown"}"#, 1.0),
        ],
    );
    metrics.fallback_untested("backup", true);
    check(&metrics, &[(r#"glassbox_model_fallback_untested{model="backup"}"#, 1.0)]);
}

#[test]
fn a_refused_credential_counts_each_attempt() {
    let metrics = metrics();
    let mut journal = Journal::new(1);
    journal.started("bank", "cards");
    let call = journal.model_started(1, "main");
    journal.model_attempt(call, 1, "main", ModelOutcome::Fault(FaultKind::Auth));
    journal.model_finished(call, ModelOutcome::Fault(FaultKind::Auth), (0, 0));
    journal.push(Fact::LimitReached { limit: Limit::Deadline, value: 600 });
    journal.push(Fact::SessionFinished(Box::new(session_end(SessionStatus::Error, Some(EndReason::ModelAuth)))));
    publish(&metrics, &journal.entries);
    check(
        &metrics,
        &[
            (r#"glassbox_model_auth_failures_total{model="main"}"#, 1.0),
            (r#"glassbox_model_calls_total{model="main",outcome="auth"}"#, 1.0),
            (r#"glassbox_limits_reached_total{limit="deadline"}"#, 1.0),
            (r#"glassbox_sessions_total{agent="bank",status="error",task_type="cards"}"#, 1.0),
            (
                r#"gen_ai_client_operation_duration_seconds_count{error_type="auth",gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-x"}"#,
                1.0,
            ),
            (
                r#"gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-x",gen_ai_token_type="input"}"#,
                0.0,
            ),
        ],
    );
}

#[test]
fn a_session_begun_elsewhere_counts_as_unknown_unless_adopted() {
    let mut journal = Journal::new(1);
    journal.started("bank", "cards");
    let cut = journal.tool_started(1, "pay", true);
    let elsewhere = journal.entries.len();
    journal.push(Fact::SessionResumed { process: "p2".into() });
    journal.tool_finished(cut, ToolOutcome::Lost, None, 0);
    journal.push(Fact::SessionFinished(Box::new(session_end(SessionStatus::Done, None))));
    let (before, after) = journal.entries.split_at(elsewhere);

    let stranger = metrics();
    publish(&stranger, after);
    check(
        &stranger,
        &[
            (r#"glassbox_sessions_total{agent="unknown",status="done",task_type="unknown"}"#, 1.0),
            (r#"glassbox_tool_calls_total{outcome="lost",tool="unknown"}"#, 1.0),
            ("glassbox_sessions_active", 0.0),
        ],
    );

    let heir = metrics();
    heir.adopt(before);
    check(&heir, &[("glassbox_sessions_active", 1.0)]);
    publish(&heir, after);
    check(
        &heir,
        &[
            (r#"glassbox_sessions_total{agent="bank",status="done",task_type="cards"}"#, 1.0),
            (r#"glassbox_tool_calls_total{outcome="lost",tool="pay"}"#, 1.0),
            (r#"glassbox_tool_duration_seconds_count{tool="pay"}"#, 0.0),
            ("glassbox_sessions_active", 0.0),
        ],
    );
}

#[test]
fn nothing_is_kept_of_sessions_that_left() {
    let metrics = metrics();
    for id in 0..50 {
        let mut journal = Journal::new(id);
        journal.started("nobody", "undeclared");
        let model = journal.model_started(1, "gone");
        journal.model_finished(model, ModelOutcome::Ok, (1, 1));
        if id % 2 == 0 {
            journal.push(Fact::SessionSuspended { cause: SuspendCause::Drain });
        } else {
            journal.push(Fact::SessionFinished(Box::new(session_end(SessionStatus::Cancelled, None))));
        }
        publish(&metrics, &journal.entries);
    }
    check(
        &metrics,
        &[
            ("glassbox_sessions_active", 0.0),
            (r#"glassbox_sessions_total{agent="unknown",status="cancelled",task_type="unknown"}"#, 25.0),
            (r#"glassbox_model_calls_total{model="unknown",outcome="ok"}"#, 50.0),
        ],
    );
    let text = metrics.render();
    assert!(!text.contains("nobody") && !text.contains("undeclared") && !text.contains("gone"));
}

#[test]
fn calls_that_wait_for_a_person_are_a_gauge() {
    let metrics = metrics();
    let pending = |value: f64| check(&metrics, &[("glassbox_confirmations_pending", value)]);
    pending(0.0);
    let mut journal = Journal::new(7);
    journal.started("bank", "cards");
    let (one, two) = (journal.asked(1, "transfer"), journal.asked(1, "transfer"));
    journal.push(Fact::SessionSuspended { cause: SuspendCause::Confirmation });
    publish(&metrics, &journal.entries);
    pending(2.0);
    check(&metrics, &[("glassbox_sessions_active", 0.0)]);
    // Read once more when the session is taken up, each still counts once.
    metrics.adopt(&journal.entries);
    pending(2.0);
    let read = journal.entries.len();
    journal.decided(one, Decision::Approved);
    publish(&metrics, &journal.entries[read..]);
    pending(1.0);
    metrics.leave(journal.session);
    check(&metrics, &[("glassbox_sessions_active", 0.0)]);
    let read = journal.entries.len();
    journal.decided(two, Decision::Expired);
    publish(&metrics, &journal.entries[read..]);
    pending(0.0);
    metrics.notice_waiting(&journal.entries[..2]);
    pending(1.0);
    metrics.forget_waiting(journal.session);
    pending(0.0);
}

#[test]
fn the_journal_tells_of_its_health() {
    let metrics = metrics();
    metrics.committed(7, Duration::from_millis(3));
    metrics.failed(StoreErrorKind::Full);
    metrics.queued(12);
    metrics.dropped("lines").inc_by(4);
    check(
        &metrics,
        &[
            ("glassbox_journal_commits_total", 1.0),
            ("glassbox_journal_facts_total", 7.0),
            (r#"glassbox_journal_commit_duration_seconds_bucket{le="0.0025"}"#, 0.0),
            (r#"glassbox_journal_commit_duration_seconds_bucket{le="0.005"}"#, 1.0),
            (r#"glassbox_journal_errors_total{kind="full"}"#, 1.0),
            ("glassbox_journal_queue_facts", 12.0),
            (r#"glassbox_telemetry_dropped_total{sink="lines"}"#, 4.0),
        ],
    );
}

#[test]
fn the_page_of_metrics_is_printed_from_the_catalogue() {
    crate::signal::samples::check_document("docs/metrics.md", &super::catalogue::render_document());
}
