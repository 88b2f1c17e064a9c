//! llama-server with a small real model: text, usage, and a cancel in the middle of a stream.

use std::time::Duration;

use glassbox::{
    Config, Runtime, Setup, Task,
    core::{Fact, SessionStatus, StreamId, fact::ModelOutcome},
    session::Ended,
};

use super::{Ran, WIRES, Wire};
use crate::real_parts::{self, Weights};

/// An agent without tools; a small model takes its time.
fn config(wire: Wire, url: &str, max_tokens: u32) -> Config {
    let (provider, base) = match wire {
        Wire::Anthropic => ("anthropic", url.to_owned()),
        Wire::OpenAi => ("openai", format!("{url}/v1")),
    };
    let text = format!(
        "agents:\n  small: {{system_prompt: Be brief., model: small, language: en, task_types: [other]}}\n\
         models:\n  small: {{provider: {provider}, model: m-1, base_url: '{base}', context_window: 2048, max_output_tokens: {max_tokens}, timeout: 2m}}\n"
    );
    let read = Config::from_text("test.yaml", text.as_bytes(), std::path::Path::new(""), &Default::default());
    read.unwrap_or_else(|report| panic!("{report}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_streams_counts_and_is_cancelled_in_the_middle() {
    let options = ["--ctx-size", "4096", "--parallel", "2"];
    let Some(llama) = real_parts::llama_server(Weights::SmolLm2, &options) else { return };
    for wire in WIRES {
        let mut config = config(wire, &llama.url, 24);
        // A small model rambles on, and each reply that is cut off is asked to go on.
        config.agents.get_mut("small").expect("an agent").limits.max_iterations = 1;
        let ran = Ran::of(&config, "What is the capital of France?", |setup| setup).await;
        let calls = u64::try_from(ran.attempts().len()).expect("a few");
        assert!((1..=2).contains(&calls), "its one step, and a last word where that was cut off: {:?}", ran.end);
        assert!(ran.attempts().iter().all(|outcome| *outcome == ModelOutcome::Ok), "{:?}", ran.attempts());
        let text = ran.end.answer.as_ref().or(ran.end.partial.as_ref()).expect("a text").expose();
        assert!(text.chars().any(char::is_alphabetic), "{text}");
        // A dozen words of prompt and at most the tokens that were allowed, by the server's own count.
        let usage = &ran.end.usage;
        let (input, output) = (15 * calls..140 * calls, calls..=24 * calls);
        assert!(input.contains(&usage.input) && output.contains(&usage.output), "{usage:?}");
        assert!(!usage.estimated, "{usage:?}");
    }
    for wire in WIRES {
        cancel_in_the_middle(&llama, &config(wire, &llama.url, 1500)).await;
    }
}

async fn cancel_in_the_middle(llama: &real_parts::Part, config: &Config) {
    let writes = |answer: &crate::process::Answer| {
        let slots = answer.json();
        slots.as_array().is_some_and(|slots| slots.iter().any(|slot| slot["is_processing"] == true))
    };
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = Runtime::start(config, Setup::run(folder.path())).expect("a runtime");
    let task = "Write a very long story about a dragon, a princess and a knight. Never stop writing.";
    let task = Task::new(task, config.auth.default_principal.clone());
    let mut handle = runtime.open(task).await.expect("begun");
    llama.client().get_until("/slots", writes);
    handle.cancel();
    let Ended::Finished(end) = handle.ended().await.expect("durable") else { panic!("not finished") };
    assert_eq!(end.status, SessionStatus::Cancelled);
    let facts = runtime.store().load(StreamId::Session(handle.id())).expect("a journal");
    let cut = facts.iter().any(
        |entry| matches!(&entry.fact, Fact::ModelAttemptFinished { end, .. } if end.outcome == ModelOutcome::Cancelled),
    );
    assert!(cut, "the attempt was cut off: {facts:?}");
    // The server stops writing once nobody listens, long before the story would be over.
    llama.client().get_until("/slots", |answer| !writes(answer));
    runtime.stop(Duration::from_secs(5)).await.expect("closed");
}
