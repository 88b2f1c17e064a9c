//! The table of hand-overs. It must never know what a hand-over is about.

use rusqlite::{Connection, Row, ToSql, params, params_from_iter};

use crate::{
    core::{
        fact::HandoverCause,
        handover::{
            Handling, Handover, HandoverAction, HandoverFilter, HandoverId, HandoverStatus, OperatorWord, Unclaimed,
        },
        port::StoreErrorKind,
        sensitive::Sensitive,
    },
    store::{change::Opened, error, page_size},
};

use super::{codec, failure::Failure, writer::Writer};

/// The columns that [`record`] reads, in its order.
const COLUMNS: &str = "session, seq, agent, task_type, principal, cause, tool, detail, opened, claimed_by, claimed_at, \
                       claim_comment, closed_by, closed_at, close_comment, erased";

/// Opens a hand-over of a session that is listed.
pub(super) fn open(writer: &Writer, session: &str, opened: &Opened<'_>) -> Result<(), Failure> {
    let sql = "INSERT INTO handover (session, seq, agent, task_type, principal, cause, tool, detail, opened, status) \
               SELECT id, ?2, agent, task_type, principal, ?3, ?4, ?5, ?6, ?7 FROM session WHERE id = ?1";
    let (seq, at) = (codec::integer(opened.seq), codec::integer(opened.at.as_nanos()));
    let open = HandoverStatus::Open.label();
    writer.run(sql, params![session, seq, opened.cause.label(), opened.tool, opened.detail, at, open])?;
    Ok(())
}

/// A session is erased: what is closed goes with it, what is open stays without its texts.
pub(super) fn erase(writer: &Writer, session: &str) -> Result<(), Failure> {
    let closed = HandoverStatus::Closed.label();
    writer.run("DELETE FROM handover WHERE session = ?1 AND status = ?2", [session, closed])?;
    let silence = "UPDATE handover SET principal = NULL, detail = NULL, claim_comment = NULL, close_comment = NULL, \
                   erased = 1 WHERE session = ?1";
    writer.run(silence, [session])?;
    writer.run("DELETE FROM notice WHERE session = ?1 AND hook <> 'handovers'", [session])?;
    Ok(())
}

/// Some of them, newest first.
pub(super) fn handovers(conn: &Connection, filter: &HandoverFilter) -> Result<Vec<Handover>, Failure> {
    let status = filter.status.map(HandoverStatus::label);
    let before = filter.before.map(|id| (id.session.to_string(), codec::integer(id.seq)));
    let mut sql = format!("SELECT {COLUMNS} FROM handover WHERE true");
    let mut values: Vec<&dyn ToSql> = Vec::new();
    if let Some(status) = &status {
        sql.push_str(" AND status = ?");
        values.push(status);
    }
    if let Some((session, seq)) = &before {
        sql.push_str(
            " AND (opened, session, seq) < (SELECT opened, session, seq FROM handover WHERE session = ? AND seq = ?)",
        );
        values.extend([session as &dyn ToSql, seq]);
    }
    sql.push_str(" ORDER BY opened DESC, session DESC, seq DESC LIMIT ?");
    let limit = codec::integer(page_size(filter.limit) as u64);
    values.push(&limit);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record(row)?);
    }
    Ok(found)
}

/// One of them.
pub(super) fn handover(conn: &Connection, id: HandoverId) -> Result<Option<Handover>, Failure> {
    let sql = format!("SELECT {COLUMNS} FROM handover WHERE session = ?1 AND seq = ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![id.session.to_string(), codec::integer(id.seq)])?;
    rows.next()?.map(record).transpose()
}

/// Does what an operator says, if what stands allows it.
pub(super) fn handle(
    writer: &mut Writer,
    id: HandoverId,
    action: HandoverAction,
    word: &OperatorWord,
) -> Result<Handling, Failure> {
    writer.transaction(|writer| {
        let Some(standing) = handover(writer.conn(), id)? else { return Ok(Handling::Unknown) };
        let handling = standing.handled(action, word);
        if let Handling::Done(after) = &handling {
            keep(writer, after)?;
        }
        Ok(handling)
    })
}

/// How many nobody has taken on, and since when.
pub(super) fn unclaimed(conn: &Connection) -> Result<Unclaimed, Failure> {
    let mut statement = conn.prepare_cached("SELECT count(*), min(opened) FROM handover WHERE status = ?1")?;
    let mut rows = statement.query([HandoverStatus::Open.label()])?;
    let Some(row) = rows.next()? else { return Ok(Unclaimed::default()) };
    let oldest = row.get::<_, Option<i64>>(1)?.map(|_| codec::time(row, 1)).transpose()?;
    Ok(Unclaimed { count: codec::number(row, 0)?, oldest })
}

/// Writes what operators said of it.
fn keep(writer: &Writer, record: &Handover) -> Result<(), Failure> {
    let sql = "UPDATE handover SET status = ?3, claimed_by = ?4, claimed_at = ?5, claim_comment = ?6, closed_by = ?7, \
               closed_at = ?8, close_comment = ?9 WHERE session = ?1 AND seq = ?2";
    let by = |word: &Option<OperatorWord>| word.as_ref().map(|word| word.by.expose().clone());
    let at = |word: &Option<OperatorWord>| word.as_ref().map(|word| codec::integer(word.at.as_nanos()));
    let comment = |word: &Option<OperatorWord>| {
        word.as_ref().and_then(|word| word.comment.as_ref()).map(|comment| comment.expose().clone())
    };
    let (claimed, closed) = (&record.claimed, &record.closed);
    writer.run(
        sql,
        params![
            record.id.session.to_string(),
            codec::integer(record.id.seq),
            record.status().label(),
            by(claimed),
            at(claimed),
            comment(claimed),
            by(closed),
            at(closed),
            comment(closed)
        ],
    )?;
    Ok(())
}

/// The hand-over of a row of [`COLUMNS`].
fn record(row: &Row<'_>) -> Result<Handover, Failure> {
    let id = HandoverId { session: codec::session_id(row, 0)?, seq: codec::number(row, 1)? };
    let cause: String = row.get(5)?;
    let known = HandoverCause::ALL.into_iter().find(|known| known.label() == cause);
    let unknown = || {
        let detail = format!("{id} has a cause that this version does not know: {cause:?}");
        Failure::from(error(StoreErrorKind::Version, detail))
    };
    Ok(Handover {
        id,
        agent: row.get(2)?,
        task_type: row.get(3)?,
        principal: row.get(4)?,
        cause: known.ok_or_else(unknown)?,
        tool: row.get(6)?,
        detail: row.get::<_, Option<String>>(7)?.map(Sensitive::new),
        opened: codec::time(row, 8)?,
        claimed: word(row, 9)?,
        closed: word(row, 12)?,
        erased: row.get(15)?,
    })
}

/// What an operator said, of the three columns from this one on.
fn word(row: &Row<'_>, first: usize) -> Result<Option<OperatorWord>, Failure> {
    let Some(by) = row.get::<_, Option<String>>(first)? else { return Ok(None) };
    let comment = row.get::<_, Option<String>>(first + 2)?.map(Sensitive::new);
    Ok(Some(OperatorWord { by: by.into(), at: codec::time(row, first + 1)?, comment }))
}
