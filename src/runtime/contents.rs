//! The prompts that spans show, read from the kept texts: the same for every session of an agent,
//! so that they are not read for each of them. It must never know what a span makes of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    core::{
        BlobHash, Store,
        fact::{SessionStarted, SpanContent},
    },
    machine::Prompt,
    session::own_prompt,
    signal::spans::Contents,
};

/// Prompts that are remembered at the most; a configuration has some, reloads make more.
const PROMPTS: usize = 64;

/// What a prompt is made of: system prompt, tool definitions, schema of the answer.
type Parts = (BlobHash, BlobHash, Option<BlobHash>);

/// What spans show of what was said; nothing where content is off.
pub(super) fn of(mode: SpanContent, store: &Arc<dyn Store>) -> Option<Contents> {
    let (known, store) = (Mutex::new(HashMap::new()), store.clone());
    let prompts = Arc::new(move |started: &SessionStarted| find(&known, &*store, started));
    (mode != SpanContent::Off).then_some(Contents { mode, prompts })
}

/// The prompt of a session, as far as its texts are there.
fn find(known: &Mutex<HashMap<Parts, Prompt>>, store: &dyn Store, started: &SessionStarted) -> Option<Prompt> {
    let parts = (started.prompt.hash, started.tools_hash, started.output_schema_hash);
    // What a session takes over from its conversation is its own.
    let shared = started.follows.as_ref().is_none_or(|follows| follows.carried.is_empty());
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(prompt) = shared.then(|| lock().get(&parts).cloned()).flatten() {
        return Some(prompt);
    }
    match own_prompt(store, started) {
        Ok(prompt) => {
            let mut known = lock();
            if shared {
                if known.len() >= PROMPTS {
                    known.clear();
                }
                known.insert(parts, prompt.clone());
            }
            Some(prompt)
        }
        Err(error) => {
            tracing::warn!(target: "glassbox", %error, "the spans of a session show no content");
            None
        }
    }
}
