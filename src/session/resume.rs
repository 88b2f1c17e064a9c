//! Takes up a session that another process, or another life of this one, left.

use std::sync::Arc;

use serde_json::{Error as JsonError, Value};

use super::follow::carried;
use crate::{
    core::{
        BlobHash, Effect, Entry, Fact, SpanId, Store, ToolDefinition,
        fact::SessionStarted,
        op::{ModelAttempt, ToolAttempt},
        port::StoreError,
    },
    journal::SessionLog,
    machine::{Prompt, state::Open},
};

/// Why a session's own prompt cannot be had any more.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The store.
    #[error("the journal cannot be read: {0}")]
    Store(#[from] StoreError),
    /// A kept text is gone.
    #[error("the text {0} is missing from the store")]
    Missing(BlobHash),
    /// A kept text is damaged.
    #[error("the text {hash} is damaged: {source}")]
    Damaged {
        /// Which.
        hash: BlobHash,
        /// How.
        source: JsonError,
    },
}

/// The first fact of a session's journal.
pub fn beginning(entries: &[Entry]) -> Option<&SessionStarted> {
    match &entries.first()?.fact {
        Fact::SessionStarted(started) => Some(started),
        _ => None,
    }
}

/// The prompt that a session began with, from the kept texts: a configuration that changed since
/// does not change it.
///
/// # Errors
/// A text that is missing or damaged.
pub fn own_prompt(store: &dyn Store, started: &SessionStarted) -> Result<Prompt, PromptError> {
    let text = |hash| store.blob(hash)?.ok_or(PromptError::Missing(hash));
    let tools: Vec<ToolDefinition> = serde_json::from_slice(&text(started.tools_hash)?)
        .map_err(|source| PromptError::Damaged { hash: started.tools_hash, source })?;
    let system = text(started.prompt.hash)?;
    let schema = started
        .output_schema_hash
        .map(|hash| serde_json::from_slice(&text(hash)?).map_err(|source| PromptError::Damaged { hash, source }));
    let schema: Option<Value> = schema.transpose()?;
    let prompt = Prompt::new(String::from_utf8_lossy(&system).into_owned(), tools);
    Ok(prompt.holding(schema.map(Arc::new)).carrying(carried(store, started)?))
}

/// Records that this process goes on with the session, and closes what ended with the process
/// before: attempts and calls that were under way are lost, an unsafe one has an unknown outcome.
pub fn take_up(log: &SessionLog) {
    take_up_because(log, Vec::new());
}

/// The same, with the facts that make it go on: they stand together or not at all.
pub fn take_up_because(log: &SessionLog, mut because: Vec<Fact>) {
    because.push(Fact::SessionResumed { process: log.journal().process().to_string() });
    log.record_all(because);
    let open: Vec<_> = log.read(|state| state.open().iter().map(|(id, open)| (*id, open.clone())).collect());
    for (id, open) in open {
        close(log, id, open);
    }
}

fn close(log: &SessionLog, id: SpanId, open: Open) {
    match open {
        Open::Model { call, attempt, .. } => {
            if let Some(attempt) = attempt {
                log.close_lost(&ModelAttempt { call: id, attempt, model: call.model.name.clone(), wait_ms: 0 }, id);
            }
            log.close_lost(&*call, id);
        }
        Open::Tool { call, attempt, .. } => {
            if let Some((attempt, effect)) = attempt {
                close_tool_attempt(log, id, attempt, effect);
            }
            log.close_lost(&*call, id);
        }
    }
}

fn close_tool_attempt(log: &SessionLog, call: SpanId, attempt: u32, effect: Effect) {
    log.close_lost(&ToolAttempt { call, attempt, effect, wait_ms: 0, mcp: None, begun: Arc::default() }, call);
}
