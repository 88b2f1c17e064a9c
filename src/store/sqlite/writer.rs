//! The one connection that writes: appends, leases, the probe. Every change is one immediate
//! transaction, which is either committed or leaves nothing. Statements are prepared once, and
//! the text of facts goes through one buffer.

use rusqlite::{Connection, Params, params};

use crate::{
    core::{
        id::SessionId,
        lease::LeaseEpoch,
        outcome::SessionStatus,
        port::{StoreError, Write},
    },
    store::{change::Change, check},
};

use super::{codec, desk, failure::Failure, marks, notices, once};

/// Bytes that the probe writes: more than a usual append needs.
const PROBE_BYTES: i64 = 64 * 1024;

/// Inserts a write; the result inside is of this write alone, the one outside of all.
type Insert = fn(&mut Writer, &Write, &str) -> Result<Result<(), Failure>, Failure>;

/// The writing connection and its buffer.
#[derive(Debug)]
pub(super) struct Writer {
    conn: Connection,
    json: Vec<u8>,
}

impl Writer {
    /// A writer on a connection that is set up.
    pub(super) const fn new(conn: Connection) -> Self {
        Self { conn, json: Vec::new() }
    }

    /// Its connection, for statements inside [`Writer::transaction`].
    pub(super) const fn conn(&self) -> &Connection {
        &self.conn
    }

    /// Writes all in one transaction; a write that is at fault by itself is left out of it. Only
    /// where one turns out to be, all are written anew under a savepoint each: savepoints copy
    /// every page before it changes.
    pub(super) fn append(
        &mut self,
        writes: &[Write],
        describe: impl Fn(Failure) -> StoreError,
    ) -> Result<Vec<Result<(), StoreError>>, Failure> {
        match self.append_all(writes, &describe, |writer, write, stream| writer.insert(write, stream).map(Ok)) {
            Err(failure) if failure.is_of_one_write() => self.append_all(writes, &describe, Self::insert_or_undo),
            result => result,
        }
    }

    fn append_all(
        &mut self,
        writes: &[Write],
        describe: &impl Fn(Failure) -> StoreError,
        insert: Insert,
    ) -> Result<Vec<Result<(), StoreError>>, Failure> {
        self.transaction(|writer| {
            let mut append_one = |write: &Write| {
                let stream = write.stream.to_string();
                match writer.check(write, &stream) {
                    Ok(()) => Ok(insert(writer, write, &stream)?.map_err(describe)),
                    Err(failure) if failure.is_of_one_write() => Ok(Err(describe(failure))),
                    Err(failure) => Err(failure),
                }
            };
            writes.iter().map(&mut append_one).collect()
        })
    }

