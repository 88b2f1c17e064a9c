//! What only one session may have: an idempotency key, and a conversation while it runs. It must
//! never know what was asked.

use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    core::{
        BlobHash, StreamId, Timestamp,
        once::{BegunOnce, Once},
        port::Write,
    },
    store::{change::Change, check},
};

use super::{codec, failure::Failure, writer::Writer};

/// Takes the key for a session that begins now; refused where another session has it.
pub(super) fn claim(writer: &Writer, once: Once, stream: StreamId, now: Timestamp) -> Result<(), Failure> {
    let sql = "INSERT INTO idempotency (key, body, session, until) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (key) DO UPDATE SET body = excluded.body, session = excluded.session, \
               until = excluded.until WHERE idempotency.until <= ?5";
    let (until, now) = (codec::integer(once.until.as_nanos()), codec::integer(now.as_nanos()));
    let values = params![once.key.to_bytes(), once.body.to_bytes(), stream.to_string(), until, now];
    match writer.run(sql, values)? {
        0 => Err(check::claimed(stream).into()),
        _ => Ok(()),
    }
}

/// A session begins in its conversation; refused where that is another principal's, or runs one.
pub(super) fn converse(writer: &Writer, write: &Write) -> Result<(), Failure> {
    let begins = write.stream.session().and_then(|session| Change::of(&write.entries).birth(session));
    let Some((row, conversation)) = begins.and_then(|row| row.conversation.clone().map(|id| (row, id))) else {
        return Ok(());
    };
    let sql = "SELECT 1 FROM session WHERE conversation = ?1 \
               AND (principal <> ?2 OR status IN ('running', 'suspended', 'awaiting_confirmation')) LIMIT 1";
    let taken = writer.conn().prepare_cached(sql)?.query_row([conversation, row.principal], |_| Ok(())).optional()?;
    taken.map_or(Ok(()), |()| Err(check::conversing(write.stream).into()))
}

/// The session that a key began.
pub(super) fn begun(conn: &Connection, key: BlobHash, now: Timestamp) -> Result<Option<BegunOnce>, Failure> {
    let sql = "SELECT session, body FROM idempotency WHERE key = ?1 AND until > ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![key.to_bytes(), codec::integer(now.as_nanos())])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(BegunOnce { session: codec::session_id(row, 0)?, body: BlobHash::from_bytes(row.get(1)?) }))
}

/// Forgets keys that are kept no longer. Looks first, so that nothing is locked for nothing.
pub(super) fn forget(writer: &mut Writer, now: Timestamp, limit: usize) -> Result<u64, Failure> {
    let now = codec::integer(now.as_nanos());
    let any = "SELECT 1 FROM idempotency WHERE until <= ?1 LIMIT 1";
    if writer.conn().prepare_cached(any)?.query_row([now], |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    let sql = "DELETE FROM idempotency WHERE key IN (SELECT key FROM idempotency WHERE until <= ?1 LIMIT ?2)";
    let limit = codec::integer(limit as u64);
    writer.transaction(|writer| Ok(writer.run(sql, params![now, limit])? as u64))
}
