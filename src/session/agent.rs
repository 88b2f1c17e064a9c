//! An agent as it runs, and the beginning of a session of it.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::follow::Followed;
use crate::{
    core::{
        BlobHash, Limits, Model, Principal, Sensitive, SessionId, SpanId, Timestamp,
        fact::{CountedBy, JOURNAL_VERSION, Language, PromptRef, SessionStarted, SpanContent, SpanLink, TraceStart},
        once::Once,
        port::Blob,
    },
    journal::{Journal, SessionLog},
    machine::{self, Asked, Prompt, Surroundings, budget::Count},
    policy::{Entrance, Policy},
    tool::ToolSet,
};

/// A configured agent with its parts.
#[derive(Clone)]
pub struct Agent {
    /// Its name, a label.
    pub name: String,
    /// The system prompt.
    pub system_prompt: Arc<str>,
    /// The version of the prompt, if it is told.
    pub prompt_version: Option<String>,
    /// The language of what a customer reads.
    pub language: Language,
    /// Where its sessions are stopped.
    pub limits: Limits,
    /// The model asked.
    pub model: Arc<dyn Model>,
    /// Time of one request to the model.
    pub model_timeout: Duration,
    /// The model asked where that one does not answer.
    pub fallback: Option<Fallback>,
    /// Its tools.
    pub tools: ToolSet,
    /// What stands around its calls.
    pub policy: Arc<Policy>,
    /// JSON Schema that its answers are held to, if any.
    pub output_schema: Option<Arc<Value>>,
    /// Kinds of task, labels.
    pub task_types: Vec<String>,
    /// The kind of a task that names none.
    pub default_task_type: String,
    /// The effective configuration, as text.
    pub fingerprint: String,
}

/// The model that stands in for another.
#[derive(Clone)]
pub struct Fallback {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Time of one request to it.
    pub timeout: Duration,
}

/// The model of one call, and the right to ask it.
pub(super) struct Chosen<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) timeout: Duration,
    /// Held as long as the call takes.
    pub(super) entrance: Option<Entrance<'a>>,
}

/// A task that somebody wants done.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The task.
    pub task: Sensitive<String>,
    /// The kind of task, one of the agent's.
    pub task_type: String,
    /// Who it is for.
    pub principal: Principal,
    /// The conversation that it continues.
    pub conversation_id: Option<String>,
    /// What it takes over from that.
    pub follows: Followed,
    /// What the caller sent along.
    pub metadata: Map<String, Value>,
    /// The caller's span, and what becomes of it.
    pub upstream: Upstream,
    /// The sampling decision, where no trace is joined.
    pub sampled: bool,
    /// What its spans show of what was said.
    pub content: SpanContent,
    /// The idempotency key that begins it, if any.
    pub once: Option<Once>,
}

/// Where a session stands to the trace of whoever began it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Upstream {
    /// The caller said nothing of a trace.
    #[default]
    None,
    /// The session has a trace of its own, linked to this span.
    Linked(SpanLink),
    /// The session is a part of the caller's trace.
    Joined {
        /// The span that its root hangs under.
        span: SpanLink,
        /// The caller's sampling decision, which is the session's too.
        sampled: bool,
    },
}

impl Agent {
    /// What every call begins with, for this principal: tools that it may not use are not shown.
    pub fn prompt(&self, principal: &Principal) -> Prompt {
        let prompt = Prompt::new(self.system_prompt.clone(), self.tools.definitions(principal));
        self.in_form(prompt.holding(self.output_schema.clone()))
    }

    /// A prompt as the agent's models are told it; of two, the longer form counts.
    pub fn in_form(&self, prompt: Prompt) -> Prompt {
        let form = |asked| self.model_of(asked).form_tokens(prompt.tools.len());
        let tokens = form(Asked::Primary).max(form(Asked::Fallback));
        prompt.with_form(tokens)
    }

    /// Whether none of the tools that this principal may use can be reached now.
    pub fn tools_unavailable(&self, principal: &Principal) -> bool {
        self.policy.all_unavailable(self.tools.specs(principal))
    }

