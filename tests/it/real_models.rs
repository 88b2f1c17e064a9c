//! Whole sessions against model servers written by others, on both wires: what we record of them,
//! and what they say that we sent.

mod aimock;
mod judged;
mod llama;
mod qwen;

use std::{collections::BTreeMap, path::Path, time::Duration};

use glassbox::{
    Config, Runtime, Setup, Task,
    core::{
        Fact, SessionStatus, StreamId,
        fact::{ModelOutcome, SessionEnd},
        outcome::{EndReason, ToolOutcome},
    },
    session::Ended,
};

/// The two wire formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Anthropic,
    OpenAi,
}

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::OpenAi];

impl Wire {
    const fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }
}

/// The bank's agent with its model at this address. No wait is longer than it has to be.
fn config(wire: Wire, base_url: &str, stream: bool) -> Config {
    let provider = wire.provider();
    let text = format!(
        "agents:\n  bank: {{system_prompt: Help., model: bank, tools: [txn_sum], task_types: [other]}}\n\
         models:\n  bank: {{provider: {provider}, model: m-1, base_url: '{base_url}', api_key: {{env: KEY}}, stream: {stream}, timeout: 2s}}\n\
         tools:\n  txn_sum: {{builtin: txn_sum}}\n\
         llm_retry_policy: {{initial_delay_ms: 100, jitter: false, max_delay_ms: 2000}}\n"
    );
    let env = BTreeMap::from([("KEY".to_owned(), "sk-test".to_owned())]);
    Config::from_text("test.yaml", text.as_bytes(), Path::new(""), &env).unwrap_or_else(|report| panic!("{report}"))
}

/// A session as it went.
struct Ran {
    end: Box<SessionEnd>,
    facts: Vec<Fact>,
}

impl Ran {
    /// Runs a task to its end.
    async fn of(config: &Config, task: &str, dress: impl FnOnce(Setup) -> Setup) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = Runtime::start(config, dress(Setup::run(folder.path()))).expect("a runtime");
        let task = Task::new(task, config.auth.default_principal.clone());
        let mut handle = runtime.open(task).await.expect("begun");
        let ended = handle.ended().await.expect("durable");
        let Ended::Finished(end) = ended else { panic!("not finished: {ended:?}") };
        let entries = runtime.store().load(StreamId::Session(handle.id())).expect("a journal");
        runtime.stop(Duration::from_secs(5)).await.expect("closed");
        Self { end, facts: entries.into_iter().map(|entry| entry.fact).collect() }
    }

    /// How the attempts of its model calls ended, in order.
    fn attempts(&self) -> Vec<ModelOutcome> {
        let outcome = |fact: &Fact| match fact {
            Fact::ModelAttemptFinished { end, .. } => Some(end.outcome),
            _ => None,
        };
        self.facts.iter().filter_map(outcome).collect()
    }

    /// How its tool calls ended, in the order of their ends.
    fn calls(&self) -> Vec<ToolOutcome> {
        let outcome = |fact: &Fact| match fact {
            Fact::ToolCallFinished { end, .. } => Some(end.outcome),
            _ => None,
        };
        self.facts.iter().filter_map(outcome).collect()
    }

    /// What the last model call said of its end.
    fn finish_reason(&self) -> Option<&str> {
        let reply = |fact: &'_ Fact| matches!(fact, Fact::ModelCallFinished { .. });
        match self.facts.iter().rev().find(|fact| reply(fact)) {
            Some(Fact::ModelCallFinished { end, .. }) => end.reply.as_ref().map(|reply| reply.finish_reason.as_str()),
            _ => None,
        }
    }

    fn ended_as(&self) -> (SessionStatus, Option<EndReason>) {
        (self.end.status, self.end.reason)
    }

    fn answer(&self) -> &str {
        self.end.answer.as_ref().map(|answer| answer.expose().as_str()).unwrap_or_default()
    }
}
