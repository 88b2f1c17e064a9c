//! `POST /v1/sessions/{id}/resume`: go on with a session that nobody drives.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};

use super::{Api, auth::Caller, problem::Problem, sessions::find};
use crate::{core::SessionId, session::SessionReport};

/// Resume a session
///
/// Takes up a session that is suspended, or whose process died, and answers with how it stands
/// then. The service does so by itself in rounds; this is for whoever does not want to wait.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/resume", tag = "sessions", operation_id = "resume_session",
    params(("id" = String, Path, description = "The session", example = "sess_00112233445566778899aabbccddeeff")),
    responses(
        (status = 202, description = "It goes on", body = SessionReport),
        (status = 404, description = "There is no such session"),
        (status = 409, description = "It runs, has ended, or waits for a person"),
    )
)]
pub(super) async fn resume(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<SessionReport>), Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    // Whose it is comes first: of a session of somebody else nothing is told.
    find(&api, &caller, session).await?.ok_or_else(|| Problem::no_session(&id))?;
    api.runtime.resume(session).await?;
    let report = find(&api, &caller, session).await?.ok_or_else(|| Problem::no_session(&id))?;
    Ok((StatusCode::ACCEPTED, Json(report)))
}
