//! The table of marks of event lines. It must never know what a line says.

use rusqlite::{Connection, OptionalExtension, params};

use crate::core::{StreamId, Timestamp, mark::Mark};

use super::{codec, failure::Failure, writer::Writer};

/// Makes the mark of a stream, unless it has one.
pub(super) fn begin(writer: &Writer, stream: &str, place: u64) -> Result<(), Failure> {
    let sql = "INSERT INTO line_mark (stream, next) VALUES (?1, ?2) ON CONFLICT (stream) DO NOTHING";
    writer.run(sql, params![stream, codec::integer(place)])?;
    Ok(())
}

/// The mark of a stream.
pub(super) fn find(conn: &Connection, stream: StreamId) -> Result<Option<u64>, Failure> {
    let mut statement = conn.prepare_cached("SELECT next FROM line_mark WHERE stream = ?1")?;
    Ok(statement.query_row([stream.to_string()], |row| codec::number(row, 0)).optional()?)
}

/// Moves marks on; those that have nothing before them go.
pub(super) fn move_on(writer: &mut Writer, marks: &[Mark]) -> Result<(), Failure> {
    let reached = "DELETE FROM line_mark WHERE stream = ?1 \
                   AND NOT EXISTS (SELECT 1 FROM fact WHERE fact.stream = ?1 AND fact.seq >= ?2) \
                   AND NOT EXISTS (SELECT 1 FROM session WHERE session.id = ?1 \
                   AND session.status IN ('running', 'suspended', 'awaiting_confirmation'))";
    let moved = "UPDATE line_mark SET next = ?2 WHERE stream = ?1 AND next < ?2";
    writer.transaction(|writer| {
        for mark in marks {
            let (stream, next) = (mark.stream.to_string(), codec::integer(mark.next));
            if writer.run(reached, params![stream, next])? == 0 {
                writer.run(moved, params![stream, next])?;
            }
        }
        Ok(())
    })
}

/// The marks of streams that nobody holds and that have facts of this time behind their mark.
pub(super) fn owing(
    conn: &Connection,
    now: Timestamp,
    since: Timestamp,
    before: Timestamp,
) -> Result<Vec<Mark>, Failure> {
    let mut statement = conn.prepare_cached(
        "SELECT line_mark.stream, line_mark.next FROM line_mark \
         LEFT JOIN lease ON lease.session = line_mark.stream \
         WHERE (lease.owner IS NULL OR lease.until <= ?1) \
         AND EXISTS (SELECT 1 FROM fact WHERE fact.stream = line_mark.stream AND fact.seq >= line_mark.next \
         AND fact.at >= ?2 AND fact.at < ?3) \
         ORDER BY (SELECT fact.at FROM fact WHERE fact.stream = line_mark.stream AND fact.seq = line_mark.next), \
         line_mark.stream",
    )?;
    let times = [now, since, before].map(|time| codec::integer(time.as_nanos()));
    let mut rows = statement.query(times)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Mark { stream: codec::stream(row, 0)?, next: codec::number(row, 1)? });
    }
    Ok(found)
}

/// Gives up old ones. Looks first, so that nothing is locked for nothing.
pub(super) fn give_up(writer: &mut Writer, since: Timestamp) -> Result<u64, Failure> {
    let old = "FROM line_mark WHERE NOT EXISTS (SELECT 1 FROM session WHERE session.id = line_mark.stream \
               AND session.status IN ('running', 'suspended', 'awaiting_confirmation')) \
               AND NOT EXISTS (SELECT 1 FROM fact WHERE fact.stream = line_mark.stream \
               AND fact.seq >= line_mark.next AND fact.at >= ?1)";
    let since = codec::integer(since.as_nanos());
    let any = format!("SELECT EXISTS (SELECT 1 {old})");
    if !writer.conn().prepare_cached(&any)?.query_row([since], |row| row.get(0))? {
        return Ok(0);
    }
    writer.transaction(|writer| Ok(writer.run(&format!("DELETE {old}"), [since])? as u64))
}
