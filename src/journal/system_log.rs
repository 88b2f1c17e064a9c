//! The journal of what belongs to no session, one stream a process life.

use std::sync::{Arc, Mutex};

use super::{Journal, lock};
use crate::core::{Entry, Fact, StreamId, Timestamp, port::StoreError};

/// Stamps and hands on the facts of this process. Clones share it.
#[derive(Clone)]
pub struct SystemLog {
    journal: Journal,
    next: Arc<Mutex<(u64, Timestamp)>>,
}

impl SystemLog {
    /// The system journal of a process life that begins.
    pub fn begin(journal: &Journal) -> Self {
        Self { journal: journal.clone(), next: Arc::default() }
    }

    /// Records one fact. Never waits.
    pub fn record(&self, fact: Fact) {
        let mut next = lock(&self.next);
        let (seq, last) = *next;
        let at = self.journal.clock().now().max(last);
        let entry = Entry { stream: self.stream(), seq, at, fact };
        *next = (seq + 1, at);
        self.journal.writer().append(vec![Arc::new(entry)], Vec::new(), None);
    }

    /// Now, by the clock that stamps the facts.
    pub fn now(&self) -> Timestamp {
        self.journal.clock().now()
    }

    /// The barrier.
    ///
    /// # Errors
    /// Where what was recorded cannot be made durable.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.journal.writer().flush(self.stream()).await
    }

    fn stream(&self) -> StreamId {
        StreamId::System(self.journal.process())
    }
}
