//! Spans of calls of models and tools.

use super::*;
use crate::core::fact::{McpPeer, McpWay};

#[test]
fn a_model_call_shows_its_tokens_and_each_attempt() {
    let spans = fold(whole_session());
    let (chat, root) = (&spans[0], &spans[2]);
    assert_eq!(text(&chat.attributes, "gen_ai.response.model").as_deref(), Some("claude-x-2"));
    assert_eq!(int(&chat.attributes, "gen_ai.usage.input_tokens"), Some(100));
    assert_eq!(int(&chat.attributes, "gen_ai.usage.output_tokens"), Some(20));
    assert_eq!(int(&chat.attributes, "gen_ai.usage.cache_read.input_tokens"), Some(60));
    // 40 plain tokens at 1, 60 cached at 0.1 and 20 at 2 millionths of a dollar; the root has a name of its own.
    assert_eq!(get(&chat.attributes, "glassbox.cost_usd"), Some(&Value::F64(0.000086)));
    assert_eq!(get(&root.attributes, "glassbox.cost_usd"), None);
    assert_eq!(get(&root.attributes, "glassbox.session.cost_usd"), Some(&Value::F64(0.000086)));
    assert_eq!(text(&chat.attributes, "glassbox.counted_by").as_deref(), Some("estimate"));
    assert_eq!(int(&chat.attributes, "glassbox.step"), Some(2));
    assert_eq!(int(&chat.attributes, "glassbox.retries"), Some(1));
    assert_eq!(text(&chat.attributes, "gen_ai.conversation.id").as_deref(), Some("conv-7"));
    let attempts: Vec<_> = chat
        .events
        .iter()
        .map(|event| {
            let outcome = text(&event.attributes, "glassbox.attempt.outcome").expect("an outcome");
            (int(&event.attributes, "glassbox.attempt.number"), outcome, event.timestamp)
        })
        .collect();
    assert_eq!(attempts, [(Some(1), "overloaded".into(), seconds(103)), (Some(2), "ok".into(), seconds(105))]);
    assert_eq!(text(&chat.events[1].attributes, "glassbox.attempt.model").as_deref(), Some("spare"));
    assert_eq!(int(&root.attributes, "gen_ai.usage.input_tokens"), None);
    assert_eq!(int(&root.attributes, "glassbox.session.input_tokens"), Some(300));
    assert_eq!(text(&root.attributes, "glassbox.prompt.version").as_deref(), Some("3"));
    assert_eq!(text(&root.attributes, "glassbox.status").as_deref(), Some("done"));
}

#[test]
fn only_faults_and_error_outcomes_are_errors() {
    let tool = |outcome| {
        fold([started(trace()), tool_started(span_id(3), "lookup", true), tool_finished(span_id(3), outcome, 0)])
    };
    for (outcome, error) in [
        (ToolOutcome::Ok, None),
        (ToolOutcome::Cancelled, None),
        (ToolOutcome::Failed, Some("failed")),
        (ToolOutcome::InvalidArguments, Some("invalid_arguments")),
        (ToolOutcome::Lost, Some("lost")),
    ] {
        let span = tool(outcome).remove(0);
        assert_eq!(text(&span.attributes, "error.type").as_deref(), error);
        assert_eq!(span.status, error.map_or(Status::Unset, Status::error));
    }
    let chat = |outcome| {
        fold([started(trace()), model_started(span_id(2)), model_finished(span_id(2), outcome, Usage::default())])
    };
    for (outcome, error) in [
        (ModelOutcome::Cancelled, None),
        (ModelOutcome::Lost, Some("lost")),
        (ModelOutcome::Fault(FaultKind::Auth), Some("auth")),
    ] {
        let span = chat(outcome).remove(0);
        assert_eq!(text(&span.attributes, "error.type").as_deref(), error);
        assert_eq!(span.status, error.map_or(Status::Unset, Status::error));
        assert_eq!(int(&span.attributes, "gen_ai.usage.input_tokens"), None, "nothing was counted");
    }
}

#[test]
fn an_invented_tool_name_is_an_attribute_only() {
    let facts = [
        started(trace()),
        tool_started(span_id(3), "made_up", false),
        tool_finished(span_id(3), ToolOutcome::UnknownTool, 0),
    ];
    let span = fold(facts).remove(0);
    assert_eq!(span.name, "execute_tool");
    assert_eq!(text(&span.attributes, "gen_ai.tool.name").as_deref(), Some("made_up"));
    assert_eq!(int(&span.attributes, "glassbox.retries"), Some(0));
}

#[test]
fn a_retried_tool_shows_its_attempts_and_a_cut_one_shares_the_outcome() {
    let mut facts = vec![started(trace()), tool_started(span_id(3), "lookup", true)];
    facts.extend(tool_attempt(span_id(3), 1, ToolOutcome::Timeout));
    facts.push(Fact::ToolAttemptStarted { call: span_id(3), attempt: 2, effect: Effect::Read, wait_ms: 0, mcp: None });
    facts.push(tool_finished(span_id(3), ToolOutcome::Lost, 2));
    let span = fold(facts).remove(0);
    let outcomes: Vec<_> =
        span.events.iter().filter_map(|event| text(&event.attributes, "glassbox.attempt.outcome")).collect();
    assert_eq!(outcomes, ["timeout", "lost"]);
    assert_eq!(text(&span.attributes, "glassbox.tool.effect").as_deref(), Some("read"));
}

#[test]
fn the_server_of_the_last_attempt_stands_on_the_span_of_a_call_that_asked_one() {
    let asked = |attempt, protocol: Option<&str>, way| {
        let mcp = Some(Box::new(McpPeer { protocol: protocol.map(str::to_owned), way }));
        Fact::ToolAttemptStarted { call: span_id(3), attempt, effect: Effect::Read, wait_ms: 0, mcp }
    };
    let http = McpWay::Http { host: "mcp.example.org".into(), port: 443 };
    let begin = [started(trace()), tool_started(span_id(3), "files_read", true)];
    let refused = [tool_finished(span_id(3), ToolOutcome::InvalidArguments, 0)];
    let tried = [asked(1, None, http.clone()), asked(2, Some("2025-11-25"), http)];
    let piped = [asked(1, Some("2025-06-18"), McpWay::Pipe)];
    let of = |facts: &[Fact]| {
        let span = fold(begin.iter().cloned().chain(facts.iter().cloned())).remove(0);
        let mcp = |name: &str| ["mcp.", "network.", "server."].iter().any(|prefix| name.starts_with(prefix));
        let attributes = span.attributes.into_iter().filter(|attribute| mcp(attribute.key.as_str()));
        attributes.map(|attribute| format!("{}={}", attribute.key, attribute.value)).collect::<Vec<_>>()
    };
    assert_eq!(of(&refused), [""; 0]);
    let lost = tool_finished(span_id(3), ToolOutcome::Lost, 2);
    let over_http = [
        "mcp.method.name=tools/call",
        "mcp.protocol.version=2025-11-25",
        "network.transport=tcp",
        "network.protocol.name=http",
        "server.address=mcp.example.org",
        "server.port=443",
    ];
    assert_eq!(of(&[&tried[..], &[lost]].concat()), over_http);
    let ok = tool_finished(span_id(3), ToolOutcome::Ok, 1);
    let over_pipes = ["mcp.method.name=tools/call", "mcp.protocol.version=2025-06-18", "network.transport=pipe"];
    assert_eq!(of(&[&piped[..], &[ok]].concat()), over_pipes);
}
