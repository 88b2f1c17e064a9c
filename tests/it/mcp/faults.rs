//! What a server over pipes can do to a session, and what the model reads of it.

use std::time::{Duration, Instant};

use glassbox::{
    core::{ToolOutcome, circuit::CircuitId},
    tool::DEFAULT_RESULT_BYTES,
};
use serde_json::json;

use super::{World, server::Fake, shown, told};

/// Reads, so that timeouts and lost connections are plain.
const READS: &str = "effect: read\ntimeout: 20s";

#[tokio::test]
async fn a_tool_is_called_in_the_trace_of_its_session() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml(READS));
    let end = world.call("fake_echo", json!({"text": "привет"})).await;
    assert_eq!(told(&end), (ToolOutcome::Ok, "привет"));

    let call = fake.hears(|heard| heard["method"] == "tools/call").await;
    let meta = &call["params"]["_meta"];
    let traceparent = meta["traceparent"].as_str().expect("a traceparent");
    let [session] = world.store_sessions()[..] else { panic!("one session") };
    let trace = session.trace_id().to_string();
    assert!(traceparent.starts_with(&format!("00-{trace}-")) && traceparent.ends_with("-01"), "{traceparent}");
    assert_eq!(meta["glassbox/idempotency-key"], format!("{session}:{}", end.call_id));
    assert_eq!(call["params"]["arguments"], json!({"text": "привет"}));
    world.stop().await;
}

#[tokio::test]
async fn schemas_are_closed_and_one_that_cannot_be_is_left_out_alone() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml(READS));
    let ends = world.session(&[("fake_echo", json!({"text": "a", "invented": 1})), ("fake_open", json!({}))]).await;
    assert_eq!(ends[0].outcome, ToolOutcome::InvalidArguments);
    assert!(ends[0].observation.content.contains("/invented: not an allowed field"), "{ends:?}");
    assert_eq!(ends[1].outcome, ToolOutcome::UnknownTool);
    assert_eq!(shown(&world)["fake_echo"].input_schema["additionalProperties"], json!(false));
    assert!(!shown(&world).contains_key("fake_open"));
    world.stop().await;
}

#[tokio::test]
async fn the_tools_own_word_and_the_protocols_no_are_told_apart() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml(READS));
    let ends =
        world.session(&[("fake_fail", json!({})), ("fake_refuse", json!({})), ("fake_progress", json!({}))]).await;
    let failed = "Error: fake_fail failed (tool_error: no such account). \
                  Try something else or answer with what you know.";
    assert_eq!(told(&ends[0]), (ToolOutcome::ToolError, failed));
    let refused = "Error: fake_refuse failed (refused: the MCP server fake answered -32602: unknown account). \
                   Try something else or answer with what you know.";
    assert_eq!(told(&ends[1]), (ToolOutcome::Refused, refused));
    assert_eq!(told(&ends[2]), (ToolOutcome::Ok, "progressed"));
    assert!(ends.iter().all(|end| end.attempts == 1), "{ends:?}");
    world.stop().await;
}

#[tokio::test]
async fn killed_in_the_middle_it_fails_at_once_and_comes_back() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml("timeout: 5m\noverrides: {echo: {effect: read}}"));
    let begun = Instant::now();
    let end = world.call("fake_die", json!({})).await;
    // Unsafe by default: it may have happened, and is not tried again.
    assert_eq!((end.outcome, end.attempts), (ToolOutcome::UnknownOutcome, 1));
    assert!(begun.elapsed() < Duration::from_secs(60), "it waited for its time to be over");
    let content = &end.observation.content;
    assert!(content.contains("the MCP server fake closed the connection in the middle"), "{content}");

    assert_eq!(told(&world.call_until_ok("fake_echo", json!({"text": "back"})).await), (ToolOutcome::Ok, "back"));
    let starts = fake.heard().iter().filter(|heard| heard["method"] == "initialize").count();
    assert_eq!(starts, 2);
    world.stop().await;
}

