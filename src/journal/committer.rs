//! Makes what was recorded durable, then shows it to the sinks, in that order.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::pace::Pace;
use crate::core::{
    Clock, Entry, Sink, Store, StreamId, Timestamp,
    lease::Holding,
    port::{Blob, JournalWatch, StoreError, StoreErrorKind, Write},
};

/// How long a session that nobody waits for is left out of the commits of others: each write of
/// a session costs by itself, however few facts it holds.
const PATIENCE: Duration = Duration::from_millis(10);

/// What a commit writes.
pub(super) enum Due<'a> {
    /// All that waits.
    All,
    /// What somebody waits for, what belongs to no session, and what has waited long enough.
    Asked(&'a [StreamId]),
}

/// Where the write of a stream stands, and since when it waits.
struct Place {
    index: usize,
    since: Timestamp,
}

/// Owns the store's writing side and the sinks.
pub(super) struct Committer {
    store: Arc<dyn Store>,
    sinks: Vec<Box<dyn Sink>>,
    watch: Arc<dyn JournalWatch>,
    clock: Arc<dyn Clock>,
    /// What is not durable yet, one write a stream. After a failed commit it waits here, in
    /// order, for the next try: nothing is lost while the process lives.
    waiting: Vec<Write>,
    places: HashMap<StreamId, Place>,
    facts: usize,
    /// Streams whose write was refused on its own: somebody else owns them.
    refused: HashMap<StreamId, StoreError>,
    fault: Option<StoreError>,
    pace: Arc<Pace>,
}

impl Committer {
    pub(super) fn new(
        store: Arc<dyn Store>,
        sinks: Vec<Box<dyn Sink>>,
        watch: Arc<dyn JournalWatch>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            store,
            sinks,
            watch,
            clock,
            waiting: Vec::new(),
            places: HashMap::new(),
            facts: 0,
            refused: HashMap::new(),
            fault: None,
            pace: Arc::default(),
        }
    }

    /// Adds to the next commit.
    pub(super) fn take(&mut self, entries: Vec<Arc<Entry>>, blobs: Vec<Blob>, holding: Option<Holding>) {
        let Some(stream) = entries.first().map(|entry| entry.stream) else { return };
        if self.refused.contains_key(&stream) {
            return;
        }
        self.facts += entries.len();
        let mark = entries.iter().find_map(|entry| self.sinks.iter().find_map(|sink| sink.owes_from(entry)));
        match self.places.get(&stream) {
            Some(place) => {
                let write = &mut self.waiting[place.index];
                write.entries.extend(entries);
                write.blobs.extend(blobs);
                write.mark = write.mark.or(mark);
            }
            None => {
                self.places.insert(stream, Place { index: self.waiting.len(), since: self.clock.now() });
                let write = Write { mark, ..Write::new(stream, entries, blobs) };
                self.waiting.push(match holding {
                    None => write,
                    Some(Holding::Taking(take)) => write.taking(*take),
                    Some(Holding::Held(epoch)) => write.under(epoch),
                });
            }
        }
    }

    /// Commits what is due. On a fault all of it goes on waiting.
    pub(super) fn commit(&mut self, due: Due<'_>) {
        let begun = self.clock.now();
        let later = self.set_aside(due, begun);
        if !self.waiting.is_empty() {
            self.write(begun);
        }
        self.put_back(later);
    }

    fn write(&mut self, begun: Timestamp) {
        self.pace.begin(begun);
        let appended = self.proven().and_then(|()| self.store.append(&self.waiting));
        let ended = self.clock.now();
        self.pace.end(ended);
        match appended {
            Ok(results) => {
                let facts = self.waiting.iter().map(|write| write.entries.len()).sum();
                self.watch.committed(facts, ended.since(begun));
                self.fault = None;
                self.facts -= facts;
                self.settle(results, facts);
            }
            Err(fault) => {
                self.watch.failed(fault.kind);
                if self.fault.as_ref() != Some(&fault) {
                    tracing::error!(target: "glassbox::journal", error = %fault, "the journal cannot write");
                }
                self.fault = Some(fault);
            }
        }
        self.watch.queued(self.facts);
    }

    /// After a fault, that there is room for more than these facts. On a disk that is all but full a
    /// small write succeeds now and then, and each success would send all sessions into the next
    /// fault.
    fn proven(&self) -> Result<(), StoreError> {
        if self.fault.is_some() { self.store.probe() } else { Ok(()) }
    }

    /// Takes out what is not due.
    fn set_aside(&mut self, due: Due<'_>, now: Timestamp) -> Vec<Write> {
        let Due::Asked(asked) = due else { return Vec::new() };
        let is_due = |write: &Write| {
            let stream = &write.stream;
            let has_waited = || self.places.get(stream).is_none_or(|place| now.since(place.since) >= PATIENCE);
            stream.session().is_none() || asked.contains(stream) || has_waited()
        };
        let (due, later) = std::mem::take(&mut self.waiting).into_iter().partition(is_due);
        self.waiting = due;
        later
    }

    /// Puts what was set aside behind what still waits.
    fn put_back(&mut self, later: Vec<Write>) {
        self.waiting.extend(later);
        let mut places = std::mem::take(&mut self.places);
        for (index, write) in self.waiting.iter().enumerate() {
            if let Some(place) = places.remove(&write.stream) {
                self.places.insert(write.stream, Place { index, ..place });
            }
        }
    }

    fn settle(&mut self, results: Vec<Result<(), StoreError>>, facts: usize) {
        let mut committed = Vec::with_capacity(facts);
        for (write, result) in self.waiting.drain(..).zip(results) {
            match result {
                Ok(()) => committed.extend(write.entries),
                // Whoever began it is told, and finds the session that has its place.
                Err(error) if error.kind == StoreErrorKind::Claimed => {
                    self.refused.insert(write.stream, error);
                }
                Err(error) => {
                    self.watch.failed(error.kind);
                    tracing::error!(target: "glassbox::journal", stream = %write.stream, %error, "a write was refused");
                    self.refused.insert(write.stream, error);
                }
            }
        }
        for sink in &mut self.sinks {
            sink.publish(&committed);
        }
    }

    /// The times of its commits.
    pub(super) const fn pace(&self) -> &Arc<Pace> {
        &self.pace
    }

    /// Whether something waits for a commit.
    pub(super) const fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether everything of this stream so far is durable.
    pub(super) fn verdict(&self, stream: StreamId) -> Result<(), StoreError> {
        match self.refused.get(&stream).or(self.fault.as_ref()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The fault of the last commit, while it lasts: until a write of a real size succeeded.
    pub(super) const fn fault(&self) -> Option<&StoreError> {
        self.fault.as_ref()
    }

    /// Forgets a stream that ended here.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.refused.remove(&stream);
    }

    /// Lets the sinks write out what they hold.
    pub(super) fn flush_sinks(&mut self) {
        for sink in &mut self.sinks {
            sink.flush();
        }
    }
}
