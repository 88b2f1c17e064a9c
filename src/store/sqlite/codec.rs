//! Facts and rows as SQLite keeps them. A value that cannot be read is named by its place and
//! its tag, never by its content, which may be a person's.

use rusqlite::Row;
use serde_json::error::Category;

use crate::core::{
    Entry, Fact, SessionId, StreamId, Timestamp,
    fact::SessionSummary,
    outcome::{EndReason, SessionStatus},
    port::StoreErrorKind,
};

use super::failure::Failure;
use crate::store::error;

/// The columns that [`summary`] reads, in its order.
pub(super) const SUMMARY_COLUMNS: &str =
    "id, agent, task_type, principal, status, reason, started, updated, facts, steps, conversation";

/// A number as a column holds it; what no column can hold becomes the largest that it can.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number as it comes from a column.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// A point in time as it comes from a column.
pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    number(row, column).map(Timestamp::from_nanos)
}

/// Writes the JSON of a fact into an emptied buffer.
pub(super) fn encode<'a>(fact: &Fact, buffer: &'a mut Vec<u8>) -> Result<&'a str, Failure> {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, fact)
        .map_err(|_| error(StoreErrorKind::Io, format!("a fact {} cannot be written as JSON", fact.name())))?;
    Ok(std::str::from_utf8(buffer).expect("serde_json writes UTF-8"))
}

/// The entry of `seq, at, name, body`, which must stand at `place`.
pub(super) fn entry(stream: StreamId, place: u64, row: &Row<'_>) -> Result<Entry, Failure> {
    let seq = number(row, 0)?;
    if seq != place {
        let detail = format!("the journal of {stream} is damaged: fact {seq} stands where fact {place} belongs");
        return Err(error(StoreErrorKind::Io, detail).into());
    }
    let fact = match serde_json::from_str(row.get_ref(3)?.as_str().unwrap_or_default()) {
        Ok(fact) => fact,
        Err(cause) => return Err(unreadable(stream, seq, &row.get::<_, String>(2)?, cause.classify())),
    };
    Ok(Entry { stream, seq, at: time(row, 1)?, fact })
}

/// A fact of a row of (seq, at, name, body, stream), wherever in its journal it stands.
pub(super) fn system_entry(row: &Row<'_>) -> Result<Entry, Failure> {
    let place = number(row, 0)?;
    entry(stream(row, 4)?, place, row)
}

/// The stream of a column.
pub(super) fn stream(row: &Row<'_>, column: usize) -> Result<StreamId, Failure> {
    let text: String = row.get(column)?;
    text.parse().map_err(|problem| {
        let detail = format!("a journal has a name that is none: {problem}");
        Failure::from(error(StoreErrorKind::Io, detail))
    })
}

/// JSON that no fact of this version fits was written by another version; no JSON is damage.
fn unreadable(stream: StreamId, seq: u64, name: &str, category: Category) -> Failure {
    let (kind, why) = match category {
        Category::Data => (StoreErrorKind::Version, "is none that this version knows: use the glassbox that wrote it"),
        Category::Io | Category::Syntax | Category::Eof => (StoreErrorKind::Io, "is damaged: its text is no JSON"),
    };
    error(kind, format!("fact {seq} of {stream} ({name}) {why}")).into()
}

/// The session of a row of [`SUMMARY_COLUMNS`].
pub(super) fn summary(row: &Row<'_>) -> Result<SessionSummary, Failure> {
    let id = session_id(row, 0)?;
    let status: String = row.get(4)?;
    let reason: Option<String> = row.get(5)?;
    let known_status = SessionStatus::ALL.iter().find(|known| known.label() == status);
    let known_reason = |reason: String| {
        let known = EndReason::ALL.iter().find(|known| known.label() == reason);
        known.copied().ok_or_else(|| unknown(id, "reason", &reason))
    };
    Ok(SessionSummary {
        id,
        agent: row.get(1)?,
        task_type: row.get(2)?,
        principal: row.get(3)?,
        conversation: row.get(10)?,
        status: *known_status.ok_or_else(|| unknown(id, "status", &status))?,
        reason: reason.map(known_reason).transpose()?,
        started: time(row, 6)?,
        updated: time(row, 7)?,
        facts: number(row, 8)?,
        steps: row.get(9)?,
    })
}

/// The session id of a column.
pub(super) fn session_id(row: &Row<'_>, column: usize) -> Result<SessionId, Failure> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| error(StoreErrorKind::Io, format!("the list of sessions is damaged: {text:?}")).into())
}

fn unknown(id: SessionId, what: &str, word: &str) -> Failure {
    error(StoreErrorKind::Version, format!("{id} has a {what} that this version does not know: {word:?}")).into()
}
