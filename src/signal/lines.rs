//! JSON events, one line each, to stdout or a file: what happened, for machines that read logs.
//!
//! Names and fields stand in [`catalogue`]. No field holds text of people, and a line is written
//! only after its fact is committed. It must never block or fail a session: what cannot be
//! written is lost and counted.

pub mod catalogue;
mod document;
mod fold;
mod lane;
mod losses;
mod marks;
mod place;
#[cfg(test)]
mod tests;
mod words;

use std::{
    fmt,
    fs::File,
    io,
    os::fd::AsFd as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus::IntCounter;

pub use self::document::{render_document, render_schema};
use self::{
    fold::Sessions,
    lane::{Ended, Lane},
    marks::Marks,
    place::{Named, Place},
};
use super::{hash::KeyedHash, memory::Memory};
use crate::core::{Entry, Fact, SessionId, Sink, StreamId, mark::Mark};

/// Where lines go.
pub enum Output {
    /// The standard output of the process.
    Stdout,
    /// The end of what the path names at the time of a write: a file, which is made if it is
    /// missing, a device, or a pipe that somebody reads.
    File(PathBuf),
    /// Anything else that bytes can be written to, without a buffer of its own.
    Writer(Box<dyn io::Write + Send>),
}

/// The event lines of this process. Clones write to the same place.
#[derive(Clone)]
pub struct Lines {
    inner: Arc<Inner>,
}

/// Why no lines can be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened, or nobody reads the pipe.
    #[error("cannot open {} for event lines", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The standard output cannot be used.
    #[error("cannot use the standard output for event lines")]
    Stdout(#[source] io::Error),
    /// The thread that writes cannot be started.
    #[error("cannot start the thread that writes event lines")]
    Thread(#[source] io::Error),
}

struct Inner {
    hash: KeyedHash,
    sessions: Mutex<Sessions>,
    marks: Arc<Marks>,
    lane: Lane,
    ended: Mutex<Ended>,
}

struct LinesSink(Arc<Inner>);

impl Lines {
    /// Opens the output and starts the thread that writes; `dropped` counts lines that are lost.
    ///
    /// # Errors
    /// Where the output cannot be opened.
    pub fn new(output: Output, hash: KeyedHash, dropped: IntCounter) -> Result<Self, Error> {
        let (place, torn) = match output {
            Output::Stdout => (Place::Writer(Box::new(raw_stdout().map_err(Error::Stdout)?)), false),
            Output::File(path) => match Named::open(&path) {
                Ok((named, torn)) => (Place::Named(named), torn),
                Err(source) => return Err(Error::Open { path, source }),
            },
            Output::Writer(writer) => (Place::Writer(writer), false),
        };
        let marks = Arc::new(Marks::default());
        let (lane, ended) = Lane::start(place, torn, dropped, Arc::clone(&marks)).map_err(Error::Thread)?;
        let inner = Inner { hash, sessions: Mutex::new(Memory::new()), marks, lane, ended: Mutex::new(ended) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The sink that makes lines of committed facts.
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(LinesSink(Arc::clone(&self.inner)))
    }

    /// Takes up a session that another process life began: its journal before the mark is
    /// remembered and not written, what is behind it is written first. Call it before the first
    /// new fact of a session that is driven on here.
    pub fn adopt(&self, entries: &[Entry], mark: u64) {
        let Some(stream) = entries.first().map(|entry| entry.stream) else { return };
        let mut sessions = self.inner.sessions();
        if let Some(session) = stream.session() {
            sessions.leave(session);
        }
        self.inner.write_past(&mut sessions, stream, entries, mark);
    }

    /// Writes what is behind the mark of a stream that nobody drives, as it would have been
    /// written the first time. False where its lines come from here anyway.
    pub fn write_again(&self, entries: &[Entry], mark: u64) -> bool {
        let Some(stream) = entries.first().map(|entry| entry.stream) else { return false };
        // Held until the last line, so that nobody takes the session up in between.
        let _sessions = self.inner.sessions();
        if self.inner.marks.is_busy(stream) {
            return false;
        }
        self.inner.write_past(&mut Memory::new(), stream, entries, mark);
        self.inner.marks.close(stream);
        true
    }

    /// Forgets a session that was taken up and is driven here no longer.
    pub fn leave(&self, session: SessionId) {
        self.inner.sessions().leave(session);
        self.inner.marks.close(StreamId::Session(session));
    }

    /// How far the lines are out, where that is not yet [kept](Lines::marks_saved).
    pub fn unsaved_marks(&self) -> Vec<Mark> {
        self.inner.marks.unsaved()
    }

    /// These marks are in the store.
    pub fn marks_saved(&self, marks: &[Mark]) {
        self.inner.marks.saved(marks);
    }

    /// How many more lines can wait to be written, about.
    pub fn room(&self) -> usize {
        self.inner.lane.room()
    }

    /// Writes all lines that wait and ends, after the last fact was published. Blocks up to
    /// `grace`; gives false where the output hangs, and then what waited is counted as lost.
    pub fn stop(&self, grace: Duration) -> bool {
        let ended = self.inner.ended.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.lane.stop(&ended, grace)
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lines")
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("Stdout"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Writer(_) => f.write_str("Writer"),
        }
    }
}

impl Inner {
    fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Folds a journal from its beginning, because lines tell of what came before, and hands on
    /// the lines that are behind the mark.
    fn write_past(&self, sessions: &mut Sessions, stream: StreamId, entries: &[Entry], mark: u64) {
        let from = self.marks.begin(stream, mark);
        for entry in entries {
            let owed = entry.seq >= from;
            let line = fold::line_of_past(&self.hash, sessions, entry, owed);
            if owed {
                self.hand_on(entry, line);
            }
        }
    }

    fn hand_on(&self, entry: &Entry, line: Option<Vec<u8>>) {
        match line {
            Some(line) => self.lane.push(line, self.marks.hand_on(entry)),
            None => self.marks.pass(entry),
        }
    }
}

/// Lines are written out by their own thread as soon as none waits, so there is no flush here.
impl Sink for LinesSink {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn publish(&mut self, entries: &[Arc<Entry>]) {
        let mut sessions = self.0.sessions();
        for entry in entries {
            let line = fold::line(&self.0.hash, &mut sessions, entry);
            self.0.hand_on(entry, line);
            if let (StreamId::Session(session), Fact::SessionSuspended { .. } | Fact::SessionFinished(_)) =
                (entry.stream, &entry.fact)
                && sessions.get(session).is_none()
            {
                self.0.marks.close(entry.stream);
            }
        }
    }

    fn owes_from(&self, entry: &Entry) -> Option<u64> {
        fold::owes_from(entry)
    }
}

/// The standard output without the buffer of the standard library, which would hide how many
/// lines of a failed write went out.
fn raw_stdout() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}
