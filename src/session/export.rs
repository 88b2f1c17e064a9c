//! A session as JSON lines, whole: a header, every fact, and the texts that the facts name. Read
//! page by page, so that the longest session needs no more memory than a short one.
//!
//! It must never know where the lines go, nor who asked for them.

#![warn(clippy::wildcard_enum_match_arm)]

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::core::{
    BlobHash, Entry, Fact, SessionId, Store, StreamId,
    fact::{JOURNAL_VERSION, SessionSummary},
    port::{SessionFilter, StoreError},
};

/// The version of the lines. A reader refuses a header with a greater one.
pub const EXPORT_VERSION: u32 = 1;

/// Facts read at once.
const PAGE: usize = 256;
/// Sessions listed at once.
const LIST: usize = 1000;

/// Why an export ended early.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store.
    #[error("the journal cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The session was erased meanwhile.
    #[error("{0} was erased while it was exported")]
    Erased(SessionId),
    /// Whoever takes the lines takes no more.
    #[error("the lines cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

/// Writes one session, line by line without line ends. False where there is no such session.
///
/// # Errors
/// Why it is not whole.
pub fn export(
    store: &dyn Store,
    id: SessionId,
    line: &mut dyn FnMut(String) -> std::io::Result<()>,
) -> Result<bool, ExportError> {
    let Some(row) = store.session(id)? else { return Ok(false) };
    line(header(&row).to_string())?;
    let mut told = HashSet::new();
    let mut next = 0;
    // What is recorded from now on is left out: the header says how many facts follow.
    while next < row.facts {
        let left = usize::try_from(row.facts - next).unwrap_or(PAGE);
        let entries = store.page(StreamId::Session(id), next, left.min(PAGE))?;
        if entries.is_empty() {
            return Err(ExportError::Erased(id));
        }
        next += entries.len() as u64;
        for entry in &entries {
            line(fact(entry).to_string())?;
            for hash in texts_of(&entry.fact).into_iter().filter(|hash| told.insert(*hash)) {
                line(text(store, hash)?.to_string())?;
            }
        }
    }
    Ok(true)
}

/// The ids of all sessions, or of one principal's, newest first; those that begin meanwhile may
/// be left out.
///
/// # Errors
/// Where the store cannot be read.
pub fn all_ids(store: &dyn Store, principal: Option<&str>) -> Result<Vec<SessionId>, StoreError> {
    let (mut ids, mut seen, mut before) = (Vec::new(), HashSet::new(), None);
    loop {
        let principal = principal.map(str::to_owned);
        let page = store.sessions(&SessionFilter { principal, before, limit: LIST, ..SessionFilter::default() })?;
        match (page.last(), before) {
            (Some(last), _) => before = Some(last.id),
            // The session that the next page was to begin behind was erased: from the top again.
            (None, Some(last)) if store.session(last)?.is_none() => before = None,
            (None, _) => return Ok(ids),
        }
        ids.extend(page.into_iter().map(|row| row.id).filter(|id| seen.insert(*id)));
    }
}

fn header(row: &SessionSummary) -> Value {
    json!({
        "export": EXPORT_VERSION,
        "journal_version": JOURNAL_VERSION,
        "session_id": row.id,
        "agent": row.agent,
        "task_type": row.task_type,
        "principal": row.principal,
        "status": row.status,
        "reason": row.reason,
        "started_at": row.started.to_rfc3339_nanos(),
        "updated_at": row.updated.to_rfc3339_nanos(),
        "facts": row.facts,
    })
}

fn fact(entry: &Entry) -> Value {
    json!({
        "stream": entry.stream.to_string(),
        "seq": entry.seq,
        "at": entry.at.to_rfc3339_nanos(),
        "fact": entry.fact,
    })
}

/// A kept text: as it is, in base64 where it is no text, and `missing` where it is not there.
fn text(store: &dyn Store, hash: BlobHash) -> Result<Value, StoreError> {
    Ok(match store.blob(hash)? {
        None => json!({"blob": hash, "missing": true}),
        Some(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => json!({"blob": hash, "text": text}),
            Err(_) => json!({"blob": hash, "base64": STANDARD.encode(&bytes)}),
        },
    })
}

/// The kept texts that a fact names. The hash of a request is none: the request is rebuilt.
fn texts_of(fact: &Fact) -> Vec<BlobHash> {
    match fact {
        Fact::SessionStarted(started) => {
            let own = [started.prompt.hash, started.tools_hash, started.config_hash];
            let carried = started.follows.iter().flat_map(|follows| &follows.carried);
            let carried = carried.flat_map(|pair| [pair.task, pair.answer]);
            own.into_iter().chain(started.output_schema_hash).chain(carried).collect()
        }
        Fact::ToolCallFinished { end, .. } => end.observation.whole.into_iter().collect(),
        Fact::SessionSuspended { .. }
        | Fact::SessionResumed { .. }
        | Fact::CancelRequested { .. }
        | Fact::ModelCallStarted { .. }
        | Fact::ModelAttemptStarted { .. }
        | Fact::ModelAttemptFinished { .. }
        | Fact::ModelCallFinished { .. }
        | Fact::ToolCallStarted { .. }
        | Fact::ToolAttemptStarted { .. }
        | Fact::ToolAttemptFinished { .. }
        | Fact::ConfirmationRequested { .. }
        | Fact::ConfirmationDecided { .. }
        | Fact::ContextCompacted { .. }
        | Fact::LimitReached { .. }
        | Fact::AnswerChecked { .. }
        | Fact::HandedOver { .. }
        | Fact::SessionFinished(_)
        | Fact::ToolDefinitionChanged(_)
        | Fact::ProcessStarted { .. }
        | Fact::ProcessStopped { .. }
        | Fact::ConfigReloaded { .. }
        | Fact::HandoverChanged(_)
        | Fact::SessionsErased { .. }
        | Fact::RateLimited { .. }
        | Fact::ModelFallback { .. }
        | Fact::CircuitChanged(_)
        | Fact::PrimaryChanged { .. }
        | Fact::ModelChecked { .. } => Vec::new(),
    }
}
