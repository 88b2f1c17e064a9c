//! The beginning of a session: what a surface hands in, and the way from there to the first
//! durable fact. With an idempotency key a request begins one session, however often it comes.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::{
    Hour, Refused, Runtime, SessionHandle,
    conversations::Floor,
    live::Place,
    quota::Share,
    random,
    resume::{Taken, panicked},
    spawn,
    turns::name_of,
};
use crate::{
    core::{Principal, Sensitive, SessionId, once::Once, port::StoreErrorKind},
    machine::prompt::{Prompt, canonical},
    session::{Agent, NewSession, Upstream},
};

/// How long a session may take to become durable before whoever began it is told to wait.
const BEGIN: Duration = Duration::from_secs(5);
/// How long an idempotency key is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How often a beginning is tried that another process came before.
const TRIES: usize = 3;

/// A task as a surface hands it in.
#[derive(Clone, Debug)]
pub struct Task {
    /// What is asked.
    pub text: Sensitive<String>,
    /// Which agent; the only one if left out.
    pub agent: Option<String>,
    /// Which kind of task; the agent's default if left out.
    pub task_type: Option<String>,
    /// The conversation that it continues.
    pub conversation_id: Option<String>,
    /// What the caller sent along.
    pub metadata: Map<String, Value>,
    /// Who it is for.
    pub principal: Principal,
    /// The caller's span, and what becomes of it.
    pub upstream: Upstream,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub enum Opened {
    /// It began this session, after which so much of the hour is used, where that is limited.
    Now(SessionHandle, Option<Hour>),
    /// The same request began this session before.
    Before(SessionId),
}

/// A session that is let in, with all that is held until its first fact is durable.
struct Beginning {
    id: SessionId,
    place: Place,
    floor: Floor,
    share: Share,
    agent: Arc<Agent>,
    prompt: Prompt,
    principal: Arc<Principal>,
    new: NewSession,
}

impl Task {
    /// A task for the only agent, with nothing besides its text.
    pub fn new(text: impl Into<Sensitive<String>>, principal: Principal) -> Self {
        Self {
            text: text.into(),
            agent: None,
            task_type: None,
            conversation_id: None,
            metadata: Map::new(),
            principal,
            upstream: Upstream::None,
        }
    }
}

impl Runtime {
    /// Begins a session. When this returns, the session is durable.
    ///
    /// # Errors
    /// Why it was not begun.
    pub async fn open(&self, task: Task) -> Result<SessionHandle, Refused> {
        Ok(self.open_counted(task).await?.0)
    }

    /// Begins a session, and tells how much of the hour is used then.
    ///
    /// # Errors
    /// Why it was not begun.
    pub async fn open_counted(&self, task: Task) -> Result<(SessionHandle, Option<Hour>), Refused> {
        // Boxed, so that whoever waits for the end keeps no room for the beginning.
        Box::pin(self.begin(task, None)).await
    }

    /// Begins a session, unless the same principal did so with the same key in the last 24 hours:
    /// then that session is given, also after a restart and from another process. A request that
    /// began nothing leaves its key unused.
    ///
    /// # Errors
    /// Why none was begun, also where the key came with another body.
    pub async fn open_once(&self, task: Task, key: &str, body: &Value) -> Result<Opened, Refused> {
        let key = name_of(&["idempotency", &task.principal.id, key]);
        let body = name_of(&[&canonical(body)]);
        let _turn = self.inner.turns.take(key).await;
        let mut tries = 1..=TRIES;
        loop {
            let now = self.inner.journal.clock().now();
            let begun = self.on_store(move |store| store.begun_once(key, now)).await.map_err(Refused::Journal)?;
            if let Some(begun) = begun {
                return if begun.body == body { Ok(Opened::Before(begun.session)) } else { Err(Refused::KeyReused) };
            }
            match self.begin(task.clone(), Some(Once { key, body, until: now.plus(KEPT) })).await {
                // Another process came first: its session is found now.
                Err(Refused::Journal(error)) if error.kind == StoreErrorKind::Claimed && tries.next().is_some() => {}
                opened => return opened.map(|(handle, hour)| Opened::Now(handle, hour)),
            }
        }
    }

    async fn begin(&self, task: Task, once: Option<Once>) -> Result<(SessionHandle, Option<Hour>), Refused> {
        let inner = &*self.inner;
        if task.text.expose().trim().is_empty() {
            return Err(Refused::EmptyTask);
        }
        if inner.draining.is_cancelled() {
            return Err(Refused::Draining);
        }
        if let Some(fault) = inner.journal.writer().fault() {
            return Err(Refused::Journal(fault));
        }
        if let Some(name) = inner.agents.meant(task.agent.as_deref()) {
            self.tools_settled(&name).await;
        }
        let agent = inner.agents.find(task.agent.as_deref())?;
        let task_type = inner.agents.task_type(&agent, task.task_type)?;
        let place = self.admit(&task.principal.id)?;
        let floor = self.take_conversation(task.conversation_id.as_deref(), &task.principal.id).await?;
        let follows = self.followed(&floor, &agent).await?;
        let share = self.take_share(&task.principal.id).await?;
        let id = SessionId::from_bytes(random(&*inner.entropy));
        let principal = Arc::new(task.principal.clone());
        let prompt = agent.prompt(&principal).carrying(follows.pairs.clone());
        let new = NewSession {
            task: task.text,
            task_type,
            principal: task.principal,
            conversation_id: task.conversation_id,
            follows,
            metadata: task.metadata,
            upstream: task.upstream,
            sampled: inner.signals.samples(id),
            content: inner.signals.content(),
            once,
        };
        let beginning = Beginning { id, place, floor, share, agent, prompt, principal, new };
        // What is once recorded is driven and counted, also where whoever asked is gone.
        let begun = spawn(self.clone().record(beginning)).await;
        begun.unwrap_or_else(|_| Err(Refused::Journal(panicked())))
    }

    /// Makes the first fact of a session durable, and drives it from there.
    async fn record(self, beginning: Beginning) -> Result<(SessionHandle, Option<Hour>), Refused> {
        let Beginning { id, place, floor, share, agent, prompt, principal, new } = beginning;
        let inner = &*self.inner;
        let conversation = new.conversation_id.clone();
        let now = inner.journal.clock().now();
        let log = agent.begin(&inner.journal, id, new, &prompt, now.plus(inner.lease));
        let durable = tokio::time::timeout(BEGIN, log.flush()).await;
        if let Ok(Err(error)) = durable {
            if error.kind == StoreErrorKind::Claimed {
                self.check_conversation(conversation.as_deref(), &principal.id).await?;
            }
            return Err(Refused::Journal(error));
        }
        let hour = share.with_one_at(now);
        if durable.is_err() {
            // It is not among those that can be counted yet; nobody else is let in before it is.
            let log = log.clone();
            spawn(async move {
                let _held = (floor, share);
                let _ = log.flush().await;
            });
        }
        let handle = place.drive(self.clone(), log, Taken { agent, prompt, principal });
        // One that is not durable yet waits with all others until the journal can write.
        if durable.is_ok() { Ok((handle, hour)) } else { Err(Refused::NotYetDurable { session: id }) }
    }
}
