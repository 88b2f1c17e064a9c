//! JSON events, one line each, to stdout or a file: what happened, for machines that read logs.
//!
//! Names and fields stand in [`catalogue`]. No field holds text of people, and a line is written
//! only after its fact is committed. It must never block or fail a session: what cannot be
//! written is lost and counted.

pub mod catalogue;
mod document;
mod fold;
mod lane;
#[cfg(test)]
mod tests;
mod words;

use std::{
    fmt,
    fs::{File, OpenOptions},
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
};
use super::{hash::KeyedHash, memory::Memory};
use crate::core::{Entry, SessionId, Sink};

/// Where lines go.
pub enum Output {
    /// The standard output of the process.
    Stdout,
    /// The end of a file, which is made if it is missing.
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
    /// The file cannot be opened.
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
        let output: Box<dyn io::Write + Send> = match output {
            Output::Stdout => Box::new(raw_stdout().map_err(Error::Stdout)?),
            Output::File(path) => match OpenOptions::new().create(true).append(true).open(&path) {
                Ok(file) => Box::new(file),
                Err(source) => return Err(Error::Open { path, source }),
            },
            Output::Writer(writer) => writer,
        };
        let (lane, ended) = Lane::start(output, dropped).map_err(Error::Thread)?;
        let inner = Inner { hash, sessions: Mutex::new(Memory::new()), lane, ended: Mutex::new(ended) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The sink that makes lines of committed facts.
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(LinesSink(Arc::clone(&self.inner)))
    }

    /// Takes up a session that another process life began: its journal so far is remembered, not
    /// written. Call it before the first new fact of a session that is driven on here.
    pub fn adopt(&self, entries: &[Entry]) {
        self.inner.sessions().adopt(entries, |started| fold::identify(&self.inner.hash, started));
    }

    /// Forgets a session that was taken up and is driven here no longer.
    pub fn leave(&self, session: SessionId) {
        self.inner.sessions().leave(session);
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
}

/// Lines are written out by their own thread as soon as none waits, so there is no flush here.
impl Sink for LinesSink {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn publish(&mut self, entries: &[Arc<Entry>]) {
        let mut sessions = self.0.sessions();
        for entry in entries {
            if let Some(line) = fold::line(&self.0.hash, &mut sessions, entry) {
                self.0.lane.push(line);
            }
        }
    }
}

/// The standard output without the buffer of the standard library, which would hide how many
/// lines of a failed write went out.
fn raw_stdout() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}
