//! The store on disk: one SQLite file in WAL mode, one connection that writes and a few that
//! read. Processes share the file; SQLite's locks keep them apart.
//!
//! With [`Synchronous::Full`] a commit is on the disk when `append` returns. It must never know
//! what a fact means beyond the list of sessions, which is a fold over the facts.

mod codec;
mod desk;
mod erase;
mod failure;
mod lease;
mod marks;
mod notices;
mod once;
mod open;
mod query;
mod readers;
mod schema;
mod writer;

use std::{
    path::{self, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::Connection;

use crate::core::{
    BlobHash, Entry, SessionId, StreamId, Timestamp,
    fact::SessionSummary,
    handover::{Handling, Handover, HandoverAction, HandoverFilter, HandoverId, Handovers, OperatorWord, Unclaimed},
    id::ProcessId,
    lease::{LeaseGrant, Leases},
    mark::{Mark, Marks},
    notice::{Hook, Notice, Notices},
    once::BegunOnce,
    port::{self, SessionFilter, StoreError, Write},
};

use self::{failure::Failure, readers::Readers, writer::Writer};

/// Journals in one SQLite file.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    writer: Mutex<Writer>,
    readers: Readers,
}

/// How the file is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What a commit waits for.
    pub synchronous: Synchronous,
    /// Connections that read; at least one is opened.
    pub read_connections: usize,
    /// How long to wait for another process that writes.
    pub busy_timeout: Duration,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// The disk: what is committed survives a power cut.
    #[default]
    Full,
    /// The operating system: what is committed survives the death of the process; a power cut
    /// may take the last commits back.
    Normal,
}

impl Synchronous {
    /// SQLite's word for it.
    const fn word(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { synchronous: Synchronous::Full, read_connections: 2, busy_timeout: Duration::from_secs(5) }
    }
}

impl Store {
    /// Opens the file, and makes it and its folder if they are missing; brings an older file up
    /// to this version.
    ///
    /// # Errors
    /// `Version` where a newer glassbox or another program wrote the file, `ReadOnly` where it
    /// or its folder cannot be written, `Full`, `Busy`, and `Io` where it is damaged or no
    /// SQLite database. The text names the file.
    #[expect(clippy::needless_pass_by_value, reason = "options are built where they are given away")]
    pub fn open(path: &Path, options: Options) -> Result<Self, StoreError> {
        // Absolute, because SQLite would take a name that begins with `file:` for a URI.
        let path = path::absolute(path).map_err(|cause| failure::of_file_system(path, "open", &cause))?;
        let writer = Mutex::new(Writer::new(open::writer(&path, &options)?));
        let readers: Result<_, _> =
            (0..options.read_connections.max(1)).map(|_| open::reader(&path, &options)).collect();
        Ok(Self { readers: Readers::new(readers?), path, writer })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, StoreError> {
        self.readers.read(work).map_err(|failure| failure.at(&self.path, "read"))
    }

    fn write<T>(&self, work: impl FnOnce(&mut Writer) -> Result<T, Failure>) -> Result<T, StoreError> {
        // The writer gives up a transaction that a panic left open before it begins another.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut writer).map_err(|failure| self.describe(failure))
    }

    fn describe(&self, failure: Failure) -> StoreError {
        failure.at(&self.path, "write to")
    }
}

impl port::Store for Store {
    fn append(&self, writes: &[Write]) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.write(|writer| writer.append(writes, |failure| self.describe(failure)))
    }

    fn load(&self, stream: StreamId) -> Result<Vec<Entry>, StoreError> {
        self.page(stream, 0, usize::MAX)
    }

    fn page(&self, stream: StreamId, from: u64, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.read(|conn| query::page(conn, stream, from, limit))
    }