#[tokio::test]
async fn a_hung_call_times_out_and_the_server_is_told() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml("effect: read\noverrides: {hang: {timeout: 200ms}}"));
    let ends = world.session(&[("fake_hang", json!({})), ("fake_echo", json!({"text": "still here"}))]).await;
    assert_eq!((ends[0].outcome, ends[0].attempts), (ToolOutcome::Timeout, 2));
    assert_eq!(told(&ends[1]), (ToolOutcome::Ok, "still here"));
    let call = fake.hears(|heard| heard["params"]["name"] == "hang").await;
    let cancelled = fake.hears(|heard| heard["method"] == "notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
    // It was in doubt, gave a sign of life, and was left alone.
    fake.hears(|heard| heard["method"] == "ping").await;
    assert_eq!(fake.heard().iter().filter(|heard| heard["method"] == "initialize").count(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_cancelled_session_has_the_server_told() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml(READS));
    let mut handle = world.begin("fake_hang {}").await;
    fake.hears(|heard| heard["params"]["name"] == "hang").await;
    handle.cancel();
    handle.ended().await.expect("durable");
    assert_eq!(world.ends(handle.id())[0].outcome, ToolOutcome::Cancelled);
    fake.hears(|heard| heard["method"] == "notifications/cancelled").await;
    world.stop().await;
}

#[tokio::test]
async fn five_megabytes_are_capped_and_kept() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml(READS));
    let end = world.call("fake_big", json!({})).await;
    assert_eq!(end.outcome, ToolOutcome::Ok);
    let content = &end.observation.content;
    assert!(
        content.len() <= DEFAULT_RESULT_BYTES && content.contains(" of 5242880 bytes left out"),
        "{}",
        content.len()
    );
    let whole = end.observation.whole.expect("a pointer");
    let kept = world.store_blob(whole).expect("kept");
    assert_eq!(kept.len(), 5_242_880);
    world.stop().await;
}

#[tokio::test]
async fn later_sessions_see_a_changed_list_and_a_running_one_does_not() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml(READS));
    let ends = world.session(&[("fake_grow", json!({})), ("fake_later", json!({}))]).await;
    assert_eq!((ends[0].outcome, ends[1].outcome), (ToolOutcome::Ok, ToolOutcome::UnknownTool));
    let end = world.call_until_ok("fake_later", json!({})).await;
    assert_eq!(told(&end), (ToolOutcome::Ok, "later came later"));
    let metrics = world.runtime.metrics().render();
    assert!(metrics.contains(r#"glassbox_tool_calls_total{outcome="ok",tool="fake_later"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"glassbox_circuit_state{kind="group",name="mcp:fake",state="closed"} 1"#), "{metrics}");
    world.stop().await;
}

#[tokio::test]
async fn a_child_gets_no_variables_but_its_own_and_takes_its_children_along() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml(READS));
    let ends = world.session(&[("fake_variables", json!({})), ("fake_parent", json!({}))]).await;
    let names: Vec<_> = ends[0].observation.content.split(' ').collect();
    assert!(names.contains(&"SPECIAL") && names.contains(&"PATH"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
    let grandchild = ends[1].observation.content.clone();
    let alive = || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(alive(), "{grandchild} is not there");
    world.stop().await;
    let begun = Instant::now();
    while alive() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{grandchild} outlives its server");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_that_is_down_stops_neither_the_start_nor_the_others() {
    let fake = Fake::new();
    let broken = "  other:\n    command: [/nonexistent/server]\n    prefix: fake-other_\n";
    let both = fake.yaml(READS) + broken;
    let world = World::new(&both);
    assert_eq!(told(&world.call("fake_echo", json!({"text": "here"})).await), (ToolOutcome::Ok, "here"));
    assert_eq!(world.runtime.ready().await, Ok(()));
    let store = world.stop().await;

    // What an earlier process saw is still offered, and answers that nobody is there.
    let down = "  fake:\n    command: [/nonexistent/server]\n    effect: read\n";
    let world = World::on(store, down);
    let end = world.call("fake_echo", json!({"text": "here"})).await;
    assert_eq!((end.outcome, end.attempts), (ToolOutcome::Failed, 2));
    let content = &end.observation.content;
    assert!(content.contains("the MCP server fake is not there: /nonexistent/server cannot be started"), "{content}");
    assert_eq!(world.runtime.ready().await, Ok(()));

    // The fifth attempt that finds nobody, at any of its tools, closes the way for all of them.
    let group = || world.runtime.circuits().standing(&CircuitId::group("mcp:fake")).expect("a breaker");
    world.call("fake_fail", json!({})).await;
    assert_eq!((group().state.label(), group().failures), ("closed", 4));
    world.call("fake_refuse", json!({})).await;
    assert_eq!(group().state.label(), "open");
    // With no way to any tool the model is asked without them.
    assert!(world.session(&[("fake_variables", json!({}))]).await.is_empty());
    world.stop().await;
}
