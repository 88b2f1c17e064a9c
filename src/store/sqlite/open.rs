//! From a path to connections that are set up: the folder and the file are made if missing, the
//! file readable by its owner only. It must never know what is kept in it.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
    sync::{Mutex, PoisonError},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::core::port::{StoreError, StoreErrorKind};

use super::{
    Options,
    failure::{Failure, of_file_system},
    schema,
};
use crate::store::error;

/// Statements that a connection keeps prepared; there are about forty, and sixteen lists.
const PREPARED: usize = 64;

/// Pages of the log file after which it is copied into the database: 16 MiB. Pages that change
/// often are copied the more seldom.
const LOG_PAGES: i64 = 4096;

/// Bytes that the log file keeps after a burst.
const LOG_BYTES: i64 = 64 * 1024 * 1024;

/// Pages that a connection which reads keeps: lists and journals go through once, and the system
/// has the file in its own cache. Two MiB a connection, the usual, is memory for little.
const READER_CACHE_KIB: i64 = 512;

/// Held while a file is made and opened. Closing any handle of a file drops the locks that this
/// process has on it (POSIX), so no other thread may have it open when the new one is closed.
static OPENING: Mutex<()> = Mutex::new(());

/// The connection that writes, on a file of this version.
pub(super) fn writer(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    make_file(path)?;
    let prepared = connect(path, options).map_err(Failure::from).and_then(|mut conn| {
        if conn.is_readonly(c"main")? {
            return Err(error(StoreErrorKind::ReadOnly, format!("{} cannot be written", path.display())).into());
        }
        set_up_writer(&conn, options)?;
        schema::prepare(&mut conn, path)?;
        Ok(conn)
    });
    prepared.map_err(|failure| blame_folder(path, failure.at(path, "open")))
}

/// A connection that reads.
pub(super) fn reader(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let opened = connect(path, options).and_then(|conn| {
        conn.pragma_update(None, "query_only", true)?;
        conn.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
        Ok(conn)
    });
    opened.map_err(|cause| Failure::from(cause).at(path, "open"))
}

fn connect(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    // Without CREATE: SQLite would make the file readable by others.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(PREPARED);
    conn.pragma_update(None, "foreign_keys", true)?;
    // Else SQLite plans a statement anew each time that another value is bound to it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(conn)
}

fn set_up_writer(conn: &Connection, options: &Options) -> Result<(), Failure> {
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(error(StoreErrorKind::Io, "the file system cannot share memory, which the journal needs").into());
    }
    conn.pragma_update(None, "synchronous", options.synchronous.word())?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // What moves inside a page leaves no copy behind, so that an erased session is gone from the
    // pages of others too. It costs no further writing.
    conn.pragma_update_and_check(None, "secure_delete", "FAST", |_| Ok(()))?;
    conn.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
    conn.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES, |_| Ok(()))?;
    Ok(())
}

/// Makes the folder and an empty file where there is none, and makes their names durable.
fn make_file(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Err(error(StoreErrorKind::Io, format!("{} is a folder: name a file in it", path.display())));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|cause| of_file_system(folder, "create the folder", &cause))?;
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => fs::File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|cause| of_file_system(folder, "make durable", &cause)),
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(of_file_system(path, "create", &cause)),
    }
}

/// SQLite only says that it cannot open a file when it may not put its log beside it. Where no
/// file can be made in the folder, that is the better reason.
fn blame_folder(path: &Path, failure: StoreError) -> StoreError {
    let trial = path.with_extension("trial");
    if failure.kind != StoreErrorKind::Io || trial.exists() {
        return failure;
    }
    match fs::OpenOptions::new().write(true).create_new(true).open(&trial) {
        Ok(_) => {
            // An empty file that stays does no harm, and the reason to report is another.
            let _ = fs::remove_file(&trial);
            failure
        }
        Err(cause) => of_file_system(path, "open", &cause),
    }
}
