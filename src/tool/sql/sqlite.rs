//! SQLite: a file that is there already, opened for reading alone unless declared otherwise, on
//! threads where blocking is allowed. Whoever stops waiting stops the statement.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, TransactionBehavior,
    hooks::{AuthAction, AuthContext, Authorization},
    params_from_iter,
    types::{Value as Cell, ValueRef},
};
use serde_json::{Map, Value};

use super::{KEPT, Plan, Rows, Statement, distinct, fault};
use crate::core::{Fault, FaultKind};

/// How long another process may hold the file.
const BUSY: Duration = Duration::from_secs(5);
/// Steps of SQLite's machine after which it asks whether it should go on.
const STEPS: i32 = 1000;

/// A statement in a file.
#[derive(Debug)]
pub(super) struct Sqlite {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    statement: Statement,
    max_rows: usize,
    write: bool,
    /// Connections that wait for the next call.
    idle: Mutex<Vec<Connection>>,
}

/// Tells the statement that nobody waits for it any more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Sqlite {
    pub(super) fn new(path: PathBuf, plan: &Plan) -> Self {
        let (statement, max_rows, write) = (plan.statement.clone(), plan.max_rows, plan.write);
        Self { inner: Arc::new(Inner { path, statement, max_rows, write, idle: Mutex::default() }) }
    }

    /// Whether the file can be opened and the statement fits its tables.
    pub(super) async fn probe(&self) -> Result<(), Fault> {
        let inner = Arc::clone(&self.inner);
        off_thread(move || {
            let connection = inner.connect()?;
            connection.prepare(inner.statement.sqlite()).map(drop).map_err(failed)
        })
        .await
    }

    pub(super) async fn run(&self, values: Map<String, Value>) -> Result<Rows, Fault> {
        let (inner, given_up) = (Arc::clone(&self.inner), Arc::new(AtomicBool::new(false)));
        let _waiting = Waiting(given_up.clone());
        off_thread(move || inner.run(&values, given_up)).await
    }
}

/// Runs what blocks where that is allowed.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, Fault> + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        let kind = if error.is_panic() { FaultKind::Panic } else { FaultKind::Internal };
        Err(Fault::new(kind, "the work on the database broke off"))
    })
}

impl Inner {
    fn run(&self, values: &Map<String, Value>, given_up: Arc<AtomicBool>) -> Result<Rows, Fault> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let ask = move || given_up.load(Ordering::Relaxed);
        connection.progress_handler(STEPS, Some(ask)).map_err(failed)?;
        let rows = self.query(&mut connection, values).map_err(failed)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connection);
        }
        Ok(rows)
    }

    fn connect(&self) -> Result<Connection, Fault> {
        self.open().map_err(|error| fault(FaultKind::Connection, "the database cannot be opened", error))
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let access = if self.write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        let mut connection = Connection::open_with_flags(&self.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "query_only", !self.write)?;
        let write = self.write;
        connection.authorizer(Some(move |context: AuthContext<'_>| allow(&context.action, write)))?;
        Ok(connection)
    }

    fn query(&self, connection: &mut Connection, values: &Map<String, Value>) -> rusqlite::Result<Rows> {
        let behavior = if self.write { TransactionBehavior::Immediate } else { TransactionBehavior::Deferred };
        let work = connection.transaction_with_behavior(behavior)?;
        let cells = self.statement.names().map(|name| cell(values.get(name)));
        let mut result = Rows::default();
        {
            let mut statement = work.prepare_cached(self.statement.sqlite())?;
            let names = distinct(statement.column_names());
            if names.is_empty() {
                result.affected = Some(statement.execute(params_from_iter(cells))? as u64);
            } else {
                let mut rows = statement.query(params_from_iter(cells))?;
                while let Some(row) = rows.next()? {
                    let values =
                        names.iter().enumerate().map(|(index, name)| Ok((name.clone(), json(row.get_ref(index)?))));
                    // What writes is run to its end, whether or not its rows are wanted.
                    if !result.take(values.collect::<rusqlite::Result<_>>()?, self.max_rows) && !self.write {
                        break;
                    }
                }
            }
        }
        work.commit()?;
        Ok(result)
    }
}

/// What a statement may do: read, and where it is declared also change rows. Never another file,
/// a setting, or the shape of the tables.
const fn allow(action: &AuthAction<'_>, write: bool) -> Authorization {
    match action {
        AuthAction::Read { .. }
        | AuthAction::Select
        | AuthAction::Recursive
        | AuthAction::Function { .. }
        | AuthAction::Transaction { .. } => Authorization::Allow,
        AuthAction::Insert { .. } | AuthAction::Update { .. } | AuthAction::Delete { .. } if write => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

/// An argument as SQLite takes it; lists and objects as their JSON text.
fn cell(value: Option<&Value>) -> Cell {
    match value {
        None | Some(Value::Null) => Cell::Null,
        Some(Value::Bool(flag)) => Cell::Integer(i64::from(*flag)),
        Some(Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Cell::Integer(whole),
            (None, Some(decimal)) => Cell::Real(decimal),
            (None, None) => Cell::Text(number.to_string()),
        },
        Some(Value::String(text)) => Cell::Text(text.clone()),
        Some(value @ (Value::Array(_) | Value::Object(_))) => Cell::Text(value.to_string()),
    }
}

/// A value of SQLite as JSON; bytes as base64, a number that JSON cannot hold as text.
fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(whole) => Value::from(whole),
        ValueRef::Real(decimal) => {
            serde_json::Number::from_f64(decimal).map_or_else(|| Value::from(decimal.to_string()), Value::Number)
        }
        ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Value::from(STANDARD.encode(bytes)),
    }
}

fn failed(error: rusqlite::Error) -> Fault {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => FaultKind::Overloaded,
        Some(ErrorCode::OperationInterrupted) => FaultKind::Timeout,
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => FaultKind::Refused,
        _ => FaultKind::Internal,
    };
    fault(kind, "the statement failed", error)
}

#[cfg(test)]
mod tests;
