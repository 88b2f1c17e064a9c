//! The one place where things are recorded: stamp a fact, fold it into the state, hand it to the
//! writer, which makes it durable and only then shows it to the sinks.
//!
//! It must never know which store or which sinks there are, nor why a fact is recorded.

mod committer;
mod observe;
mod pace;
mod queue;
mod session_log;
mod system_log;
mod writer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::{
    pace::Pressure,
    session_log::SessionLog,
    system_log::SystemLog,
    writer::{Mode, OnFault, Writer},
};
use crate::core::{Clock, Store, id::ProcessId, port::JournalWatch};

/// A journal open for writing, with the clock that stamps it.
#[derive(Clone)]
pub struct Journal {
    writer: Writer,
    clock: Arc<dyn Clock>,
    process: ProcessId,
}

impl Journal {
    /// A journal that this process writes.
    pub fn new(writer: Writer, clock: Arc<dyn Clock>, process: ProcessId) -> Self {
        Self { writer, clock, process }
    }

    /// A journal beside this one, of the same process and clock, that no sink sees: for what must
    /// not stand in it.
    pub fn beside(&self, store: Arc<dyn Store>, watch: Arc<dyn JournalWatch>) -> Self {
        let writer = Writer::start(Mode::Inline, OnFault::Fail, store, Vec::new(), watch, self.clock.clone());
        let writer = writer.expect("a writer without a thread starts always");
        Self { writer, clock: self.clock.clone(), process: self.process }
    }

    /// The writer behind it.
    pub const fn writer(&self) -> &Writer {
        &self.writer
    }

    /// The clock that stamps it.
    pub const fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// This life of the process.
    pub const fn process(&self) -> ProcessId {
        self.process
    }
}

/// Locks; a thread that panicked while it held the lock leaves data that is still whole, because
/// every change under these locks is a single fold step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
