//! The feed: committed facts for live readers, and the text of models while it comes, each reader
//! behind a bounded lane of its own.
//!
//! A reader that does not keep up is cut off and told so; nobody else waits for it. The feed
//! must never block the thread that publishes nor a session, and keeps nothing for later readers.

mod lane;

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use prometheus::IntCounter;

use self::lane::Lane;
pub use self::lane::{FeedEnd, LANE, TEXT};
use crate::core::{Entry, SessionId, Sink, SpanId, port::LiveText};

/// Where live readers subscribe. Clones share the readers.
#[derive(Clone, Debug)]
pub struct Feed {
    shared: Arc<Shared>,
}

/// One live reader's end of its lane.
#[derive(Debug)]
pub struct FeedReader {
    lane: Arc<Lane>,
    feed: Feed,
}

/// What a reader gets.
#[derive(Clone, Debug)]
pub enum FeedItem {
    /// A fact that is durable. The end of a model call replaces all text of it.
    Entry(Arc<Entry>),
    /// More of the text of a model call that is under way; no fact.
    Delta(Delta),
    /// The text that was given of this call so far is void: its attempt broke, or this reader
    /// was too slow for it. What follows, if anything before the call's end, begins anew.
    Restart {
        /// The session.
        session: SessionId,
        /// The call, as the facts name it.
        call: SpanId,
    },
}

/// A piece of the text of a model call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The session.
    pub session: SessionId,
    /// The call, as the facts name it. Its text may come before the fact that opens it: the text
    /// waits for no disk.
    pub call: SpanId,
    /// Where it stands in the text of the attempt, in bytes: other than 0 at first for whoever
    /// came later than the text began.
    pub at: u64,
    /// The piece; several may have become one.
    pub text: String,
}

#[derive(Debug)]
struct Shared {
    readers: RwLock<Readers>,
    /// How many of them read text, so that without any a text costs nothing.
    text_readers: AtomicUsize,
    dropped: IntCounter,
}

#[derive(Debug, Default)]
struct Readers {
    of_all: Vec<Arc<Lane>>,
    of_session: HashMap<SessionId, Vec<Arc<Lane>>>,
    closed: bool,
}

struct FeedSink(Feed);

impl Feed {
    /// A feed without readers; `dropped` counts the readers that are cut off, and the texts that
    /// a reader was too slow for.
    pub fn new(dropped: IntCounter) -> Self {
        let (readers, text_readers) = (RwLock::default(), AtomicUsize::new(0));
        Self { shared: Arc::new(Shared { readers, text_readers, dropped }) }
    }

    /// The sink that hands facts to the readers. When it goes, all lanes close.
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(FeedSink(self.clone()))
    }

    /// A reader of the facts published from now on, of one session or of everything.
    pub fn subscribe(&self, session: Option<SessionId>) -> FeedReader {
        self.reader(Lane::new(session, false))
    }

    /// The same, with the text of model calls while it comes.
    pub fn subscribe_with_text(&self, session: Option<SessionId>) -> FeedReader {
        self.reader(Lane::new(session, true))
    }

    fn reader(&self, lane: Lane) -> FeedReader {
        let lane = Arc::new(lane);
        let mut readers = self.write();
        if readers.closed {
            lane.end(FeedEnd::Closed);
        } else {
            self.shared.text_readers.fetch_add(usize::from(lane.reads_text()), Ordering::Relaxed);
            readers.list(lane.session()).push(Arc::clone(&lane));
        }
        FeedReader { lane, feed: self.clone() }
    }

    /// Readers that are there now.
    pub fn reader_count(&self) -> usize {
        let readers = self.read();
        readers.of_all.len() + readers.of_session.values().map(Vec::len).sum::<usize>()
    }

    fn read(&self) -> RwLockReadGuard<'_, Readers> {
        self.shared.readers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Readers> {
        self.shared.readers.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, lane: &Arc<Lane>) {
        let mut readers = self.write();
        if readers.remove(lane) {
            self.shared.text_readers.fetch_sub(usize::from(lane.reads_text()), Ordering::Relaxed);
        }
    }

    /// Does something for each reader of the text of this session.
    fn each_text_reader(&self, session: SessionId, mut act: impl FnMut(&Lane)) {
        if self.shared.text_readers.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.read().of(Some(session)).filter(|lane| lane.reads_text()).for_each(|lane| act(lane));
    }
}

impl LiveText for Feed {
    fn delta(&self, session: SessionId, call: SpanId, at: u64, text: &str) {
        self.each_text_reader(session, |lane| {
            if !lane.push_delta(session, call, at, text) {
                self.shared.dropped.inc();
            }
        });
    }

    fn restart(&self, session: SessionId, call: SpanId) {
        self.each_text_reader(session, |lane| lane.restart(session, call));
    }
}

impl Readers {
    fn list(&mut self, session: Option<SessionId>) -> &mut Vec<Arc<Lane>> {
        match session {
            Some(session) => self.of_session.entry(session).or_default(),
            None => &mut self.of_all,
        }
    }

    /// Those who want what belongs to this session, or to none.
    fn of(&self, session: Option<SessionId>) -> impl Iterator<Item = &Arc<Lane>> {
        let own = session.and_then(|session| self.of_session.get(&session));
        self.of_all.iter().chain(own.into_iter().flatten())
    }

    fn remove(&mut self, lane: &Arc<Lane>) -> bool {
        let list = self.list(lane.session());
        let before = list.len();
        list.retain(|other| !Arc::ptr_eq(other, lane));
        let (found, empty) = (list.len() < before, list.is_empty());
        if let (true, Some(session)) = (empty, lane.session()) {
            self.of_session.remove(&session);
        }
        found
    }
}

impl FeedReader {
    /// What comes next. Safe to drop in the middle: nothing is lost by it.
    ///
    /// # Errors
    /// When the lane has ended and all that was in it is read.
    pub async fn next(&mut self) -> Result<FeedItem, FeedEnd> {
        self.lane.next().await
    }

    /// The next fact; text in between is left out.
    ///
    /// # Errors
    /// As [`FeedReader::next`].
    pub async fn next_fact(&mut self) -> Result<Arc<Entry>, FeedEnd> {
        loop {
            if let FeedItem::Entry(entry) = self.next().await? {
                return Ok(entry);
            }
        }
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        self.feed.remove(&self.lane);
    }
}

impl Sink for FeedSink {
    fn name(&self) -> &'static str {
        "feed"
    }

    fn publish(&mut self, entries: &[Arc<Entry>]) {
        let Self(feed) = self;
        let mut slow = Vec::new();
        let readers = feed.read();
        for entry in entries {
            let lanes = readers.of(entry.stream.session());
            slow.extend(lanes.filter(|lane| !lane.push_entry(entry)).cloned());
        }
        drop(readers);
        for lane in slow {
            feed.shared.dropped.inc();
            feed.remove(&lane);
        }
    }
}

impl Drop for FeedSink {
    fn drop(&mut self) {
        let mut readers = self.0.write();
        let Readers { of_all, of_session, .. } =
            std::mem::replace(&mut *readers, Readers { closed: true, ..Readers::default() });
        of_all.iter().chain(of_session.values().flatten()).for_each(|lane| lane.end(FeedEnd::Closed));
        self.0.shared.text_readers.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
