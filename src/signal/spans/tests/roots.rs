//! The root of a session.

use super::*;

#[test]
fn a_root_is_an_error_only_where_its_session_is() {
    let root = |status, reason| fold([started(trace()), finished(status, reason)]).remove(0);
    let failed = root(SessionStatus::Error, Some(EndReason::ModelAuth));
    assert_eq!(failed.status, Status::error("model_auth"));
    assert_eq!(text(&failed.attributes, "error.type").as_deref(), Some("model_auth"));
    let spent = root(SessionStatus::BudgetExceeded, Some(EndReason::Deadline));
    assert_eq!(spent.status, Status::Unset);
    assert_eq!(text(&spent.attributes, "glassbox.reason").as_deref(), Some("deadline"));
    assert_eq!(root(SessionStatus::Cancelled, None).status, Status::Unset);
}

#[test]
fn a_joined_trace_has_a_remote_parent_and_a_linked_one_a_link() {
    let caller = TraceId::from_bytes([9; 16]);
    let joined = TraceStart { trace_id: caller, parent: Some(span_id(8)), ..trace() };
    let root = fold([started(joined), finished(SessionStatus::Done, None)]).remove(0);
    assert_eq!(root.span_context.trace_id().to_string(), "09".repeat(16));
    assert_eq!(root.parent_span_id, OtelSpanId::from_bytes([8; 8]));
    assert!(root.parent_span_is_remote);
    let linked = TraceStart { link: Some(SpanLink { trace_id: caller, span_id: span_id(8) }), ..trace() };
    let root = fold([started(linked), finished(SessionStatus::Done, None)]).remove(0);
    assert_eq!(root.parent_span_id, OtelSpanId::INVALID);
    let link = &root.links[0].span_context;
    assert_eq!((link.trace_id().to_string(), link.span_id()), ("09".repeat(16), OtelSpanId::from_bytes([8; 8])));
    assert!(link.is_remote());
}

#[test]
fn what_happens_to_the_session_is_an_event_of_its_root() {
    let facts = [
        started(trace()),
        Fact::SessionSuspended { cause: SuspendCause::Drain },
        Fact::SessionResumed { process: "proc".into() },
        Fact::CancelRequested { by: "C-001".into() },
        Fact::LimitReached { limit: Limit::TokenBudget, value: 50_000 },
        Fact::HandedOver { cause: HandoverCause::SessionEnded, detail: "secret".into(), tool: None },
        finished(SessionStatus::BudgetExceeded, Some(EndReason::TokenBudget)),
    ];
    let root = fold(facts).remove(0);
    let names: Vec<_> = root.events.iter().map(|event| event.name.as_ref()).collect();
    let expected = ["session.suspended", "session.resumed", "session.cancel_requested", "limit_reached", "handed_over"];
    assert_eq!(names, expected.map(|name| format!("glassbox.{name}")));
    assert_eq!(int(&root.events[3].attributes, "glassbox.limit.value"), Some(50_000));
    assert!(!format!("{root:?}").contains("C-001"));
}

#[test]
fn an_unsampled_session_gives_nothing_and_holds_nothing() {
    let mut facts = whole_session();
    facts[0] = started(TraceStart { sampled: false, ..trace() });
    assert_eq!(fold(facts), []);
}

#[test]
fn long_names_are_capped_and_too_many_events_are_counted() {
    let long = "n".repeat(5000);
    let mut facts = vec![started(trace()), tool_started(span_id(3), &long, true)];
    facts.extend((1..=200).flat_map(|number| tool_attempt(span_id(3), number, ToolOutcome::Failed)));
    facts.push(tool_finished(span_id(3), ToolOutcome::Failed, 200));
    let span = fold(facts).remove(0);
    assert_eq!(text(&span.attributes, "gen_ai.tool.name").map(|name| name.len()), Some(1024));
    assert_eq!(span.name.len(), "execute_tool ".len() + 1024);
    assert_eq!((span.events.len(), span.events.dropped_count), (128, 72));
}