    /// Runs work that is committed as a whole or not at all.
    pub(super) fn transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Failure>) -> Result<T, Failure> {
        self.abandon()?;
        self.run("BEGIN IMMEDIATE", [])?;
        let result = work(self).and_then(|value| {
            self.run("COMMIT", [])?;
            Ok(value)
        });
        if result.is_err() {
            // The first error says more than one of the way back, which the next call tries again.
            let _ = self.abandon();
        }
        result
    }

    /// Proves that a write of usual size can be made durable now. The filler is committed, so
    /// that the disk has to find room for it, and then taken away, so that its pages are free
    /// for the facts to come.
    pub(super) fn probe(&mut self) -> Result<(), Failure> {
        let fill = "INSERT INTO scratch (id, filler) VALUES (1, zeroblob(?1)) \
                    ON CONFLICT (id) DO UPDATE SET filler = excluded.filler";
        self.transaction(|writer| writer.run(fill, [PROBE_BYTES]))?;
        self.transaction(|writer| writer.run("DELETE FROM scratch", []))?;
        Ok(())
    }

    /// Remembers that the spans of these sessions have arrived.
    pub(super) fn mark_exported(&mut self, sessions: &[SessionId]) -> Result<(), Failure> {
        self.transaction(|writer| {
            for session in sessions {
                writer.run("UPDATE session SET exported = 1 WHERE id = ?1", [session.to_string()])?;
            }
            Ok(())
        })
    }

    /// Runs one statement, prepared at its first use; gives the rows changed.
    pub(super) fn run(&self, sql: &str, params: impl Params) -> Result<usize, Failure> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    /// Ends a transaction that an error or a panic left open; SQLite may have done so itself.
    fn abandon(&self) -> Result<(), Failure> {
        if !self.conn.is_autocommit() {
            self.run("ROLLBACK", [])?;
        }
        Ok(())
    }

    /// Holds a write against the rules.
    fn check(&self, write: &Write, stream: &str) -> Result<(), Failure> {
        check::check_order(write)?;
        let (next, standing) = self.standing(stream)?;
        // Before the place: whoever lost the session is told so, and not that its place is taken.
        if let (Some(_), Some(relied)) = (write.stream.session(), write.lease) {
            check::check_lease(write.stream, relied, standing)?;
        }
        check::check_place(write, next)?;
        Ok(())
    }

    /// The next free place of a stream, and the holding of a session that stands, whether or not
    /// its time is over.
    fn standing(&self, stream: &str) -> Result<(u64, Option<LeaseEpoch>), Failure> {
        let sql = "SELECT (SELECT coalesce(max(seq) + 1, 0) FROM fact WHERE stream = ?1), \
                   (SELECT epoch FROM lease WHERE session = ?1 AND owner IS NOT NULL)";
        let standing = self.conn.prepare_cached(sql)?.query_row([stream], |row| {
            let epoch: Option<i64> = row.get(1)?;
            Ok((codec::number(row, 0)?, epoch.map(|_| codec::number(row, 1)).transpose()?))
        })?;
        Ok((standing.0, standing.1.map(LeaseEpoch::from_number)))
    }

    /// Inserts a write, or leaves no trace of it; the result inside is of this write alone.
    fn insert_or_undo(&mut self, write: &Write, stream: &str) -> Result<Result<(), Failure>, Failure> {
        self.run("SAVEPOINT one_write", [])?;
        match self.insert(write, stream) {
            Ok(()) => {
                self.run("RELEASE one_write", [])?;
                Ok(Ok(()))
            }
            Err(failure) if failure.is_of_one_write() => {
                self.run("ROLLBACK TO one_write", [])?;
                self.run("RELEASE one_write", [])?;
                Ok(Err(failure))
            }
            Err(failure) => Err(failure),
        }
    }

    fn insert(&mut self, write: &Write, stream: &str) -> Result<(), Failure> {
        if !write.blobs.is_empty() {
            let sql = "INSERT INTO blob (hash, bytes) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING";
            let mut keep = self.conn.prepare_cached(sql)?;
            let sql = "INSERT INTO blob_ref (hash, stream) VALUES (?1, ?2) ON CONFLICT (hash, stream) DO NOTHING";
            let mut name = self.conn.prepare_cached(sql)?;
            for blob in &write.blobs {
                keep.execute(params![blob.hash.to_bytes(), &blob.bytes[..]])?;
                name.execute(params![blob.hash.to_bytes(), stream])?;
            }
        }
        if let Some(take) = write.take {
            let sql = "INSERT INTO lease (session, epoch, owner, until) VALUES (?1, ?2, ?3, ?4)";
            let (epoch, until) = (LeaseEpoch::FIRST.number(), codec::integer(take.until.as_nanos()));
            self.run(sql, params![stream, codec::integer(epoch), take.owner.to_string(), until])?;
            if let (Some(once), Some(first)) = (take.once, write.entries.first()) {
                once::claim(self, once, write.stream, first.at)?;
            }
            once::converse(self, write)?;
        }
        if write.entries.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO fact (stream, seq, at, name, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut statement = self.conn.prepare_cached(sql)?;
        for entry in &write.entries {
            let (seq, at) = (codec::integer(entry.seq), codec::integer(entry.at.as_nanos()));
            let body = codec::encode(&entry.fact, &mut self.json)?;
            statement.execute(params![stream, seq, at, entry.fact.name(), body])?;
        }
        drop(statement);
        if let Some(place) = write.mark {
            marks::begin(self, stream, place)?;
        }
        match write.stream.session() {
            Some(session) => {
                let change = Change::of(&write.entries);
                self.list(session, stream, &change)?;
                self.hand_on(stream, &change)
            }
            None => Ok(()),
        }
    }

    /// Keeps the lists of hand-overs and notices.
    fn hand_on(&self, id: &str, change: &Change<'_>) -> Result<(), Failure> {
        for opened in &change.handovers {
            desk::open(self, id, opened)?;
        }
        for (hook, seq, at) in change.notices.iter().copied() {
            notices::add(self, hook, id, seq, at)?;
        }
        Ok(())
    }

    /// Keeps the list of sessions.
    fn list(&self, session: SessionId, id: &str, change: &Change<'_>) -> Result<(), Failure> {
        if let Some(row) = change.birth(session) {
            let sql = "INSERT INTO session (id, agent, task_type, principal, status, reason, started, updated, facts, \
                       steps, conversation) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
            let (started, updated) = (codec::integer(row.started.as_nanos()), codec::integer(row.updated.as_nanos()));
            let (status, reason) = (row.status.label(), row.reason.map(|reason| reason.label()));
            let facts = codec::integer(row.facts);
            self.run(
                sql,
                params![
                    id,
                    row.agent,
                    row.task_type,
                    row.principal,
                    status,
                    reason,
                    started,
                    updated,
                    facts,
                    row.steps,
                    row.conversation
                ],
            )?;
            return Ok(());
        }
        let (updated, facts) = (codec::integer(change.updated.as_nanos()), codec::integer(change.facts));
        let sql = "UPDATE session SET updated = ?2, facts = facts + ?3, steps = coalesce(?4, steps + ?5) \
                   WHERE id = ?1";
        self.run(sql, params![id, updated, facts, change.steps, change.replies])?;
        // Apart, because the status stands in an index that most writes need not touch.
        if let Some(status) = change.status {
            let sql = "UPDATE session SET status = ?2, reason = coalesce(?3, reason) WHERE id = ?1";
            self.run(sql, params![id, status.label(), change.reason.map(|reason| reason.label())])?;
        }
        if change.status.is_some_and(SessionStatus::is_final) {
            // Nobody drives a session that has ended.
            self.run("DELETE FROM lease WHERE session = ?1", [id])?;
        }
        Ok(())
    }
}
