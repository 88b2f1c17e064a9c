//! Postgres: one transaction an attempt, read-only unless declared otherwise, with the server's
//! own limit of time, on a few kept connections. A lost one is replaced by the next call.

mod result;
mod tls;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio_postgres::{CancelToken, Client, Config, error::SqlState, types::ToSql};

use self::{
    result::{Argument, Shape},
    tls::Tls,
};
use super::{Error, KEPT, Plan, Rows, Statement, fault};
use crate::core::{Fault, FaultKind, Sensitive};

/// After this a server is not there; the attempt's own timeout stands above it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A statement on a server.
pub(super) struct Postgres {
    server: Config,
    tls: Tls,
    statement: Statement,
    max_rows: usize,
    write: bool,
    timeout: Duration,
    /// Connections that wait for the next call.
    idle: Mutex<Vec<Connected>>,
}

/// A connection, and the statement as it was prepared on it.
struct Connected {
    client: Client,
    shape: Option<Shape>,
}

/// A statement that runs; the server is told to stop it where nobody waits any more.
struct Running(Option<(CancelToken, Tls)>);

impl Drop for Running {
    fn drop(&mut self) {
        if let (Some((token, tls)), Ok(handle)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            handle.spawn(async move { token.cancel_query(tls).await });
        }
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("statement", &self.statement).finish_non_exhaustive()
    }
}

impl Postgres {
    pub(super) fn new(address: &Sensitive<String>, plan: &Plan, timeout: Duration) -> Result<Self, Error> {
        let (mut server, tls) = tls::parse(address.expose())?;
        if server.get_connect_timeout().is_none() {
            server.connect_timeout(CONNECT_TIMEOUT);
        }
        if server.get_application_name().is_none() {
            server.application_name("glassbox");
        }
        let (statement, max_rows, write) = (plan.statement.clone(), plan.max_rows, plan.write);
        Ok(Self { server, tls, statement, max_rows, write, timeout, idle: Mutex::default() })
    }

    /// Whether the server lets us in and takes the statement.
    pub(super) async fn probe(&self) -> Result<(), Fault> {
        let mut connected = self.connect().await?;
        let shape = Shape::prepare(&connected.client, &self.statement, self.write, self.max_rows).await;
        connected.shape = Some(shape.map_err(|error| failed(&error))?);
        self.keep(connected);
        Ok(())
    }

    pub(super) async fn run(&self, values: &Map<String, Value>) -> Result<Rows, Fault> {
        let mut connected = match self.take_idle() {
            Some(connected) => connected,
            None => self.connect().await?,
        };
        let mut running = Running(Some((connected.client.cancel_token(), self.tls.clone())));
        let result = self.transaction(&mut connected, values).await;
        running.0 = None;
        match result {
            Ok(rows) => {
                self.keep(connected);
                Ok(rows)
            }
            Err(error) => {
                if error.as_db_error().is_some() && connected.client.batch_execute("rollback").await.is_ok() {
                    // The tables may have changed under what was prepared.
                    self.keep(Connected { shape: None, ..connected });
                }
                Err(failed(&error))
            }
        }
    }

    async fn transaction(
        &self,
        connected: &mut Connected,
        values: &Map<String, Value>,
    ) -> Result<Rows, tokio_postgres::Error> {
        let Connected { client, shape } = connected;
        let access = if self.write { "read write" } else { "read only" };
        let millis = self.timeout.as_millis();
        client.batch_execute(&format!("begin {access}; set local statement_timeout = {millis}")).await?;
        let shape = match shape {
            Some(shape) => shape,
            None => shape.insert(Shape::prepare(client, &self.statement, self.write, self.max_rows).await?),
        };
        let arguments: Vec<Argument> = self.statement.names().map(|name| Argument::new(values.get(name))).collect();
        let arguments: Vec<&(dyn ToSql + Sync)> = arguments.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let rows = shape.run(client, &arguments, self.max_rows).await?;
        client.batch_execute("commit").await?;
        Ok(rows)
    }

    fn take_idle(&self) -> Option<Connected> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connected| !connected.client.is_closed());
        idle.pop()
    }

    fn keep(&self, connected: Connected) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connected);
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a connection outlives the call and belongs to no trace")]
    async fn connect(&self) -> Result<Connected, Fault> {
        let (client, connection) = self.server.connect(self.tls.clone()).await.map_err(|error| {
            // Nothing was asked yet, whatever else went wrong.
            let kind = if is_login(&error) { FaultKind::Auth } else { FaultKind::Connection };
            fault(kind, "no connection to the database", words(&error))
        })?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(target: "glassbox::tool", %error, "a connection to Postgres was lost");
            }
        });
        Ok(Connected { client, shape: None })
    }
}

fn is_login(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("28"))
}

/// What Postgres says, without the address, which may hold a credential.
fn words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    }
}

fn failed(error: &tokio_postgres::Error) -> Fault {
    let Some(code) = error.code() else {
        let kind = if error.is_closed() || std::error::Error::source(error).is_some_and(|s| s.is::<std::io::Error>()) {
            FaultKind::Transport
        } else {
            FaultKind::Internal
        };
        return fault(kind, "the statement failed", words(error));
    };
    let kind = if *code == SqlState::QUERY_CANCELED {
        FaultKind::Timeout
    } else {
        match &code.code()[..2] {
            "08" | "57" => FaultKind::Transport,
            "40" | "53" | "55" => FaultKind::Overloaded,
            // Data that does not fit, and rules of the tables.
            "22" | "23" => FaultKind::Refused,
            "28" => FaultKind::Auth,
            _ => FaultKind::Internal,
        }
    };
    fault(kind, "the statement failed", words(error))
}
