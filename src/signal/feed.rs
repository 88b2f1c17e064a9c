//! The feed: committed facts for live readers, each behind a bounded lane of its own.
//!
//! A reader that does not keep up is cut off and told so; nobody else waits for it. The feed
//! must never block the thread that publishes, and keeps no fact for later readers.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use prometheus::IntCounter;
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

use crate::core::{Entry, SessionId, Sink};

/// Facts that wait for one reader at the most.
pub const LANE: usize = 1024;

/// Where live readers subscribe. Clones share the readers.
#[derive(Clone, Debug)]
pub struct Feed {
    readers: Arc<Mutex<Readers>>,
}

/// One live reader's end of its lane.
#[derive(Debug)]
pub struct FeedReader {
    lane: Receiver<Arc<Entry>>,
    lagged: Arc<AtomicBool>,
}

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

#[derive(Debug)]
struct Readers {
    lanes: Vec<Lane>,
    open: bool,
    dropped: IntCounter,
}

#[derive(Debug)]
struct Lane {
    session: Option<SessionId>,
    facts: Sender<Arc<Entry>>,
    lagged: Arc<AtomicBool>,
}

struct FeedSink(Feed);

impl Feed {
    /// A feed without readers; `dropped` counts the readers that are cut off.
    pub fn new(dropped: IntCounter) -> Self {
        Self { readers: Arc::new(Mutex::new(Readers { lanes: Vec::new(), open: true, dropped })) }
    }

    /// The sink that hands facts to the readers. When it goes, all lanes close.
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(FeedSink(self.clone()))
    }

    /// A reader of the facts published from now on, of one session or of everything.
    pub fn subscribe(&self, session: Option<SessionId>) -> FeedReader {
        let (facts, lane) = channel(LANE);
        let lagged = Arc::new(AtomicBool::new(false));
        let mut readers = self.readers();
        readers.lanes.retain(|lane| !lane.facts.is_closed());
        if readers.open {
            readers.lanes.push(Lane { session, facts, lagged: Arc::clone(&lagged) });
        }
        FeedReader { lane, lagged }
    }

    /// Readers that are there now.
    pub fn reader_count(&self) -> usize {
        self.readers().lanes.iter().filter(|lane| !lane.facts.is_closed()).count()
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FeedReader {
    /// The next fact. Safe to drop in the middle: no fact is lost by it.
    ///
    /// # Errors
    /// When the lane has ended and all that was in it is read.
    pub async fn next(&mut self) -> Result<Arc<Entry>, FeedEnd> {
        match self.lane.recv().await {
            Some(entry) => Ok(entry),
            None if self.lagged.load(Ordering::Acquire) => Err(FeedEnd::Lagged),
            None => Err(FeedEnd::Closed),
        }
    }
}

impl Lane {
    /// Hands over what the reader asked for; false where it is gone or too slow.
    fn take(&self, entries: &[Arc<Entry>], dropped: &IntCounter) -> bool {
        for entry in entries {
            if self.session.is_some() && self.session != entry.stream.session() {
                continue;
            }
            match self.facts.try_send(Arc::clone(entry)) {
                Ok(()) => {}
                Err(TrySendError::Closed(_)) => return false,
                Err(TrySendError::Full(_)) => {
                    self.lagged.store(true, Ordering::Release);
                    dropped.inc();
                    return false;
                }
            }
        }
        !self.facts.is_closed()
    }
}

impl Sink for FeedSink {
    fn name(&self) -> &'static str {
        "feed"
    }

    fn publish(&mut self, entries: &[Arc<Entry>]) {
        let readers = &mut *self.0.readers();
        readers.lanes.retain(|lane| lane.take(entries, &readers.dropped));
    }
}

impl Drop for FeedSink {
    fn drop(&mut self) {
        let mut readers = self.0.readers();
        readers.open = false;
        readers.lanes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Fact, StreamId, Timestamp};

    fn fact(session: u8, seq: u64) -> Arc<Entry> {
        Arc::new(Entry {
            stream: StreamId::Session(SessionId::from_bytes([session; 16])),
            seq,
            at: Timestamp::from_nanos(seq),
            fact: Fact::SessionResumed { process: "p".into() },
        })
    }

    fn feed() -> (Feed, Box<dyn Sink>, IntCounter) {
        let dropped = IntCounter::new("dropped_total", "Cut off.").expect("a name");
        let feed = Feed::new(dropped.clone());
        let sink = feed.sink();
        (feed, sink, dropped)
    }

    #[tokio::test]
    async fn a_reader_gets_its_session_in_order() {
        let (feed, mut sink, _) = feed();
        let mut one = feed.subscribe(Some(SessionId::from_bytes([1; 16])));
        let mut all = feed.subscribe(None);
        sink.publish(&[fact(1, 0), fact(2, 0), fact(1, 1)]);
        drop(sink);
        assert_eq!(one.next().await.map(|entry| entry.seq), Ok(0));
        assert_eq!(one.next().await.map(|entry| entry.seq), Ok(1));
        assert_eq!(one.next().await, Err(FeedEnd::Closed));
        for session in [1, 2, 1] {
            let entry = all.next().await.expect("published");
            assert_eq!(entry.stream, StreamId::Session(SessionId::from_bytes([session; 16])));
        }
        assert_eq!(feed.subscribe(None).next().await, Err(FeedEnd::Closed));
    }

    #[tokio::test]
    async fn a_slow_reader_is_cut_off_alone() {
        let (feed, mut sink, dropped) = feed();
        let mut slow = feed.subscribe(None);
        let mut quick = feed.subscribe(None);
        for seq in 0..LANE as u64 + 3 {
            sink.publish(&[fact(1, seq)]);
            assert_eq!(quick.next().await.map(|entry| entry.seq), Ok(seq));
        }
        for seq in 0..LANE as u64 {
            assert_eq!(slow.next().await.map(|entry| entry.seq), Ok(seq));
        }
        assert_eq!(slow.next().await, Err(FeedEnd::Lagged));
        assert_eq!((dropped.get(), feed.reader_count()), (1, 1));
    }

    #[test]
    fn a_reader_that_left_is_forgotten_and_not_counted() {
        let (feed, mut sink, dropped) = feed();
        drop(feed.subscribe(Some(SessionId::from_bytes([9; 16]))));
        sink.publish(&[fact(1, 0)]);
        assert_eq!(feed.readers().lanes.len(), 0);
        assert_eq!(dropped.get(), 0);
    }
}
