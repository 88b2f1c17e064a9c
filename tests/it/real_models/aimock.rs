//! aimock: what goes right and wrong with providers, told by our journal and by its own.

use glassbox::{
    Effect, FaultKind, FnTool, Setup, ToolReply, ToolSpec,
    core::{
        SessionStatus, Usage,
        fact::ModelOutcome,
        outcome::{EndReason, ToolOutcome},
    },
};
use serde_json::{Value, json};

use super::{Ran, WIRES, Wire, config};
use crate::real_parts::{self, Part};

impl Wire {
    /// Where aimock speaks this wire.
    fn at(self, url: &str) -> String {
        match self {
            Self::Anthropic => url.to_owned(),
            Self::OpenAi => format!("{url}/v1"),
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAi => "/v1/chat/completions",
        }
    }
}

/// What aimock says that it was sent for this task, with the time of each request in milliseconds.
fn sent(aimock: &Part, task: &str) -> Vec<Value> {
    let journal = aimock.client().get("/__aimock/journal").json();
    let entries = journal.as_array().cloned().expect("a list");
    let asks = |entry: &Value| {
        entry["body"]["messages"].as_array().is_some_and(|all| all.iter().any(|m| m["content"] == task))
    };
    entries.into_iter().filter(asks).collect()
}

/// The messages of a request with this role; aimock keeps both wires in the form of OpenAI.
fn messages(entry: &Value, role: &str) -> Vec<Value> {
    let all = entry["body"]["messages"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|message| message["role"] == role).collect()
}

#[tokio::test]
async fn the_bank_answers_from_the_result_that_it_sent_back() {
    let Some(aimock) = real_parts::aimock(&["bank.json"], &[]) else { return };
    for wire in WIRES {
        for stream in [false, true] {
            let task = format!("Сколько я потратил на такси в сентябре? {wire:?} {stream}");
            let ran = Ran::of(&config(wire, &wire.at(&aimock.url), stream), &task, |setup| setup).await;
            assert_eq!(ran.answer(), "Такси в сентябре: 2 поездки, 5000 ₸.", "{wire:?} {stream}: {:?}", ran.end);
            assert_eq!((ran.ended_as(), ran.end.steps), ((SessionStatus::Done, None), 2));
            assert_eq!((ran.attempts(), ran.calls()), (vec![ModelOutcome::Ok; 2], vec![ToolOutcome::Ok]));

            let sent = sent(&aimock, &task);
            assert_eq!(sent.len(), 2, "{sent:#?}");
            for entry in &sent {
                assert_eq!((&entry["path"], &entry["response"]["status"]), (&json!(wire.path()), &json!(200)));
                assert_eq!(entry["body"]["stream"], stream);
                assert!(entry["headers"]["traceparent"].as_str().is_some_and(|value| value.starts_with("00-")));
            }
            let (asked, results) = (messages(&sent[1], "assistant"), messages(&sent[1], "tool"));
            assert_eq!(asked[0]["tool_calls"][0]["id"], results[0]["tool_call_id"], "{sent:#?}");
            let result: Value = serde_json::from_str(results[0]["content"].as_str().unwrap_or_default()).expect("JSON");
            assert_eq!((&result["total_kzt"], &result["count"]), (&json!(5000), &json!(2)));
            assert_eq!(ran.end.usage, Usage { input: 230, output: 35, ..Usage::default() }, "{wire:?} {stream}");
        }
    }
}

/// The weather, and sums of two numbers of one digit.
fn with_tools(setup: Setup) -> Setup {
    let one = |key: &str| json!({"type": "object", "properties": {key: {"type": "string"}}, "required": [key], "additionalProperties": false});
    let weather = ToolSpec::new("get_weather", "The weather in a city.", one("city")).effect(Effect::Read);
    let weather = FnTool::new(weather, |_, arguments| async move {
        Ok(ToolReply::Json(json!({"in": arguments["city"], "celsius": 17})))
    });
    let sum = ToolSpec::new("calculator", "Sums.", one("expression")).effect(Effect::Read);
    let sum =
        FnTool::new(sum, |_, arguments| async move { Ok(ToolReply::Text(format!("{} = 2", arguments["expression"]))) });
    setup.with_tool(["bank"], weather).with_tool(["bank"], sum)
}

