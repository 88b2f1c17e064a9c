//! One tool called by hand, through the whole path of a session's call: arguments, access, limits,
//! a person's word, breaker, timeout, retry, cap.
//!
//! Its journal lives in memory and is forgotten: the call is no session, is in no list, and is
//! counted in no metric of sessions or tools. Breakers and rate limits are those of the process.

use std::{sync::Arc, time::Duration};

use serde_json::Map;

use super::{Runtime, random};
use crate::{
    core::{
        Arguments, Entry, Fact, Principal, Sensitive, SessionId, Store, StreamId, ToolCall, ToolOutcome,
        fact::{AttemptEnd, SpanContent, ToolCallEnd},
        port::StoreError,
    },
    session::{Agent, Followed, NewSession, Upstream, try_call},
    store, tool,
};

/// The id of the call.
const CALL: &str = "call_1_1";

/// A call that is tried by hand.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The name that a model would call.
    pub tool: String,
    /// The arguments, as a model would write them.
    pub arguments: Arguments,
    /// Who it is for.
    pub principal: Principal,
    /// Whether a person agrees to it, where one must.
    pub approve: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// How each attempt ended.
    pub attempts: Vec<AttemptEnd<ToolOutcome>>,
    /// How the call ended, with what a model would read.
    pub end: ToolCallEnd,
    /// From its start to its end.
    pub took: Duration,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum NotTried {
    /// The tools as they are now cannot be put together.
    #[error(transparent)]
    Tools(#[from] tool::Error),
    /// There is no agent whose rules the call could go by.
    #[error("no agent is configured")]
    NoAgent,
    /// The journal in memory.
    #[error("the call left no record: {0}")]
    Journal(StoreError),
    /// The call did not end.
    #[error("the call did not end")]
    NoEnd,
}

impl Runtime {
    /// Calls a tool once, as a session of an agent that has it would; any tool can be called, also
    /// one that no agent has.
    ///
    /// # Errors
    /// Where the call could not be made at all; whatever goes wrong with it is its outcome.
    pub async fn try_tool(&self, trial: Trial) -> Result<Tried, NotTried> {
        self.all_tools_settled().await;
        let agent = self.agent_with(&trial.tool)?;
        let store: Arc<dyn Store> = Arc::new(store::memory::Store::new());
        let journal = self.inner.journal.beside(store.clone(), Arc::new(self.metrics().clone()));
        let id = SessionId::from_bytes(random(&*self.inner.entropy));
        let principal = Arc::new(trial.principal);
        let until = journal.clock().now().plus(self.inner.lease);
        let log = agent.begin(&journal, id, nothing_asked(&agent, &principal), &agent.prompt(&principal), until);
        let call = ToolCall { id: CALL.to_owned(), name: trial.tool, arguments: trial.arguments };
        try_call(&log, &agent, &principal, call, trial.approve).await;
        log.flush().await.map_err(NotTried::Journal)?;
        read(&store.load(StreamId::Session(id)).map_err(NotTried::Journal)?).ok_or(NotTried::NoEnd)
    }

    /// An agent that has the tool; where there is none, the first one, with all tools.
    fn agent_with(&self, tool: &str) -> Result<Agent, NotTried> {
        let agents = self.agents();
        let has = |agent: &&Arc<Agent>| agent.tools.spec(tool).is_some();
        if let Some(agent) = agents.values().find(has) {
            return Ok(Agent::clone(agent));
        }
        let agent = Agent::clone(agents.values().next().ok_or(NotTried::NoAgent)?);
        let tools = self.inner.agents.toolsets().now(&self.inner.servers)?.registry().all();
        Ok(Agent { tools, ..agent })
    }
}

/// A beginning without a task.
fn nothing_asked(agent: &Agent, principal: &Principal) -> NewSession {
    NewSession {
        task: Sensitive::new(String::new()),
        task_type: agent.default_task_type.clone(),
        principal: principal.clone(),
        conversation_id: None,
        follows: Followed::default(),
        metadata: Map::new(),
        upstream: Upstream::None,
        sampled: false,
        content: SpanContent::Off,
        once: None,
    }
}

fn read(entries: &[Entry]) -> Option<Tried> {
    let (mut attempts, mut begun) = (Vec::new(), None);
    for entry in entries {
        if let Fact::ToolCallStarted { .. } = &entry.fact {
            begun = Some(entry.at);
        } else if let Fact::ToolAttemptFinished { end, .. } = &entry.fact {
            attempts.push(end.clone());
        } else if let Fact::ToolCallFinished { end, .. } = &entry.fact {
            return Some(Tried { attempts, end: (**end).clone(), took: entry.at.since(begun?) });
        }
    }
    None
}