    /// What deciding on the next step needs besides the session's state.
    pub(super) fn surroundings(&self, principal: &Principal, now: Timestamp) -> Surroundings<'_> {
        let fallback = self.fallback.as_ref().map(|fallback| machine::Fallback {
            model: fallback.model.info(),
            detour: self.policy.detour(&self.model.info().name),
        });
        Surroundings { now, tools_unavailable: self.tools_unavailable(principal), fallback, count: self.can_count() }
    }

    /// Whether one of its models can count a call before it is made.
    fn can_count(&self) -> Count {
        let counts = |asked| self.model_of(asked).counted_by() != CountedBy::Estimate;
        if counts(Asked::Primary) || counts(Asked::Fallback) { Count::Possible } else { Count::Unavailable }
    }

    /// One of its models; its own where it has no other.
    pub(super) fn model_of(&self, asked: Asked) -> &dyn Model {
        match (asked, &self.fallback) {
            (Asked::Fallback, Some(fallback)) => &*fallback.model,
            (Asked::Primary, _) | (Asked::Fallback, None) => &*self.model,
        }
    }

    /// The model to be asked; nothing where the primary may not be asked any more, because
    /// another call began to probe it since that was decided.
    pub(super) fn choose(&self, asked: Asked) -> Option<Chosen<'_>> {
        match (asked, &self.fallback) {
            (Asked::Fallback, Some(fallback)) => {
                Some(Chosen { model: &*fallback.model, timeout: fallback.timeout, entrance: None })
            }
            (Asked::Primary, Some(_)) => {
                let entrance = self.policy.primaries.enter(&self.model.info().name)?;
                Some(Chosen { model: &*self.model, timeout: self.model_timeout, entrance: Some(entrance) })
            }
            (_, None) => Some(Chosen { model: &*self.model, timeout: self.model_timeout, entrance: None }),
        }
    }

    /// The hash of all its tool definitions, whoever may use them.
    pub fn definitions_hash(&self) -> BlobHash {
        hash_of(Prompt::new("", self.tools.all_definitions()).tools_json().as_bytes())
    }

    /// Records the beginning of a session with this prompt, which carries the pairs that the
    /// session takes over; the session is this process's until then.
    pub fn begin(
        &self,
        journal: &Journal,
        id: SessionId,
        new: NewSession,
        prompt: &Prompt,
        until: Timestamp,
    ) -> SessionLog {
        let tools = blob(prompt.tools_json().as_bytes());
        let output_schema = prompt.output_schema.as_ref().map(|schema| blob(schema.to_string().as_bytes()));
        let prompt = blob(prompt.system.as_bytes());
        let config = blob(self.fingerprint.as_bytes());
        let started = SessionStarted {
            version: JOURNAL_VERSION,
            agent: self.name.clone(),
            task: new.task,
            task_type: new.task_type,
            principal: new.principal,
            conversation_id: new.conversation_id,
            follows: new.follows.follows,
            model: self.model.info().clone(),
            limits: self.limits.clone(),
            language: self.language,
            prompt: PromptRef { name: self.name.clone(), version: self.prompt_version.clone(), hash: prompt.hash },
            tools_hash: tools.hash,
            output_schema_hash: output_schema.as_ref().map(|schema| schema.hash),
            config_hash: config.hash,
            trace: TraceStart { content: new.content, ..new.upstream.trace(id, new.sampled) },
            metadata: new.metadata,
        };
        let blobs = [prompt, tools, config].into_iter().chain(output_schema).chain(new.follows.blobs).collect();
        SessionLog::begin(journal, id, started, blobs, until, new.once)
    }
}

impl Upstream {
    /// The trace of a session that begins so; its own sampling decision is for its own trace.
    fn trace(self, id: SessionId, sampled: bool) -> TraceStart {
        let own = TraceStart {
            trace_id: id.trace_id(),
            root: SpanId::of_fact(id, 0),
            sampled,
            content: SpanContent::Off,
            parent: None,
            link: None,
        };
        match self {
            Self::None => own,
            Self::Linked(link) => TraceStart { link: Some(link), ..own },
            Self::Joined { span, sampled } => {
                TraceStart { trace_id: span.trace_id, parent: Some(span.span_id), sampled, ..own }
            }
        }
    }
}

/// A text to be kept under its hash.
pub(super) fn blob(bytes: &[u8]) -> Blob {
    Blob { hash: hash_of(bytes), bytes: Arc::from(bytes) }
}

/// SHA-256 of bytes.
pub(super) fn hash_of(bytes: &[u8]) -> BlobHash {
    BlobHash::from_bytes(Sha256::digest(bytes).into())
}
