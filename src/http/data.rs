//! What is kept of sessions, handed out or removed for good: `DELETE /v1/sessions/{id}` and
//! `/v1/principals/{id}`.

use std::{io, sync::Arc};

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::{
    Api,
    auth::Caller,
    problem::Problem,
    sessions::{find, read},
};
use crate::{
    core::{SessionId, Store, fact::EraseCause},
    runtime::Erasure,
    session::{all_ids, export as export_session},
};

/// JSON, one value a line.
const JSON_LINES: &str = "application/x-ndjson";
/// Pieces of an export that wait for a slow reader.
const AHEAD: usize = 4;
/// Bytes of a piece from which it is sent.
const PIECE: usize = 32 * 1024;

/// What is gone.
#[derive(Serialize, ToSchema)]
pub(super) struct Erased {
    /// How many sessions.
    erased: u64,
}

/// Erase a session
///
/// For good, from the store and its files.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "data", operation_id = "erase_session",
    params(("id" = String, Path, description = "The session", example = "sess_00112233445566778899aabbccddeeff")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is no such session"),
        (status = 409, description = "It runs"),
    )
)]
pub(super) async fn erase_session(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    if find(&api, &caller, session).await?.is_none() {
        return Err(Problem::no_session(&id));
    }
    let erasure = erase(&api, vec![session]).await?;
    if !erasure.held.is_empty() {
        return Err(Problem::new(StatusCode::CONFLICT, "the session runs; cancel it and wait for its end"));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Erase all sessions of a principal
///
/// For the principal itself and for operators. Where some of them run, all others are gone, and
/// `running` of the problem lists those.
#[utoipa::path(
    delete, path = "/v1/principals/{id}", tag = "data", operation_id = "erase_principal",
    params(("id" = String, Path, description = "The principal", example = "C-001")),
    responses(
        (status = 200, description = "They are gone", body = Erased),
        (status = 403, description = "The caller is neither the principal nor an operator"),
        (status = 409, description = "Some of them run"),
    )
)]
pub(super) async fn erase_principal(
    State(api): State<Api>,
    caller: Caller,
    Path(principal): Path<String>,
) -> Result<Json<Erased>, Problem> {
    allow(&caller, &principal)?;
    let ids = read(&api, move |store| all_ids(store, Some(&principal))).await?;
    let Erasure { erased, held } = erase(&api, ids).await?;
    if held.is_empty() {
        return Ok(Json(Erased { erased }));
    }
    let running: Vec<_> = held.iter().map(|held| held.session.to_string()).collect();
    let problem = Problem::new(StatusCode::CONFLICT, "some sessions run; cancel them and ask again after their end");
    Err(problem.with("erased", erased).with("running", running))
}

/// Export all sessions of a principal
///
/// One JSON value a line: a header for each session, its facts, the texts that they name.
#[utoipa::path(
    get, path = "/v1/principals/{id}/export", tag = "data", operation_id = "export_principal",
    params(("id" = String, Path, description = "The principal", example = "C-001")),
    responses(
        (status = 200, description = "All of them", body = String, content_type = "application/x-ndjson"),
        (status = 403, description = "The caller is neither the principal nor an operator"),
    )
)]
pub(super) async fn export_principal(
    State(api): State<Api>,
    caller: Caller,
    Path(principal): Path<String>,
) -> Result<Response, Problem> {
    allow(&caller, &principal)?;
    let ids = read(&api, move |store| all_ids(store, Some(&principal))).await?;
    let (sender, mut pieces) = mpsc::channel(AHEAD);
    let store = Arc::clone(api.runtime.store());
    tokio::task::spawn_blocking(move || send_all(&*store, &ids, &sender));
    let pieces = stream::poll_fn(move |context| pieces.poll_recv(context));
    Ok(([(header::CONTENT_TYPE, JSON_LINES)], Body::from_stream(pieces)).into_response())
}

async fn erase(api: &Api, sessions: Vec<SessionId>) -> Result<Erasure, Problem> {
    api.runtime.erase(sessions, EraseCause::Request).await.map_err(|error| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the journal cannot erase: {error}")).retry_after(5)
    })
}

/// Only the principal itself, or an operator.
fn allow(caller: &Caller, principal: &str) -> Result<(), Problem> {
    if caller.may_see(principal) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "this is for the principal itself and for the role operator"))
}

/// Sends the lines in pieces. An error cuts the answer short, so that nobody takes it for whole.
fn send_all(store: &dyn Store, ids: &[SessionId], sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut piece = Vec::with_capacity(PIECE);
    let send = |piece: &mut Vec<u8>| {
        let full = Bytes::from(std::mem::take(piece));
        sender.blocking_send(Ok(full)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    };
    for id in ids {
        let written = export_session(store, *id, &mut |line| {
            piece.extend_from_slice(line.as_bytes());
            piece.push(b'\n');
            if piece.len() < PIECE { Ok(()) } else { send(&mut piece) }
        });
        if let Err(error) = written {
            // Whoever went away hears nothing of it.
            let _ = sender.blocking_send(Err(io::Error::other(error)));
            return;
        }
    }
    // The same holds for the last piece.
    let _ = send(&mut piece);
}
