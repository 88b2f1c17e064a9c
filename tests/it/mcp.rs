//! Tools of MCP servers, through whole sessions: a small server of the test's own, which can do
//! everything wrong, and real ones.

mod conformance;
mod drift;
mod faults;
pub mod http;
mod real;
pub mod server;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use glassbox::{
    Config, Fault, Runtime, Setup, Task,
    core::{
        Arguments, BlobHash, Entry, Fact, Message, Model, ModelReply, ModelRequest, SessionId, Store, StreamId,
        ToolCall, ToolDefinition, ToolOutcome,
        fact::{DefinitionChange, ModelInfo, ToolCallEnd},
        port::{ModelCallInput, SessionFilter},
    },
    runtime::SessionHandle,
    store::memory,
};
use serde_json::Value;

/// A runtime whose agent has the tools of the servers, and the store that outlives it.
pub struct World {
    pub runtime: Runtime,
    pub store: Arc<memory::Store>,
    pub config: Config,
    folder: tempfile::TempDir,
}

/// One call of a session: the tool and its arguments.
pub type Ask<'a> = (&'a str, Value);

impl World {
    /// With these `mcp_servers`, on a fresh store.
    pub fn new(servers: &str) -> Self {
        Self::on(Arc::default(), servers)
    }

    pub fn on(store: Arc<memory::Store>, servers: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(servers);
        let model = |name: &str| Lines(config.models[name].info(name));
        let setup = Setup::run(folder.path()).with_store(store.clone());
        let setup = setup.with_model(model("lines")).with_model(model("backup"));
        let runtime = Runtime::start(&config, setup).expect("a runtime");
        Self { runtime, store, config, folder }
    }

    /// Makes these calls one after another in one session, and gives how each ended.
    pub async fn session(&self, calls: &[Ask<'_>]) -> Vec<ToolCallEnd> {
        let mut task = String::new();
        for (tool, arguments) in calls {
            writeln!(task, "{tool} {arguments}").expect("memory takes any text");
        }
        let mut handle = self.begin(&task).await;
        handle.ended().await.expect("durable");
        self.ends(handle.id())
    }

    pub async fn begin(&self, task: &str) -> SessionHandle {
        let task = Task::new(task.to_owned(), self.config.auth.default_principal.clone());
        self.runtime.open(task).await.expect("begun")
    }

    /// One call in a session of its own.
    pub async fn call(&self, tool: &str, arguments: Value) -> ToolCallEnd {
        self.session(&[(tool, arguments)]).await.pop().expect("one call")
    }

    pub async fn call_until_ok(&self, tool: &str, arguments: Value) -> ToolCallEnd {
        self.call_until(tool, arguments, ToolOutcome::Ok).await
    }

    /// The same again and again, until it ends so.
    pub async fn call_until(&self, tool: &str, arguments: Value, wanted: ToolOutcome) -> ToolCallEnd {
        let begun = Instant::now();
        loop {
            let end = self.call(tool, arguments.clone()).await;
            if end.outcome == wanted {
                return end;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{tool} never ends as {wanted}: {end:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn store_sessions(&self) -> Vec<SessionId> {
        let rows = self.store.sessions(&SessionFilter::default()).expect("readable");
        rows.into_iter().map(|row| row.id).collect()
    }

    pub fn store_blob(&self, hash: BlobHash) -> Option<Arc<[u8]>> {
        self.store.blob(hash).expect("readable")
    }

    pub fn entries(&self, id: SessionId) -> Vec<Entry> {
        self.store.load(StreamId::Session(id)).expect("a journal")
    }

    pub fn ends(&self, id: SessionId) -> Vec<ToolCallEnd> {
        let end = |entry: Entry| match entry.fact {
            Fact::ToolCallFinished { end, .. } => Some(*end),
            _ => None,
        };
        self.entries(id).into_iter().filter_map(end).collect()
    }

    /// What the system journals say of definitions.
    pub fn changes(&self) -> Vec<DefinitionChange> {
        let entries = self.store.system_facts("tool_definition_changed").expect("readable");
        let change = |entry: Entry| match entry.fact {
            Fact::ToolDefinitionChanged(change) => Some(*change),
            _ => None,
        };
        entries.into_iter().filter_map(change).collect()
    }

    pub async fn stop(self) -> Arc<memory::Store> {
        self.runtime.stop(Duration::from_secs(5)).await.expect("closed");
        drop(self.folder);
        self.store
    }
}

/// A model that calls what the task lists, a line a step: a tool and its arguments.
struct Lines(ModelInfo);

#[async_trait]
impl Model for Lines {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        serde_json::to_vec(request).expect("plain data")
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        let messages = &call.request.messages;
        let Some(Message::User { content }) = messages.first() else { panic!("a task comes first") };
        let step = messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        let next = content.lines().nth(step).and_then(|line| line.split_once(' '));
        Ok(match next {
            None => ModelReply { text: "done".into(), ..ModelReply::default() },
            Some((name, arguments)) => {
                let arguments = Arguments::from_text(arguments);
                let call = ToolCall { id: format!("call_{step}"), name: name.to_owned(), arguments };
                ModelReply { calls: vec![call], ..ModelReply::default() }
            }
        })
    }
}

/// The definitions that a model would be shown of an agent's tools.
pub fn shown(world: &World) -> BTreeMap<String, ToolDefinition> {
    let agent = world.runtime.agents()["test"].clone();
    let definitions = agent.tools.definitions(&world.config.auth.default_principal);
    definitions.iter().map(|definition| (definition.name.clone(), definition.clone())).collect()
}

fn config(servers: &str) -> Config {
    let text = format!(
        "agents:\n  test: {{system_prompt: You are a test., model: lines, fallback: backup, tools: [fake_*]}}\n\
         models:\n  lines: {{provider: scripted, script: bank}}\n  backup: {{provider: scripted, script: bank}}\nmcp_servers:\n{servers}"
    );
    let env = std::env::vars().collect::<BTreeMap<_, _>>();
    Config::from_text("test.yaml", text.as_bytes(), Path::new(""), &env).unwrap_or_else(|report| panic!("{report}"))
}

/// How a call ended, and what the model read of it.
pub fn told(end: &ToolCallEnd) -> (ToolOutcome, &str) {
    (end.outcome, &end.observation.content)
}
