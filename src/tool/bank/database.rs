//! The bank's SQLite file: made and filled on first use, read and written with bound parameters.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use crate::core::{Fault, FaultKind};

/// How long another process may hold the file.
const BUSY: Duration = Duration::from_secs(5);
/// `PRAGMA user_version` of a file that is made and filled.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE customers (id TEXT PRIMARY KEY, name TEXT NOT NULL) STRICT;
    CREATE TABLE cards (
        customer_id TEXT PRIMARY KEY REFERENCES customers (id),
        state TEXT NOT NULL CHECK (state IN ('active', 'blocked'))
    ) STRICT;
    CREATE TABLE transactions (
        id INTEGER PRIMARY KEY,
        customer_id TEXT NOT NULL REFERENCES customers (id),
        category TEXT NOT NULL,
        month TEXT NOT NULL,
        amount_kzt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX transactions_by_customer ON transactions (customer_id, category, month);
    CREATE TABLE card_blocks (
        idempotency_key TEXT PRIMARY KEY,
        customer_id TEXT NOT NULL REFERENCES customers (id)
    ) STRICT;
";

const CUSTOMERS: [(&str, &str); 3] = [("C-001", "Aigerim"), ("C-002", "Daniyar"), ("C-003", "Marat")];

/// Customer, category, month, tenge.
const TRANSACTIONS: [(&str, &str, &str, i64); 12] = [
    ("C-001", "taxi", "2026-09", 3200),
    ("C-001", "taxi", "2026-09", 1800),
    ("C-001", "food", "2026-09", 5400),
    ("C-001", "taxi", "2026-08", 2500),
    ("C-001", "food", "2026-08", 7100),
    ("C-001", "utilities", "2026-08", 18_300),
    ("C-002", "taxi", "2026-09", 990),
    ("C-002", "food", "2026-09", 12_650),
    ("C-002", "travel", "2026-07", 84_000),
    ("C-003", "taxi", "2026-09", 1500),
    ("C-003", "taxi", "2026-10", 2100),
    ("C-003", "utilities", "2026-09", 21_750),
];

/// A file that is opened once and then held.
#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    connection: Mutex<Option<Connection>>,
}

/// A sum over transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) count: i64,
    pub(super) total_kzt: i64,
}

impl Database {
    pub(super) const fn at(path: PathBuf) -> Self {
        Self { path, connection: Mutex::new(None) }
    }

    /// Makes and fills the file, unless somebody did. Blocks.
    pub(super) fn make(&self) -> Result<(), Fault> {
        self.with(|_| Ok(()))
    }

    /// What a customer spent. Blocks.
    pub(super) fn sum(&self, customer: &str, category: &str, month: &str) -> Result<Sum, Fault> {
        self.with(|connection| {
            require_customer(connection, customer)?;
            let sql = "SELECT count(*), coalesce(sum(amount_kzt), 0) FROM transactions
                       WHERE customer_id = ?1 AND category = ?2 AND month = ?3";
            let mut statement = connection.prepare_cached(sql).map_err(fault)?;
            statement
                .query_row(params![customer, category, month], |row| {
                    Ok(Sum { count: row.get(0)?, total_kzt: row.get(1)? })
                })
                .map_err(fault)
        })
    }

    /// Blocks a customer's card; the same key again changes nothing more. Blocks the thread.
    pub(super) fn block_card(&self, customer: &str, key: &str) -> Result<(), Fault> {
        self.with(|connection| {
            require_customer(connection, customer)?;
            let work = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
            let insert = "INSERT OR IGNORE INTO card_blocks (idempotency_key, customer_id) VALUES (?1, ?2)";
            if work.execute(insert, params![key, customer]).map_err(fault)? == 1 {
                let update = "UPDATE cards SET state = 'blocked' WHERE customer_id = ?1";
                work.execute(update, params![customer]).map_err(fault)?;
            }
            work.commit().map_err(fault)
        })
    }

    #[cfg(test)]
    pub(super) fn card_state(&self, customer: &str) -> Result<String, Fault> {
        self.with(|connection| {
            let sql = "SELECT state FROM cards WHERE customer_id = ?1";
            connection.query_row(sql, params![customer], |row| row.get(0)).map_err(fault)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        // A panic cannot leave the connection half changed: SQLite rolls back what was not committed.
        let mut held = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match held.take() {
            Some(connection) => connection,
            None => self.open().map_err(fault)?,
        };
        work(held.insert(connection))
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        make_private(&self.path);
        let mut connection = Connection::open(&self.path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        fill(&mut connection)?;
        Ok(connection)
    }
}

/// Makes and fills the tables, unless somebody did.
fn fill(connection: &mut Connection) -> rusqlite::Result<()> {
    let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = work.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 {
        work.execute_batch(TABLES)?;
        for (id, name) in CUSTOMERS {
            work.execute("INSERT INTO customers (id, name) VALUES (?1, ?2)", params![id, name])?;
            work.execute("INSERT INTO cards (customer_id, state) VALUES (?1, 'active')", params![id])?;
        }
        for (customer, category, month, amount) in TRANSACTIONS {
            let sql = "INSERT INTO transactions (customer_id, category, month, amount_kzt) VALUES (?1, ?2, ?3, ?4)";
            work.execute(sql, params![customer, category, month, amount])?;
        }
        work.pragma_update(None, "user_version", VERSION)?;
    }
    work.commit()
}

fn require_customer(connection: &Connection, customer: &str) -> Result<(), Fault> {
    let sql = "SELECT 1 FROM customers WHERE id = ?1";
    let known = connection.query_row(sql, params![customer], |_| Ok(())).optional().map_err(fault)?;
    known.ok_or_else(|| Fault::new(FaultKind::Refused, "the bank knows no customer of this login"))
}

/// Makes a missing file, for its owner alone. What goes wrong here shows when it is opened.
fn make_private(path: &std::path::Path) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn fault(error: rusqlite::Error) -> Fault {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Fault::new(FaultKind::Overloaded, "the bank's database is busy")
        }
        _ => Fault::new(FaultKind::Internal, format!("the bank's database failed: {error}")),
    }
}
