//! What sessions count.

use std::time::Duration;

use super::{check, metrics, publish};
use crate::{
    core::{
        EndReason, Entry, FaultKind, SessionStatus, StreamId, Timestamp, ToolOutcome,
        fact::{Decision, EraseCause, Fact, Limit, ModelOutcome, SuspendCause},
        id::ProcessId,
    },
    signal::samples::{Journal, session_end},
};

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