#[tokio::test]
async fn parallel_calls_come_back_in_their_order_under_their_ids() {
    let Some(aimock) = real_parts::aimock(&["faults.json"], &[]) else { return };
    for wire in WIRES {
        for stream in [false, true] {
            let task = format!("What is the weather in Paris and one and one? {wire:?} {stream}");
            let ran = Ran::of(&config(wire, &wire.at(&aimock.url), stream), &task, with_tools).await;
            assert_eq!(ran.answer(), "It is 17 C and raining in Paris.", "{wire:?} {stream}: {:?}", ran.end);
            assert_eq!(ran.calls(), [ToolOutcome::Ok; 2]);
            let sent = sent(&aimock, &task);
            assert_eq!(sent.len(), 2);
            let (asked, results) = (messages(&sent[1], "assistant"), messages(&sent[1], "tool"));
            assert_eq!(asked[0]["content"], "Let me check.");
            for (place, (tool, result)) in
                [("get_weather", r#"{"in":"Paris","celsius":17}"#), ("calculator", "\"1+1\" = 2")]
                    .into_iter()
                    .enumerate()
            {
                let call = &asked[0]["tool_calls"][place];
                assert_eq!(call["function"]["name"], tool);
                assert_eq!(results[place], json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
            }
        }
    }
}

/// A task, the forms of reply in which it can happen, how each attempt ends.
struct Trouble {
    task: &'static str,
    forms: &'static [bool],
    attempts: &'static [FaultKind],
}

const TROUBLE: [Trouble; 5] = [
    // It asks for seven seconds, and two are waited at the most.
    Trouble { task: "ratelimit", forms: &[false, true], attempts: &[FaultKind::RateLimited] },
    Trouble { task: "overload", forms: &[false, true], attempts: &[FaultKind::Overloaded; 3] },
    Trouble { task: "malformed", forms: &[false, true], attempts: &[FaultKind::Malformed; 3] },
    Trouble { task: "disconnect", forms: &[false, true], attempts: &[FaultKind::Transport; 3] },
    Trouble { task: "cut", forms: &[true], attempts: &[FaultKind::Transport; 3] },
];

#[tokio::test]
async fn each_trouble_is_named_tried_again_as_often_as_it_may_be_and_handed_over() {
    let Some(aimock) = real_parts::aimock(&["faults.json"], &[]) else { return };
    for wire in WIRES {
        for Trouble { task, forms, attempts } in &TROUBLE {
            for stream in *forms {
                let task = format!("{task} {wire:?} {stream}");
                let ran = Ran::of(&config(wire, &wire.at(&aimock.url), *stream), &task, |setup| setup).await;
                let expected: Vec<_> = attempts.iter().map(|kind| ModelOutcome::Fault(*kind)).collect();
                assert_eq!(ran.attempts(), expected, "{task}");
                assert_eq!(ran.ended_as(), (SessionStatus::Error, Some(EndReason::ModelUnavailable)), "{task}");
                assert_eq!(sent(&aimock, &task).len(), attempts.len(), "{task}");
            }
        }
    }
}

#[tokio::test]
async fn thinking_is_no_answer() {
    let Some(aimock) = real_parts::aimock(&["faults.json"], &[]) else { return };
    for wire in WIRES {
        let whole = if wire == Wire::Anthropic { "end_turn" } else { "stop" };
        for stream in [false, true] {
            let ran = Ran::of(&config(wire, &wire.at(&aimock.url), stream), "think", |setup| setup).await;
            assert_eq!((ran.answer(), ran.finish_reason()), ("42", Some(whole)), "{wire:?} {stream}");
            assert_eq!(ran.ended_as(), (SessionStatus::Done, None));
        }
    }
}

#[tokio::test]
async fn an_answer_cut_by_its_limit_is_asked_to_go_on() {
    let Some(aimock) = real_parts::aimock(&["faults.json"], &[]) else { return };
    for wire in WIRES {
        let ran = Ran::of(&config(wire, &wire.at(&aimock.url), false), "maxtok", |setup| setup).await;
        // The mock has nothing to add, so what there is stays partial.
        assert_ne!(ran.end.status, SessionStatus::Done, "{wire:?}");
        assert_eq!(ran.end.partial.as_ref().map(|text| text.expose().as_str()), Some("truncated tex"), "{wire:?}");
        let last = sent(&aimock, "maxtok").pop().expect("sent");
        let said = messages(&last, "assistant");
        assert_eq!(said.last().map(|message| &message["content"]), Some(&Value::from("truncated tex")), "{last}");
        assert_eq!(messages(&last, "user").len(), 2, "the task, and the word to go on: {last}");
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_the_models_to_mend_three_times() {
    let Some(aimock) = real_parts::aimock(&["faults.json"], &[]) else { return };
    for stream in [false, true] {
        let task = format!("badjsonargs {stream}");
        let config = config(Wire::OpenAi, &Wire::OpenAi.at(&aimock.url), stream);
        let ran = Ran::of(&config, &task, with_tools).await;
        assert_eq!(ran.calls(), [ToolOutcome::InvalidArguments; 3]);
        assert_eq!(ran.attempts(), [ModelOutcome::Ok; 3]);
        assert_eq!(ran.ended_as(), (SessionStatus::Error, Some(EndReason::RepeatedFailure)));
        let last = sent(&aimock, &task).pop().expect("sent");
        let results = messages(&last, "tool");
        assert_eq!(results.len(), 2);
        assert!(results[0]["content"].as_str().is_some_and(|text| text.contains("JSON")), "{results:?}");
    }
}
