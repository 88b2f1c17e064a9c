//! A tool that is one statement in a database, declared and not programmed.
//!
//! The statement is fixed when it is declared; arguments are bound parameters and are never part
//! of its text. It reads only, unless it is declared to write. It must never know retries: an
//! attempt is one transaction.

mod postgres;
mod sqlite;
mod statement;

use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::template;
use crate::core::{
    Fault, FaultKind, Sensitive, Tool, ToolSpec,
    port::{ToolContext, ToolReply},
};

use self::{postgres::Postgres, sqlite::Sqlite};

pub use self::statement::Statement;

/// Rows of a result at the most, unless configured otherwise.
pub const DEFAULT_MAX_ROWS: usize = 100;
/// Connections that are kept for the next call.
const KEPT: usize = 4;

/// A statement with named parameters, and where it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where.
    pub database: Database,
    /// What.
    pub statement: Statement,
    /// Rows of a result at the most; of more, the result says so.
    pub max_rows: usize,
    /// Whether it may change something.
    pub write: bool,
}

/// Where a statement runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Database {
    /// A file of SQLite; it must be there.
    Sqlite(PathBuf),
    /// A server of Postgres, as an address with everything in it.
    Postgres(Sensitive<String>),
}

/// What is wrong with the way to a database.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address of a server.
    #[error("the address of the Postgres server cannot be read; it must be like postgres://user@host:5432/name")]
    Address,
    /// What an address says of TLS, one phrase.
    #[error("the address of the Postgres server {0}")]
    Tls(String),
}

/// The tool.
#[derive(Debug)]
pub struct SqlTool {
    spec: ToolSpec,
    server: Server,
}

#[derive(Debug)]
enum Server {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

/// What a statement gave.
#[derive(Debug, Default, PartialEq)]
struct Rows {
    rows: Vec<Map<String, Value>>,
    /// Whether there are more than were asked for.
    more: bool,
    /// How many rows it changed, where it has no result.
    affected: Option<u64>,
}

impl SqlTool {
    /// A tool that runs this statement. Nothing is opened before the first call.
    ///
    /// # Errors
    /// Where the address of a server cannot be read.
    pub fn new(spec: ToolSpec, plan: Plan) -> Result<Self, Error> {
        let server = match &plan.database {
            Database::Sqlite(path) => Server::Sqlite(Sqlite::new(path.clone(), &plan)),
            Database::Postgres(address) => Server::Postgres(Box::new(Postgres::new(address, &plan, spec.timeout)?)),
        };
        Ok(Self { spec, server })
    }
}

#[async_trait]
impl Tool for SqlTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> &'static str {
        "sql"
    }

    async fn probe(&self) -> Result<(), Fault> {
        match &self.server {
            Server::Sqlite(sqlite) => sqlite.probe().await,
            Server::Postgres(postgres) => postgres.probe().await,
        }
    }

    async fn call(&self, cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
        let values = template::values(cx, arguments);
        let rows = match &self.server {
            Server::Sqlite(sqlite) => sqlite.run(values).await?,
            Server::Postgres(postgres) => postgres.run(&values).await?,
        };
        Ok(ToolReply::Json(rows.into_json()))
    }
}

impl Rows {
    fn into_json(self) -> Value {
        if let Some(affected) = self.affected {
            return json!({ "affected": affected });
        }
        let mut result = json!({ "rows": self.rows });
        if self.more {
            result["more"] = json!(true);
        }
        result
    }

    /// Takes a row; says whether another one is wanted.
    fn take(&mut self, row: Map<String, Value>, most: usize) -> bool {
        self.more = self.rows.len() == most;
        if !self.more {
            self.rows.push(row);
        }
        !self.more
    }
}

/// Names of columns, made different from each other: `n`, `n_2`.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        let mut candidate = name.to_owned();
        let mut number = 2;
        while distinct.contains(&candidate) {
            candidate = format!("{name}_{number}");
            number += 1;
        }
        distinct.push(candidate);
    }
    distinct
}

fn fault(kind: FaultKind, what: &str, why: impl std::fmt::Display) -> Fault {
    Fault::new(kind, format!("{what}: {why}"))
}
