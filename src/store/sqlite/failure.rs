//! What SQLite and the file system say went wrong, as a store error that names the file. It
//! must never know what was being written: no text of a fact gets into an error.

use std::{io, path::Path};

use rusqlite::{ErrorCode, ffi};

use crate::{
    core::port::{StoreError, StoreErrorKind},
    store::error,
};

/// Why work on the file stopped: SQLite's word, or ours.
#[derive(Debug)]
pub(super) enum Failure {
    /// SQLite's.
    Sqlite(rusqlite::Error),
    /// Ours, complete.
    Store(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// The error for the outside; `doing` goes before the file's name (`cannot read /a/b: ...`).
    pub(super) fn at(self, path: &Path, doing: &str) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sqlite(sqlite) => {
                let (kind, reason) = reason(&sqlite);
                error(kind, format!("cannot {doing} {}: {reason}", path.display()))
            }
        }
    }

    /// Whether only the write that met it is to blame, and others beside it may stand.
    pub(super) fn is_of_one_write(&self) -> bool {
        match self {
            Self::Store(_) => true,
            Self::Sqlite(error) => {
                matches!(error.sqlite_error_code(), Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig))
            }
        }
    }
}

/// The kind and the words of an SQLite error.
fn reason(error: &rusqlite::Error) -> (StoreErrorKind, String) {
    let rusqlite::Error::SqliteFailure(code, _) = error else {
        return (StoreErrorKind::Io, error.to_string());
    };
    let (kind, words) = match code.code {
        ErrorCode::DiskFull => (StoreErrorKind::Full, "no room on the disk"),
        // The index of the log could not grow, which is a full disk by another name.
        ErrorCode::SystemIoFailure if code.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
            (StoreErrorKind::Full, "no room on the disk")
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => (StoreErrorKind::ReadOnly, "it cannot be written"),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            (StoreErrorKind::Busy, "another process holds it for too long")
        }
        ErrorCode::ConstraintViolation => (StoreErrorKind::Conflict, "the place is taken"),
        ErrorCode::NotADatabase => (StoreErrorKind::Io, "it is no SQLite database"),
        ErrorCode::DatabaseCorrupt => (StoreErrorKind::Io, "it is damaged"),
        _ => return (StoreErrorKind::Io, format!("{error} (SQLite error {})", code.extended_code)),
    };
    (kind, words.to_owned())
}

/// An error of the file system.
pub(super) fn of_file_system(path: &Path, doing: &str, cause: &io::Error) -> StoreError {
    let kind = match cause.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreErrorKind::Full,
        _ => StoreErrorKind::Io,
    };
    error(kind, format!("cannot {doing} {}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: i32) -> StoreErrorKind {
        reason(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).0
    }

    #[test]
    fn each_code_of_sqlite_has_its_kind() {
        assert_eq!(kind(ffi::SQLITE_FULL), StoreErrorKind::Full);
        assert_eq!(kind(ffi::SQLITE_IOERR_SHMSIZE), StoreErrorKind::Full);
        assert_eq!(kind(ffi::SQLITE_IOERR_FSYNC), StoreErrorKind::Io);
        assert_eq!(kind(ffi::SQLITE_READONLY), StoreErrorKind::ReadOnly);
        assert_eq!(kind(ffi::SQLITE_BUSY), StoreErrorKind::Busy);
        assert_eq!(kind(ffi::SQLITE_BUSY_SNAPSHOT), StoreErrorKind::Busy);
        assert_eq!(kind(ffi::SQLITE_CONSTRAINT_PRIMARYKEY), StoreErrorKind::Conflict);
        assert_eq!(kind(ffi::SQLITE_CORRUPT), StoreErrorKind::Io);
    }

    #[test]
    fn an_error_of_the_file_system_names_the_path_and_the_kind() {
        let cause = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        let error = of_file_system(Path::new("/data/j.db"), "create", &cause);
        assert_eq!(error.kind, StoreErrorKind::ReadOnly);
        assert_eq!(error.detail, "cannot create /data/j.db: read-only filesystem or storage medium");
    }
}
