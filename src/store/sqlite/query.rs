//! What is read: journals, blobs and the list of sessions. Each is one statement, hence one
//! view of the file, however much is written meanwhile.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, ToSql, params, params_from_iter};

use crate::core::{
    BlobHash, Entry, SessionId, SessionStatus, StreamId, Timestamp, fact::SessionSummary, port::SessionFilter,
};

use super::{
    codec::{self, SUMMARY_COLUMNS},
    failure::Failure,
};
use crate::store::page_size;

/// Part of the journal of a stream.
pub(super) fn page(conn: &Connection, stream: StreamId, from: u64, limit: usize) -> Result<Vec<Entry>, Failure> {
    let mut statement = conn
        .prepare_cached("SELECT seq, at, name, body FROM fact WHERE stream = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3")?;
    let mut rows = statement.query(params![stream.to_string(), codec::integer(from), codec::integer(limit as u64)])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(codec::entry(stream, from + entries.len() as u64, row)?);
    }
    Ok(entries)
}

/// The facts of this name in the journals of processes, oldest first. The bounds are those of
/// the ids of processes, so that the journals of sessions are not walked through.
pub(super) fn system_facts(conn: &Connection, name: &str) -> Result<Vec<Entry>, Failure> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, at, name, body, stream FROM fact WHERE stream >= 'proc_' AND stream < 'proc`' AND name = ?1 \
         ORDER BY at, stream, seq",
    )?;
    let mut rows = statement.query([name])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(codec::system_entry(row)?);
    }
    Ok(entries)
}

/// A kept text.
pub(super) fn blob(conn: &Connection, hash: BlobHash) -> Result<Option<Arc<[u8]>>, Failure> {
    let mut statement = conn.prepare_cached("SELECT bytes FROM blob WHERE hash = ?1")?;
    let bytes = statement.query_row([hash.to_bytes()], |row| Ok(Arc::from(row.get_ref(0)?.as_blob()?))).optional()?;
    Ok(bytes)
}

/// Sessions, newest first.
pub(super) fn sessions(conn: &Connection, filter: &SessionFilter) -> Result<Vec<SessionSummary>, Failure> {
    let (status, before) = (filter.status.map(|status| status.label()), filter.before.map(|id| id.to_string()));
    let wishes: [(&str, Option<&dyn ToSql>); 6] = [
        ("principal = ?", filter.principal.as_ref().map(|value| value as &dyn ToSql)),
        ("conversation = ?", filter.conversation.as_ref().map(|value| value as &dyn ToSql)),
        ("agent = ?", filter.agent.as_ref().map(|value| value as &dyn ToSql)),
        ("task_type = ?", filter.task_type.as_ref().map(|value| value as &dyn ToSql)),
        ("status = ?", status.as_ref().map(|value| value as &dyn ToSql)),
        (
            "(started, id) < (SELECT started, id FROM session WHERE id = ?)",
            before.as_ref().map(|value| value as &dyn ToSql),
        ),
    ];
    let mut sql = format!("SELECT {SUMMARY_COLUMNS} FROM session");
    let mut values = Vec::with_capacity(7);
    for (condition, value) in wishes {
        if let Some(value) = value {
            sql.push_str(if values.is_empty() { " WHERE " } else { " AND " });
            sql.push_str(condition);
            values.push(value);
        }
    }
    sql.push_str(" ORDER BY started DESC, id DESC LIMIT ?");
    let limit = codec::integer(page_size(filter.limit) as u64);
    values.push(&limit);

    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(codec::summary(row)?);
    }
    Ok(found)
}

/// One session.
pub(super) fn session(conn: &Connection, id: SessionId) -> Result<Option<SessionSummary>, Failure> {
    let mut statement = conn.prepare_cached(&format!("SELECT {SUMMARY_COLUMNS} FROM session WHERE id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(codec::summary).transpose()
}

/// Sessions that go on by themselves and that nobody holds, oldest first.
pub(super) fn expired(conn: &Connection, now: Timestamp) -> Result<Vec<SessionId>, Failure> {
    let mut statement = conn.prepare_cached(
        "SELECT session.id FROM session LEFT JOIN lease ON lease.session = session.id \
         WHERE session.status IN ('running', 'suspended') \
         AND (lease.owner IS NULL OR lease.until <= ?1) ORDER BY session.started, session.id",
    )?;
    let mut rows = statement.query([codec::integer(now.as_nanos())])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(codec::session_id(row, 0)?);
    }
    Ok(found)
}

/// When a principal's latest sessions began, newest first.
pub(super) fn recent_starts(
    conn: &Connection,
    principal: &str,
    since: Timestamp,
    limit: usize,
) -> Result<Vec<Timestamp>, Failure> {
    let mut statement = conn.prepare_cached(
        "SELECT started FROM session WHERE principal = ?1 AND started > ?2 ORDER BY started DESC LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(rusqlite::params![principal, codec::integer(since.as_nanos()), limit])?;
    let mut starts = Vec::new();
    while let Some(row) = rows.next()? {
        starts.push(codec::time(row, 0)?);
    }
    Ok(starts)
}

/// Ended sessions whose spans are not known to have arrived, oldest first.
pub(super) fn unexported(conn: &Connection, since: Timestamp, before: Timestamp) -> Result<Vec<SessionId>, Failure> {
    let mut statement = conn.prepare_cached(
        "SELECT id FROM session WHERE exported = 0 AND updated >= ?1 AND updated < ?2 \
         AND status NOT IN ('running', 'suspended', 'awaiting_confirmation') ORDER BY updated, id",
    )?;
    let mut rows = statement.query([codec::integer(since.as_nanos()), codec::integer(before.as_nanos())])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(codec::session_id(row, 0)?);
    }
    Ok(found)
}

/// Sessions that ended before a time. One status after the other, each in the order of its index,
/// so that a limit is a limit of the work too.
pub(super) fn ended(conn: &Connection, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, Failure> {
    let mut statement = conn.prepare_cached(
        "SELECT id FROM session WHERE status = ?1 AND started < ?2 AND updated < ?2 ORDER BY started, id LIMIT ?3",
    )?;
    let before = codec::integer(before.as_nanos());
    let mut found = Vec::new();
    for status in SessionStatus::FINAL {
        let room = codec::integer((limit - found.len()) as u64);
        let mut rows = statement.query(params![status.label(), before, room])?;
        while let Some(row) = rows.next()? {
            found.push(codec::session_id(row, 0)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use crate::core::outcome::SessionStatus;

    #[test]
    fn the_statuses_in_which_a_conversation_is_busy_are_all_that_are_not_final() {
        let open: Vec<_> = SessionStatus::ALL.iter().filter(|status| !status.is_final()).collect();
        let mut words: Vec<_> = open.iter().map(|status| status.label()).collect();
        words.sort_unstable();
        assert_eq!(words, ["awaiting_confirmation", "running", "suspended"]);
    }

    #[test]
    fn the_statuses_that_can_expire_are_all_that_go_on_by_themselves() {
        let open: Vec<_> = SessionStatus::ALL.iter().filter(|status| status.goes_on_by_itself()).collect();
        let words: Vec<_> = open.iter().map(|status| status.label()).collect();
        assert_eq!(words, ["running", "suspended"]);
    }
}
