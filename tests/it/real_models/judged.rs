//! llmock, which plays faults and judges what a client makes of them: it must find nothing.

use glassbox::{
    FaultKind,
    core::{
        SessionStatus,
        fact::ModelOutcome,
        outcome::{EndReason, ToolOutcome},
    },
};
use serde_json::{Value, json};

use super::{Ran, WIRES, Wire, config};
use crate::real_parts;

/// How a session ends.
type End = (SessionStatus, Option<EndReason>);

const DONE: End = (SessionStatus::Done, None);

/// What is played, how the attempts before the tool call end, and how the session does.
fn scenarios() -> Vec<(&'static str, Value, Vec<ModelOutcome>, End)> {
    use FaultKind::{Auth, Malformed, Overloaded, RateLimited, Refused, Server, Timeout, Transport};
    let fault = |status: u16| json!({"type": "fail", "status": status});
    let stream = |kind: &str| json!({"type": "stream_fault", "kind": kind, "after_chunks": 2, "stall_seconds": 20});
    let then_ok = |kinds: &[FaultKind]| {
        kinds.iter().map(|kind| ModelOutcome::Fault(*kind)).chain([ModelOutcome::Ok; 2]).collect::<Vec<_>>()
    };
    let only = |kind| vec![ModelOutcome::Fault(kind)];
    let twice = json!({"type": "fail", "status": 429, "retry_after": 1, "times": 2});
    vec![
        ("told to wait", json!([twice]), then_ok(&[RateLimited, RateLimited]), DONE),
        ("overloaded", json!([fault(529), fault(503)]), then_ok(&[Overloaded, Overloaded]), DONE),
        ("broken inside", json!([fault(500), fault(502)]), then_ok(&[Server, Server]), DONE),
        ("dropped", json!([stream("disconnect")]), then_ok(&[Transport]), DONE),
        ("cut", json!([stream("truncate")]), then_ok(&[Transport]), DONE),
        ("malformed", json!([stream("malformed")]), then_ok(&[Malformed]), DONE),
        ("stalled", json!([stream("stall")]), then_ok(&[Timeout]), DONE),
        ("refused", json!([fault(400)]), only(Refused), (SessionStatus::Error, Some(EndReason::ModelUnavailable))),
        ("unknown", json!([fault(401)]), only(Auth), (SessionStatus::Error, Some(EndReason::ModelAuth))),
    ]
}

#[tokio::test]
async fn a_judge_finds_nothing_to_blame_on_either_wire() {
    let Some(llmock) = real_parts::llmock() else { return };
    let queue = |behaviors: &Value| {
        let answer = llmock.client().post("/_llmock/scenario", &json!({"behaviors": behaviors}).to_string());
        assert_eq!(answer.status, 201, "{answer:?}");
    };
    let mut faults = 0;
    for wire in WIRES {
        let base = match wire {
            Wire::Anthropic => format!("{}/anthropic", llmock.url),
            Wire::OpenAi => format!("{}/v1", llmock.url),
        };
        for (name, behaviors, attempts, end) in scenarios() {
            queue(&behaviors);
            // Calls are told apart by their bodies, so no two tasks may be the same.
            let ran = Ran::of(&config(wire, &base, true), &format!("{name} {wire:?}"), |setup| setup).await;
            assert_eq!((ran.attempts(), ran.ended_as()), (attempts, end), "{name} {wire:?}: {:?}", ran.end);
            faults += ran.attempts().iter().filter(|outcome| **outcome != ModelOutcome::Ok).count();
        }
        for (kind, outcome) in
            [("malformed_arguments", ToolOutcome::InvalidArguments), ("unknown_tool", ToolOutcome::UnknownTool)]
        {
            queue(&json!([{"type": "tool_fault", "kind": kind}]));
            let ran = Ran::of(&config(wire, &base, true), &format!("{kind} {wire:?}"), |setup| setup).await;
            assert_eq!((ran.calls(), ran.ended_as()), (vec![outcome], DONE), "{kind} {wire:?}: {:?}", ran.end);
        }
    }
    assert_eq!(llmock.client().get("/_llmock/scenario").json()["pending"], json!([]), "all was played");
    let Some(mut command) = real_parts::llmock_command() else { return };
    let report = command.args(["report", "--json", "--strict", "--url", &llmock.url]).output().expect("a report");
    let verdict: Value = serde_json::from_slice(&report.stdout).unwrap_or_default();
    assert!(report.status.success(), "{verdict:#}");
    assert_eq!(verdict["findings"], json!([]));
    // The tool faults are no faults of the exchange, but it counts them too.
    assert!(verdict["faults_injected"].as_u64() >= Some(faults as u64), "{verdict:#}");
}
