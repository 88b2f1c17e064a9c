//! Makes what was recorded durable, then shows it to the sinks, in that order.

use std::{collections::HashMap, sync::Arc};

use super::pace::Pace;
use crate::core::{
    Clock, Entry, Sink, Store, StreamId,
    lease::Holding,
    port::{Blob, JournalWatch, StoreError, StoreErrorKind, Write},
};

/// Owns the store's writing side and the sinks.
pub(super) struct Committer {
    store: Arc<dyn Store>,
    sinks: Vec<Box<dyn Sink>>,
    watch: Arc<dyn JournalWatch>,
    clock: Arc<dyn Clock>,
    /// What is not durable yet, one write a stream. After a failed commit it waits here, in
    /// order, for the next try: nothing is lost while the process lives.
    waiting: Vec<Write>,
    places: HashMap<StreamId, usize>,
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
        match self.places.get(&stream) {
            Some(place) => {
                let write = &mut self.waiting[*place];
                write.entries.extend(entries);
                write.blobs.extend(blobs);
            }
            None => {
                self.places.insert(stream, self.waiting.len());
                let write = Write::new(stream, entries, blobs);
                self.waiting.push(match holding {
                    None => write,
                    Some(Holding::Taking(take)) => write.taking(take),
                    Some(Holding::Held(epoch)) => write.under(epoch),
                });
            }
        }
    }

    /// Commits what waits. On a fault all of it goes on waiting.
    pub(super) fn commit(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let begun = self.clock.now();
        self.pace.begin(begun);
        let appended = self.store.append(&self.waiting);
        let ended = self.clock.now();
        self.pace.end(ended);
        match appended {
            Ok(results) => {
                self.watch.committed(self.facts, ended.since(begun));
                self.fault = None;
                self.settle(results);
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

    fn settle(&mut self, results: Vec<Result<(), StoreError>>) {
        let mut committed = Vec::with_capacity(self.facts);
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
        self.places.clear();
        self.facts = 0;
        for sink in &mut self.sinks {
            sink.publish(&committed);
        }
    }

    /// The times of its commits.
    pub(super) const fn pace(&self) -> &Arc<Pace> {
        &self.pace
    }

    /// Whether everything of this stream so far is durable.
    pub(super) fn verdict(&self, stream: StreamId) -> Result<(), StoreError> {
        match self.refused.get(&stream).or(self.fault.as_ref()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The fault of the last commit, while it lasts.
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