    fn blob(&self, hash: BlobHash) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.read(|conn| query::blob(conn, hash))
    }

    fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        self.read(|conn| query::sessions(conn, filter))
    }

    fn session(&self, id: SessionId) -> Result<Option<SessionSummary>, StoreError> {
        self.read(|conn| query::session(conn, id))
    }

    fn recent_starts(&self, principal: &str, since: Timestamp, limit: usize) -> Result<Vec<Timestamp>, StoreError> {
        self.read(|conn| query::recent_starts(conn, principal, since, limit))
    }

    fn begun_once(&self, key: BlobHash, now: Timestamp) -> Result<Option<BegunOnce>, StoreError> {
        self.read(|conn| once::begun(conn, key, now))
    }

    fn forget_keys(&self, now: Timestamp, limit: usize) -> Result<u64, StoreError> {
        self.write(|writer| once::forget(writer, now, limit))
    }

    fn mark_exported(&self, sessions: &[SessionId]) -> Result<(), StoreError> {
        self.write(|writer| writer.mark_exported(sessions))
    }

    fn unexported(&self, since: Timestamp, before: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        self.read(|conn| query::unexported(conn, since, before))
    }

    fn ended(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        self.read(|conn| query::ended(conn, before, limit))
    }

    fn erase(&self, owner: ProcessId, sessions: &[SessionId]) -> Result<u64, StoreError> {
        self.write(|writer| erase::erase(writer, owner, sessions))
    }

    fn scrub(&self) -> Result<(), StoreError> {
        self.write(|writer| erase::scrub(writer))
    }

    fn system_facts(&self, name: &str) -> Result<Vec<Entry>, StoreError> {
        self.read(|conn| query::system_facts(conn, name))
    }

    fn probe(&self) -> Result<(), StoreError> {
        self.write(Writer::probe)
    }
}

impl Leases for Store {
    fn acquire(
        &self,
        session: SessionId,
        owner: ProcessId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<LeaseGrant, StoreError> {
        self.write(|writer| lease::acquire(writer, session, owner, now, until))
    }

    fn renew(&self, owner: ProcessId, sessions: &[SessionId], until: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        if sessions.is_empty() {
            return Ok(Vec::new());
        }
        self.write(|writer| lease::renew(writer, owner, sessions, until))
    }

    fn release(&self, session: SessionId, owner: ProcessId) -> Result<(), StoreError> {
        self.write(|writer| lease::release(writer, session, owner))
    }

    fn expired(&self, now: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        self.read(|conn| query::expired(conn, now))
    }
}

impl Handovers for Store {
    fn handovers(&self, filter: &HandoverFilter) -> Result<Vec<Handover>, StoreError> {
        self.read(|conn| desk::handovers(conn, filter))
    }

    fn handover(&self, id: HandoverId) -> Result<Option<Handover>, StoreError> {
        self.read(|conn| desk::handover(conn, id))
    }

    fn handle(&self, id: HandoverId, action: HandoverAction, word: &OperatorWord) -> Result<Handling, StoreError> {
        self.write(|writer| desk::handle(writer, id, action, word))
    }

    fn unclaimed(&self) -> Result<Unclaimed, StoreError> {
        self.read(desk::unclaimed)
    }
}

impl Notices for Store {
    fn due_notices(&self, hooks: &[Hook], now: Timestamp, limit: usize) -> Result<Vec<Notice>, StoreError> {
        self.read(|conn| notices::due(conn, hooks, now, limit))
    }

    fn settle_notice(&self, notice: &Notice) -> Result<(), StoreError> {
        self.write(|writer| notices::settle(writer, notice))
    }

    fn postpone_notice(&self, notice: &Notice, due: Timestamp) -> Result<(), StoreError> {
        self.write(|writer| notices::postpone(writer, notice, due))
    }

    fn forget_notices(&self, hook: Hook, before: Timestamp) -> Result<u64, StoreError> {
        self.write(|writer| notices::forget(writer, hook, before))
    }
}

impl Marks for Store {
    fn mark(&self, stream: StreamId) -> Result<Option<u64>, StoreError> {
        self.read(|conn| marks::find(conn, stream))
    }

    fn move_marks(&self, marks: &[Mark]) -> Result<(), StoreError> {
        if marks.is_empty() {
            return Ok(());
        }
        self.write(|writer| marks::move_on(writer, marks))
    }

    fn owing(&self, now: Timestamp, since: Timestamp, before: Timestamp) -> Result<Vec<Mark>, StoreError> {
        self.read(|conn| marks::owing(conn, now, since, before))
    }

    fn give_up_marks(&self, since: Timestamp) -> Result<u64, StoreError> {
        self.write(|writer| marks::give_up(writer, since))
    }
}

#[cfg(test)]
mod tests;
