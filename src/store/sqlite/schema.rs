//! The tables of a journal file, and how an older file becomes a newer one.
//!
//! Everything happens inside one immediate transaction, because two processes may open the same
//! file at once. A file of a newer version, or of another program, is left as it is.
//! Column types are integers, text and bytes only, so that other databases can follow.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::core::{
    fact::JOURNAL_VERSION,
    port::{StoreError, StoreErrorKind},
};

use super::failure::Failure;
use crate::store::error;

/// `application_id` of a journal file: `glbx` in ASCII.
const APPLICATION_ID: i64 = 0x676c_6278;

/// What makes a file of version n out of one of version n - 1, from 1. Never edited, only added to.
const MIGRATIONS: &[&str] = &[VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6];

const VERSION_1: &str = "
CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Every fact of every stream; body is the JSON of the fact, name its tag once more.
CREATE TABLE fact (
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (stream, seq)
) STRICT, WITHOUT ROWID;

-- A fold over the facts, changed in the transaction that adds them.
CREATE TABLE session (
    id TEXT NOT NULL PRIMARY KEY,
    agent TEXT NOT NULL,
    task_type TEXT NOT NULL,
    principal TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    started INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    facts INTEGER NOT NULL,
    steps INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_by_age ON session (started, id);
CREATE INDEX session_by_principal ON session (principal, started, id);
CREATE INDEX session_by_status ON session (status, started, id);

CREATE TABLE blob (
    hash BLOB NOT NULL PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;

-- A row stays when its owner lets go, so that the epoch never falls back.
CREATE TABLE lease (
    session TEXT NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL,
    owner TEXT,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Holds a filler for a moment, when somebody asks whether the file can be written.
CREATE TABLE scratch (
    id INTEGER NOT NULL PRIMARY KEY,
    filler BLOB NOT NULL
) STRICT;
";

const VERSION_2: &str = "
-- Whether all spans of the session have arrived at the collector.
ALTER TABLE session ADD COLUMN exported INTEGER NOT NULL DEFAULT 0;
CREATE INDEX session_unexported ON session (updated, id) WHERE exported = 0;
";

const VERSION_3: &str = "
-- Which streams name a kept text, so that the last one takes it along when it is erased.
CREATE TABLE blob_ref (
    hash BLOB NOT NULL,
    stream TEXT NOT NULL,
    PRIMARY KEY (hash, stream)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_ref_by_stream ON blob_ref (stream, hash);

-- What the facts so far name. A body that is no JSON is damaged, which is told when it is read.
INSERT OR IGNORE INTO blob_ref (hash, stream)
SELECT blob.hash, named.stream
FROM (
    SELECT stream, CASE WHEN json_valid(body) THEN json_extract(body, '$.session_started.prompt.hash') END AS name
    FROM fact WHERE name = 'session_started'
    UNION ALL
    SELECT stream, CASE WHEN json_valid(body) THEN json_extract(body, '$.session_started.tools_hash') END
    FROM fact WHERE name = 'session_started'
    UNION ALL
    SELECT stream, CASE WHEN json_valid(body) THEN json_extract(body, '$.session_started.config_hash') END
    FROM fact WHERE name = 'session_started'
    UNION ALL
    SELECT stream, CASE WHEN json_valid(body) THEN json_extract(body, '$.tool_call_finished.end.observation.whole') END
    FROM fact WHERE name = 'tool_call_finished'
) AS named
JOIN blob ON blob.hash = unhex(substr(named.name, 8));
";

const VERSION_4: &str = "
-- Which session an idempotency key began, and until when that is kept.
CREATE TABLE idempotency (
    key BLOB NOT NULL PRIMARY KEY,
    body BLOB NOT NULL,
    session TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_end ON idempotency (until);
CREATE INDEX idempotency_by_session ON idempotency (session);

-- The conversation of a session, for those so far from the fact that began them.
ALTER TABLE session ADD COLUMN conversation TEXT;
UPDATE session SET conversation = (
    SELECT CASE WHEN json_valid(body) THEN json_extract(body, '$.session_started.conversation_id') END
    FROM fact WHERE fact.stream = session.id AND fact.seq = 0);
CREATE INDEX session_by_conversation ON session (conversation, started, id) WHERE conversation IS NOT NULL;
";

const VERSION_5: &str = "
-- Records that a person has to look at something. They outlive their session, without its texts.
CREATE TABLE handover (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    agent TEXT NOT NULL,
    task_type TEXT NOT NULL,
    principal TEXT,
    cause TEXT NOT NULL,
    tool TEXT,
    detail TEXT,
    opened INTEGER NOT NULL,
    status TEXT NOT NULL,
    claimed_by TEXT,
    claimed_at INTEGER,
    claim_comment TEXT,
    closed_by TEXT,
    closed_at INTEGER,
    close_comment TEXT,
    erased INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX handover_by_age ON handover (opened, session, seq);
CREATE INDEX handover_by_status ON handover (status, opened, session, seq);

-- Those of the facts so far are open: nobody could close them.
INSERT INTO handover (session, seq, agent, task_type, principal, cause, tool, detail, opened, status)
SELECT fact.stream, fact.seq, session.agent, session.task_type, session.principal,
    json_extract(fact.body, '$.handed_over.cause'), json_extract(fact.body, '$.handed_over.tool'),
    json_extract(fact.body, '$.handed_over.detail'), fact.at, 'open'
FROM fact JOIN session ON session.id = fact.stream
WHERE fact.name = 'handed_over' AND json_valid(fact.body);

-- What is still to be told outside, written with the fact that it is about.
CREATE TABLE notice (
    hook TEXT NOT NULL,
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (hook, session, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX notice_by_due ON notice (hook, due);
CREATE INDEX notice_by_session ON notice (session);
";

const VERSION_6: &str = "
-- How far the event lines of a journal are out, for those of which lines may be owed.
CREATE TABLE line_mark (
    stream TEXT NOT NULL PRIMARY KEY,
    next INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What older versions recorded counts as written: they kept no mark.
INSERT INTO line_mark (stream, next)
SELECT id, facts FROM session WHERE status IN ('running', 'suspended', 'awaiting_confirmation');
";

/// The versions that a file carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Versions {
    /// Of the tables: how many migrations it has seen.
    tables: usize,
    /// Of the facts: the highest [`JOURNAL_VERSION`] that was at home in it.
    facts: u32,
}

/// Makes the file one of this version, or says why it cannot be.
pub(super) fn prepare(conn: &mut Connection, path: &Path) -> Result<(), Failure> {
    migrate(conn, path, MIGRATIONS, JOURNAL_VERSION)
}

fn migrate(conn: &mut Connection, path: &Path, migrations: &[&str], facts: u32) -> Result<(), Failure> {
    let ours = Versions { tables: migrations.len(), facts };
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = versions(&tx, path)?;
    check_age(found, ours, path)?;
    if found == ours {
        return Ok(());
    }
    for migration in &migrations[found.tables..] {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    set_meta(&tx, "schema_version", &ours.tables.to_string())?;
    set_meta(&tx, "journal_version", &ours.facts.to_string())?;
    tx.commit()?;
    Ok(())
}

/// What the file carries; zeros if it is empty.
fn versions(conn: &Connection, path: &Path) -> Result<Versions, Failure> {
    let id: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if id == APPLICATION_ID {
        let tables = meta(conn, path, "schema_version")?;
        let facts = meta(conn, path, "journal_version")?;
        return Ok(Versions { tables: tables as usize, facts });
    }
    let objects: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if objects == 0 {
        return Ok(Versions { tables: 0, facts: 0 });
    }
    let detail = format!("{} is a SQLite database of another program: name a file of its own", path.display());
    Err(error(StoreErrorKind::Version, detail).into())
}

/// Refuses what a newer glassbox has written.
fn check_age(found: Versions, ours: Versions, path: &Path) -> Result<(), StoreError> {
    if found.tables <= ours.tables && found.facts <= ours.facts {
        return Ok(());
    }
    let detail = format!(
        "{} has format {}.{}, and this version of glassbox reads up to format {}.{}: use the newer glassbox",
        path.display(),
        found.tables,
        found.facts,
        ours.tables,
        ours.facts
    );
    Err(error(StoreErrorKind::Version, detail))
}

fn meta(conn: &Connection, path: &Path, key: &str) -> Result<u32, Failure> {
    let text: Option<String> =
        conn.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional()?;
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        error(StoreErrorKind::Io, format!("{} is damaged: it does not say its {key}", path.display())).into()
    })
}

fn set_meta(conn: &Connection, key: &str, value: &str) -> rusqlite::Result<usize> {
    conn.execute(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        params![key, value],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_2: &str = "ALTER TABLE session ADD COLUMN colour TEXT";

    fn refusal(conn: &mut Connection, migrations: &[&str], facts: u32) -> StoreError {
        let path = Path::new("/data/journal.db");
        migrate(conn, path, migrations, facts).expect_err("must be refused").at(path, "open")
    }

    fn memory() -> Connection {
        Connection::open_in_memory().expect("memory needs no disk")
    }

    #[test]
    fn an_older_file_is_brought_up_and_opened_again() {
        let (mut conn, path) = (memory(), Path::new("j"));
        migrate(&mut conn, path, &[VERSION_1], 1).expect("an empty file");
        migrate(&mut conn, path, &[VERSION_1, VERSION_2], 2).expect("an older file");
        migrate(&mut conn, path, &[VERSION_1, VERSION_2], 2).expect("a file of its own version");
        assert_eq!(versions(&conn, path).expect("ours"), Versions { tables: 2, facts: 2 });
        conn.prepare("SELECT colour FROM session").expect("the new column");
    }

    #[test]
    fn a_newer_file_is_refused_with_both_versions() {
        let mut conn = memory();
        migrate(&mut conn, Path::new("j"), &[VERSION_1, VERSION_2], 3).expect("an empty file");
        let error = refusal(&mut conn, &[VERSION_1], 1);
        assert_eq!(error.kind, StoreErrorKind::Version);
        assert_eq!(
            error.detail,
            "/data/journal.db has format 2.3, and this version of glassbox reads up to format 1.1: \
             use the newer glassbox"
        );
    }

    #[test]
    fn newer_facts_in_the_same_tables_are_refused_too() {
        let mut conn = memory();
        migrate(&mut conn, Path::new("j"), &[VERSION_1], 2).expect("an empty file");
        assert_eq!(refusal(&mut conn, &[VERSION_1, VERSION_2], 1).kind, StoreErrorKind::Version);
    }

    #[test]
    fn a_failed_migration_leaves_the_file_as_it_was() {
        let (mut conn, path) = (memory(), Path::new("j"));
        migrate(&mut conn, path, &[VERSION_1], 1).expect("an empty file");
        refusal(&mut conn, &[VERSION_1, VERSION_2, "not SQL"], 1);
        assert_eq!(versions(&conn, path).expect("ours"), Versions { tables: 1, facts: 1 });
        conn.prepare("SELECT colour FROM session").expect_err("the column must not stay");
    }

    #[test]
    fn the_database_of_another_program_is_left_alone() {
        let mut conn = memory();
        conn.execute_batch("CREATE TABLE meta (a TEXT)").expect("a table");
        let error = refusal(&mut conn, &[VERSION_1], 1);
        assert_eq!(error.detail, "/data/journal.db is a SQLite database of another program: name a file of its own");
        conn.prepare("SELECT * FROM fact").expect_err("nothing was made in it");
    }
}
