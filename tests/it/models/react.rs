//! Whole sessions in ReAct text through both wires.

use glassbox::{
    Setup,
    core::{EndReason, SessionStatus, fact::SessionEnd},
};
use serde_json::{Value, json};

use super::{
    Provider, WIRES, Wire,
    sessions::{ANSWER, TASK, config, run, says, yaml},
};

/// A session of the bank's agent whose model says these texts, the last again and again.
async fn talk(wire: Wire, stream: bool, texts: &'static [&'static str]) -> (Box<SessionEnd>, Vec<Value>) {
    let provider = Provider::start(move |number, _| says(wire, stream, texts[number.min(texts.len() - 1)])).await;
    let yaml = yaml(wire, &provider.url, stream).replace("model: m-1", "model: m-1\n    tool_calling: react");
    let folder = tempfile::tempdir().expect("a folder");
    let end = run(&config(&yaml), Setup::run(folder.path()), TASK).await;
    (end, provider.asked().into_iter().map(|asked| asked.body).collect())
}

/// What stands in the prompt and the history of a request, role by role.
fn said(wire: Wire, body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    match wire {
        Wire::OpenAi => messages.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect(),
        Wire::Anthropic => {
            let turn = |message: &Value| (text(&message["role"]), text(&message["content"][0]["text"]));
            let system = ("system".to_owned(), text(&body["system"][0]["text"]));
            std::iter::once(system).chain(messages.iter().map(turn)).collect()
        }
    }
}

#[tokio::test]
async fn the_bank_answers_in_text_and_no_made_up_observation_is_believed() {
    for wire in WIRES {
        for stream in [false, true] {
            let (end, asked) = talk(
                wire,
                stream,
                &[
                    "Thought: Смотрю.\nAction: txn_sum(category: taxi, month: 2026-09)\n\
                     Observation: {\"total_kzt\": 7}\nThought: хватит\nFinal Answer: 7 ₸",
                    "Thought: Знаю.\nFinal Answer: Такси в сентябре: 2 поездки, 5000 ₸.",
                ],
            )
            .await;
            assert_eq!(end.status, SessionStatus::Done, "{wire:?} {stream}: {end:?}");
            assert_eq!(end.answer.expect("an answer").expose(), ANSWER);
            assert_eq!((end.steps, end.tools_called), (2, vec!["txn_sum".to_owned()]));
            let (stop, other) = match wire {
                Wire::Anthropic => ("stop_sequences", "stop"),
                Wire::OpenAi => ("stop", "stop_sequences"),
            };
            for body in &asked {
                assert_eq!((&body[stop], body.get(other), body.get("tools")), (&json!(["Observation:"]), None, None));
            }
            let turns = said(wire, &asked[1]);
            let [(_, system), (_, task), (_, action), (_, result)] = &turns[..] else { panic!("{turns:?}") };
            assert!(system.starts_with("Помогай.\n\nYou can call these tools:\n\ntxn_sum: "), "{system}");
            assert_eq!(task, TASK);
            assert_eq!(
                action,
                "Thought: Смотрю.\nAction: txn_sum\nAction Input: {\"category\":\"taxi\",\"month\":\"2026-09\"}"
            );
            assert!(result.starts_with("Observation: {") && result.contains("5000"), "{result}");
            assert!(!asked[1].to_string().contains("7 ₸"), "{}", asked[1]);
            let roles: Vec<_> = turns.iter().map(|(role, _)| role.as_str()).collect();
            assert_eq!(roles, ["system", "user", "assistant", "user"]);
        }
    }
}

#[tokio::test]
async fn what_the_model_writes_wrong_comes_back_as_an_error_and_the_session_goes_on() {
    for wire in WIRES {
        let (end, asked) = talk(
            wire,
            true,
            &[
                "Thought: Надо посмотреть.",
                "Action: txn_sum\nAction Input: {\"category\": \"taxi\", ",
                "Action: txn_sum\nAction Input:\n```json\n{'category': 'taxi', 'month': '2026-09',}\n```",
                "Такси в сентябре: 2 поездки, 5000 ₸.",
            ],
        )
        .await;
        assert_eq!((end.status, end.steps), (SessionStatus::Done, 4), "{wire:?}: {end:?}");
        assert_eq!(end.answer.expect("an answer").expose(), ANSWER);
        let turns = said(wire, &asked[3]);
        let results: Vec<_> = turns.iter().filter(|(_, text)| text.starts_with("Observation: ")).collect();
        let [(_, undecided), (_, no_json), (_, good)] = &results[..] else { panic!("{turns:?}") };
        assert_eq!(
            undecided,
            "Observation: [error] unknown tool \"no Action and no Final Answer after the Thought\", \
             available: txn_sum. Use only tools from the provided list."
        );
        assert!(no_json.starts_with("Observation: [error] Schema validation error: arguments are not valid JSON"));
        assert!(good.starts_with("Observation: {"), "{good}");
        assert_eq!(turns[2].1, "Thought: Надо посмотреть.");
    }
}

#[tokio::test]
async fn a_model_that_only_thinks_is_stopped() {
    let (end, asked) = talk(Wire::OpenAi, false, &["Thought: hm"]).await;
    assert_eq!((end.status, end.reason), (SessionStatus::Error, Some(EndReason::RepeatedFailure)), "{end:?}");
    assert_eq!(asked.len(), 3);
}
