//! Taking sessions out of the file so that their bytes are gone: rows deleted, freed pages
//! overwritten, and the log, which still holds the pages as they were, emptied.
//!
//! It must never know why a session is erased.

use rusqlite::{OptionalExtension, params};

use crate::{
    core::{
        SessionId,
        id::ProcessId,
        port::{StoreError, StoreErrorKind},
    },
    store::error,
};

use super::{desk, failure::Failure, writer::Writer};

/// Removes the sessions that the owner holds; gives how many there were.
pub(super) fn erase(writer: &mut Writer, owner: ProcessId, sessions: &[SessionId]) -> Result<u64, Failure> {
    if sessions.is_empty() {
        return Ok(0);
    }
    let owner = owner.to_string();
    overwrite_pages(writer, "ON")?;
    let erased = writer.transaction(|writer| {
        let mut erased = 0;
        for session in sessions {
            erased += erase_one(writer, &owner, &session.to_string())?;
        }
        Ok(erased)
    });
    overwrite_pages(writer, "FAST")?;
    erased
}

fn erase_one(writer: &Writer, owner: &str, session: &str) -> Result<u64, Failure> {
    let held = "SELECT 1 FROM lease WHERE session = ?1 AND owner = ?2";
    let held = writer.conn().prepare_cached(held)?.query_row(params![session, owner], |_| Ok(())).optional()?;
    if held.is_none() {
        return Ok(0);
    }
    let only_here = "DELETE FROM blob WHERE hash IN ( \
                     SELECT own.hash FROM blob_ref AS own WHERE own.stream = ?1 AND NOT EXISTS ( \
                     SELECT 1 FROM blob_ref AS other WHERE other.hash = own.hash AND other.stream <> ?1))";
    writer.run(only_here, [session])?;
    writer.run("DELETE FROM blob_ref WHERE stream = ?1", [session])?;
    writer.run("DELETE FROM fact WHERE stream = ?1", [session])?;
    writer.run("DELETE FROM lease WHERE session = ?1", [session])?;
    writer.run("DELETE FROM line_mark WHERE stream = ?1", [session])?;
    writer.run("DELETE FROM idempotency WHERE session = ?1", [session])?;
    desk::erase(writer, session)?;
    Ok(writer.run("DELETE FROM session WHERE id = ?1", [session])? as u64)
}

/// Moves what the log holds into the file and empties the log.
pub(super) fn scrub(writer: &Writer) -> Result<(), Failure> {
    let busy: bool = writer.conn().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy { Err(in_use().into()) } else { Ok(()) }
}

fn in_use() -> StoreError {
    error(
        StoreErrorKind::Busy,
        "what was erased is out of reach, but its bytes stay in the log until others stop reading it",
    )
}

/// Whether pages that become free are overwritten (`ON`) or only what moves inside a page (`FAST`).
fn overwrite_pages(writer: &Writer, word: &str) -> Result<(), Failure> {
    Ok(writer.conn().pragma_update_and_check(None, "secure_delete", word, |_| Ok(()))?)
}
