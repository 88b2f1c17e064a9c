//! The table of notices. It must never know what is told, or to whom.

use rusqlite::{Connection, params};

use crate::core::{
    Timestamp,
    notice::{Hook, Notice},
};

use super::{codec, failure::Failure, writer::Writer};

/// Adds a notice that is due at once.
pub(super) fn add(writer: &Writer, hook: Hook, session: &str, seq: u64, at: Timestamp) -> Result<(), Failure> {
    let sql = "INSERT INTO notice (hook, session, seq, at, attempts, due) VALUES (?1, ?2, ?3, ?4, 0, ?4)";
    writer.run(sql, params![hook.label(), session, codec::integer(seq), codec::integer(at.as_nanos())])?;
    Ok(())
}

/// Those of these hooks that are due, the longest due first.
pub(super) fn due(conn: &Connection, hooks: &[Hook], now: Timestamp, limit: usize) -> Result<Vec<Notice>, Failure> {
    let mut found = Vec::new();
    for hook in hooks.iter().copied() {
        let sql = "SELECT session, seq, at, attempts, due FROM notice WHERE hook = ?1 AND due <= ?2 \
                   ORDER BY due, session, seq LIMIT ?3";
        let mut statement = conn.prepare_cached(sql)?;
        let now = codec::integer(now.as_nanos());
        let mut rows = statement.query(params![hook.label(), now, codec::integer(limit as u64)])?;
        while let Some(row) = rows.next()? {
            let (session, seq) = (codec::session_id(row, 0)?, codec::number(row, 1)?);
            let notice = Notice { hook, session, seq, at: codec::time(row, 2)?, attempts: row.get(3)? };
            found.push((codec::time(row, 4)?, notice));
        }
    }
    found.sort_by_key(|(due, _)| *due);
    Ok(found.into_iter().map(|(_, notice)| notice).take(limit).collect())
}

/// Forgets one.
pub(super) fn settle(writer: &mut Writer, notice: &Notice) -> Result<(), Failure> {
    let sql = "DELETE FROM notice WHERE hook = ?1 AND session = ?2 AND seq = ?3";
    let values = params![notice.hook.label(), notice.session.to_string(), codec::integer(notice.seq)];
    writer.transaction(|writer| writer.run(sql, values).map(drop))
}

/// Puts one off.
pub(super) fn postpone(writer: &mut Writer, notice: &Notice, due: Timestamp) -> Result<(), Failure> {
    let sql = "UPDATE notice SET attempts = ?4, due = ?5 WHERE hook = ?1 AND session = ?2 AND seq = ?3";
    let (hook, session, seq) = (notice.hook.label(), notice.session.to_string(), codec::integer(notice.seq));
    let (attempts, due) = (notice.attempts + 1, codec::integer(due.as_nanos()));
    writer.transaction(|writer| writer.run(sql, params![hook, session, seq, attempts, due]).map(drop))
}

/// Gives old ones up. Looks first, so that nothing is locked for nothing.
pub(super) fn forget(writer: &mut Writer, hook: Hook, before: Timestamp) -> Result<u64, Failure> {
    let (hook, before) = (hook.label(), codec::integer(before.as_nanos()));
    let any = "SELECT EXISTS (SELECT 1 FROM notice WHERE hook = ?1 AND at < ?2)";
    if !writer.conn().prepare_cached(any)?.query_row(params![hook, before], |row| row.get(0))? {
        return Ok(0);
    }
    let sql = "DELETE FROM notice WHERE hook = ?1 AND at < ?2";
    writer.transaction(|writer| Ok(writer.run(sql, params![hook, before])? as u64))
}
