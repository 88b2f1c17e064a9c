//! Leases in the file. Each change runs in the writer's immediate transaction, so two processes
//! that ask at once are answered one after the other.

use rusqlite::{OptionalExtension, Row, params};

use crate::core::{
    SessionId, Timestamp,
    id::ProcessId,
    lease::{LeaseEpoch, LeaseGrant},
    port::StoreErrorKind,
};

use super::{codec, failure::Failure, writer::Writer};
use crate::store::error;

/// A row of the table.
struct Lease {
    epoch: u64,
    owner: Option<String>,
    until: Timestamp,
}

/// Takes a session that nobody holds.
pub(super) fn acquire(
    writer: &mut Writer,
    session: SessionId,
    owner: ProcessId,
    now: Timestamp,
    until: Timestamp,
) -> Result<LeaseGrant, Failure> {
    let id = session.to_string();
    writer.transaction(|writer| {
        let standing = find(writer, &id)?;
        if let Some(Lease { owner: Some(owner), until, .. }) = &standing
            && *until > now
        {
            return Ok(LeaseGrant::Held { owner: process_id(session, owner)?, until: *until });
        }
        let epoch = standing.map_or(0, |lease| lease.epoch) + 1;
        let sql = "INSERT INTO lease (session, epoch, owner, until) VALUES (?1, ?2, ?3, ?4) \
                   ON CONFLICT (session) DO UPDATE \
                   SET epoch = excluded.epoch, owner = excluded.owner, until = excluded.until";
        writer.run(sql, params![id, codec::integer(epoch), owner.to_string(), codec::integer(until.as_nanos())])?;
        Ok(LeaseGrant::Granted(LeaseEpoch::from_number(epoch)))
    })
}

/// Moves the end of leases; gives the sessions that the owner no longer holds.
pub(super) fn renew(
    writer: &mut Writer,
    owner: ProcessId,
    sessions: &[SessionId],
    until: Timestamp,
) -> Result<Vec<SessionId>, Failure> {
    let (owner, until) = (owner.to_string(), codec::integer(until.as_nanos()));
    writer.transaction(|writer| {
        let mut lost = Vec::new();
        for session in sessions {
            let sql = "UPDATE lease SET until = ?3 WHERE session = ?1 AND owner = ?2";
            if writer.run(sql, params![session.to_string(), owner, until])? == 0 {
                lost.push(*session);
            }
        }
        Ok(lost)
    })
}

/// Gives a session back.
pub(super) fn release(writer: &mut Writer, session: SessionId, owner: ProcessId) -> Result<(), Failure> {
    writer.transaction(|writer| {
        let sql = "UPDATE lease SET owner = NULL WHERE session = ?1 AND owner = ?2";
        writer.run(sql, params![session.to_string(), owner.to_string()])?;
        Ok(())
    })
}

fn find(writer: &Writer, session: &str) -> Result<Option<Lease>, Failure> {
    let read =
        |row: &Row<'_>| Ok(Lease { epoch: codec::number(row, 0)?, owner: row.get(1)?, until: codec::time(row, 2)? });
    let mut statement = writer.conn().prepare_cached("SELECT epoch, owner, until FROM lease WHERE session = ?1")?;
    Ok(statement.query_row([session], read).optional()?)
}

fn process_id(session: SessionId, text: &str) -> Result<ProcessId, Failure> {
    text.parse().map_err(|_| error(StoreErrorKind::Io, format!("the lease of {session} is damaged: {text:?}")).into())
}
