//! What a session takes over from the conversation that it continues, read from the journals of
//! the sessions before, and read again from its own.
//!
//! It must never know who may continue a conversation; that is `runtime`'s.

use std::sync::Arc;

use super::{
    agent::blob,
    resume::{PromptError, beginning},
};
use crate::{
    core::{
        Entry, Fact, Limits, Message, SessionId, Store, StreamId,
        fact::{CarriedPair, Follows, SessionEnd, SessionStarted, SessionSummary, SpanLink},
        port::{Blob, StoreError},
    },
    machine::{
        State,
        follow::{self, Pair},
    },
};

/// What a follow-up begins with.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// What its first fact says; nothing where it follows no session.
    pub follows: Option<Box<Follows>>,
    /// What the model is shown, oldest first.
    pub pairs: Arc<[Pair]>,
    /// The texts of that, to be kept.
    pub blobs: Vec<Blob>,
}

/// What a session leaves to the next, as far as it was read.
struct Earlier {
    id: SessionId,
    started: SessionStarted,
    end: SessionEnd,
    /// Its journal, of the last one whole.
    entries: Vec<Entry>,
}

/// What was taken over so far, newest first.
struct Taking {
    room: u64,
    left_out: u32,
    last: Option<Last>,
    pairs: Vec<(SessionId, Pair, u64)>,
}

/// What only the session right before leaves.
struct Last {
    session: SessionId,
    root: SpanLink,
    doubtful: Vec<String>,
}

/// Reads what a session takes over that begins after `rows`, the ended sessions of its
/// conversation, newest first: as many tasks and answers as have room, the oldest left out first.
///
/// # Errors
/// Where the store cannot be read.
pub fn follow(
    store: &dyn Store,
    rows: &[SessionSummary],
    limits: &Limits,
    window: u64,
) -> Result<Followed, StoreError> {
    let mut taking = Taking { room: follow::room(limits, window), left_out: 0, last: None, pairs: Vec::new() };
    for row in rows {
        let whole = taking.last.is_none();
        if !whole && taking.room == 0 {
            taking.left_out += 1;
        } else if let Some(earlier) = read(store, row, whole)? {
            taking.take(&earlier);
        }
    }
    Ok(taking.done())
}

impl Taking {
    fn take(&mut self, earlier: &Earlier) {
        self.last.get_or_insert_with(|| earlier.last());
        let pair = follow::pair(earlier.started.task.expose(), &earlier.end);
        let tokens = follow::tokens(&pair);
        if tokens <= self.room {
            self.room -= tokens;
            self.pairs.push((earlier.id, pair, tokens));
        } else {
            // Nothing older is shown behind a gap.
            self.room = 0;
            self.left_out += 1;
        }
    }

    fn done(self) -> Followed {
        let Some(Last { session, root, doubtful }) = self.last else { return Followed::default() };
        let (mut carried, mut pairs, mut blobs) = (Vec::new(), Vec::new(), Vec::new());
        for (session, pair, tokens) in self.pairs.into_iter().rev() {
            let [task, answer] = pair.each_ref().map(|message| blob(text_of(message).as_bytes()));
            carried.push(CarriedPair { session, task: task.hash, answer: answer.hash, tokens });
            blobs.extend([task, answer]);
            pairs.push(pair);
        }
        let follows = Follows { session, root, carried, left_out: self.left_out, doubtful };
        Followed { follows: Some(Box::new(follows)), pairs: pairs.into(), blobs }
    }
}

impl Earlier {
    fn last(&self) -> Last {
        let trace = &self.started.trace;
        let root = SpanLink { trace_id: trace.trace_id, span_id: trace.root };
        let doubtful = State::fold(&self.entries).doubtful().cloned().collect();
        Last { session: self.id, root, doubtful }
    }
}

/// What the model of this session is shown of the sessions before, from the session's own texts.
///
/// # Errors
/// A text that is missing.
pub(super) fn carried(store: &dyn Store, started: &SessionStarted) -> Result<Vec<Pair>, PromptError> {
    let text = |hash| {
        let bytes = store.blob(hash)?.ok_or(PromptError::Missing(hash))?;
        Ok::<_, PromptError>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let pairs = started.follows.iter().flat_map(|follows| &follows.carried);
    pairs
        .map(|pair| {
            let (task, answer) = (text(pair.task)?, text(pair.answer)?);
            Ok([Message::User { content: task }, Message::Assistant { content: answer, calls: Vec::new() }])
        })
        .collect()
}

/// The beginning and the end of a session, and its journal where that is asked for whole; nothing
/// of one that was erased since the list was read.
fn read(store: &dyn Store, row: &SessionSummary, whole: bool) -> Result<Option<Earlier>, StoreError> {
    let stream = StreamId::Session(row.id);
    let entries = if whole {
        store.load(stream)?
    } else {
        let mut ends = store.page(stream, 0, 1)?;
        ends.extend(store.page(stream, row.facts.saturating_sub(1), 1)?);
        ends
    };
    let started = beginning(&entries).cloned();
    let end = entries.last().and_then(|entry| match &entry.fact {
        Fact::SessionFinished(end) => Some((**end).clone()),
        _ => None,
    });
    Ok(started.zip(end).map(|(started, end)| Earlier { id: row.id, started, end, entries }))
}

fn text_of(message: &Message) -> &str {
    match message {
        Message::User { content } | Message::Assistant { content, .. } | Message::Tool { content, .. } => content,
    }
}
