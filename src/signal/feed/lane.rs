//! What waits for one reader, within bounds: so many facts, and so much text.
//!
//! A reader that is too slow for the facts is cut off. One that is too slow only for the text
//! loses the text and keeps the facts, among them the whole reply. Pieces of one text that wait
//! together become one piece. It must never know who fills it.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{Delta, FeedItem};
use crate::core::{Entry, Fact, SessionId, SpanId};

/// Facts that wait for one reader at the most.
pub const LANE: usize = 1024;
/// Bytes of text that wait for one reader at the most, 64 more counted for each piece.
pub const TEXT: usize = 256 * 1024;

/// What a piece of text costs besides its bytes.
const PIECE: usize = 64;

/// Why a lane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedEnd {
    /// The reader was too slow; it misses facts and can read them from the store.
    #[error("the reader was too slow and was cut off")]
    Lagged,
    /// The process stops publishing.
    #[error("the feed is closed")]
    Closed,
}

/// A model call: ids of spans are unique in their session only.
type Call = (SessionId, SpanId);

/// A queue with one reader.
#[derive(Debug)]
pub(super) struct Lane {
    session: Option<SessionId>,
    reads_text: bool,
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<FeedItem>,
    facts: usize,
    text: usize,
    /// Calls whose text the reader was too slow for.
    given_up: HashSet<Call>,
    end: Option<FeedEnd>,
}

impl Lane {
    pub(super) fn new(session: Option<SessionId>, reads_text: bool) -> Self {
        Self { session, reads_text, queue: Mutex::default(), filled: Notify::new() }
    }

    /// Whose facts and text it takes; nothing for everybody's.
    pub(super) const fn session(&self) -> Option<SessionId> {
        self.session
    }

    pub(super) const fn reads_text(&self) -> bool {
        self.reads_text
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a fact. False where it is the one too many, which ends the lane.
    pub(super) fn push_entry(&self, entry: &Arc<Entry>) -> bool {
        let mut queue = self.queue();
        if queue.end.is_some() {
            return true;
        }
        let fits = queue.facts < LANE;
        if fits {
            queue.take_entry(entry);
        } else {
            queue.end = Some(FeedEnd::Lagged);
        }
        drop(queue);
        self.filled.notify_one();
        fits
    }

    /// Takes in a piece of text. False where it is the one too many, for which the text of the
    /// call is given up.
    pub(super) fn push_delta(&self, session: SessionId, call: SpanId, at: u64, text: &str) -> bool {
        let mut queue = self.queue();
        if queue.end.is_some() || queue.given_up.contains(&(session, call)) {
            return true;
        }
        let fits = queue.take_delta(session, call, at, text);
        if !fits {
            queue.restart((session, call));
            queue.given_up.insert((session, call));
        }
        drop(queue);
        self.filled.notify_one();
        fits
    }

    /// Makes what was given of the text of a call void.
    pub(super) fn restart(&self, session: SessionId, call: SpanId) {
        let mut queue = self.queue();
        if queue.end.is_none() {
            queue.restart((session, call));
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Ends it: what is in it can still be read.
    pub(super) fn end(&self, end: FeedEnd) {
        self.queue().end.get_or_insert(end);
        self.filled.notify_one();
    }

    pub(super) async fn next(&self) -> Result<FeedItem, FeedEnd> {
        loop {
            let next = self.queue().pop();
            match next {
                Some(next) => return next,
                // Whoever filled it in between left a permit, which is found at once.
                None => self.filled.notified().await,
            }
        }
    }
}

impl Queue {
    fn take_entry(&mut self, entry: &Arc<Entry>) {
        if let (Fact::ModelCallFinished { op, .. }, Some(session)) = (&entry.fact, entry.stream.session()) {
            self.given_up.remove(&(session, *op));
        }
        self.facts += 1;
        self.items.push_back(FeedItem::Entry(Arc::clone(entry)));
    }

    fn take_delta(&mut self, session: SessionId, call: SpanId, at: u64, text: &str) -> bool {
        let last = match self.items.back_mut() {
            Some(FeedItem::Delta(last)) if last.call == call && last.session == session => Some(last),
            _ => None,
        };
        let cost = text.len() + if last.is_none() { PIECE } else { 0 };
        if self.text + cost > TEXT {
            return false;
        }
        self.text += cost;
        match last {
            Some(last) => last.text.push_str(text),
            None => self.items.push_back(FeedItem::Delta(Delta { session, call, at, text: text.to_owned() })),
        }
        true
    }

    /// Text of the call that still waits need not be read any more, nor an earlier mark.
    fn restart(&mut self, void: Call) {
        self.given_up.remove(&void);
        let mut freed = 0;
        self.items.retain(|item| {
            let stays = match item {
                FeedItem::Delta(delta) => (delta.session, delta.call) != void,
                FeedItem::Restart { session, call } => (*session, *call) != void,
                FeedItem::Entry(_) => true,
            };
            freed += if stays { 0 } else { cost(item) };
            stays
        });
        self.text -= freed;
        let (session, call) = void;
        self.items.push_back(FeedItem::Restart { session, call });
    }

    fn pop(&mut self) -> Option<Result<FeedItem, FeedEnd>> {
        let Some(item) = self.items.pop_front() else { return self.end.map(Err) };
        self.facts -= usize::from(matches!(item, FeedItem::Entry(_)));
        self.text -= cost(&item);
        Some(Ok(item))
    }
}

/// What an item takes of the room for text.
fn cost(item: &FeedItem) -> usize {
    match item {
        FeedItem::Delta(delta) => delta.text.len() + PIECE,
        FeedItem::Entry(_) | FeedItem::Restart { .. } => 0,
    }
}
