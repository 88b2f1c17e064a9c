//! `/v1/sessions`: begin, list, look at, stop.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::{
        Path, Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Api,
    auth::Caller,
    body::{object, whole},
    idempotency,
    problem::Problem,
    traceparent,
};
use crate::{
    core::{
        Entry, SessionId, SessionStatus, StreamId,
        fact::SessionSummary,
        port::{SessionFilter, StoreError},
    },
    runtime::{Opened, Task},
    session::{SessionReport, SessionRow},
};

/// The body of `POST /v1/sessions`.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Create {
    task: String,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    task_type: Option<String>,
    #[serde(default)]
    conversation_id: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// The query of `POST /v1/sessions`.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    wait: Option<String>,
}

/// The query of `GET /v1/sessions`.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    principal: Option<String>,
    agent: Option<String>,
    conversation_id: Option<String>,
    status: Option<SessionStatus>,
    before: Option<SessionId>,
    limit: Option<usize>,
}

/// `POST /v1/sessions`: 202 and a location; with `?wait=` the report, once it has ended. The same
/// request with the same `Idempotency-Key` gets the same session.
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    query: Result<Query<Wait>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let wait = asked(query)?.wait.as_deref().map(parse_wait).transpose()?;
    let body = whole(body)?;
    let create = read_task(&body)?;
    let task = Task {
        text: create.task.into(),
        agent: create.agent,
        task_type: create.task_type,
        conversation_id: create.conversation_id,
        metadata: create.metadata,
        principal: caller.principal().clone(),
        link: traceparent::link(&headers),
    };
    let (id, handle, replayed) = match idempotency::open(&api.runtime, &headers, task, &body).await? {
        Opened::Now(handle) => (handle.id(), Some(handle), None),
        Opened::Before(id) => (id, api.runtime.find(id), Some([(idempotency::REPLAYED, "true")])),
    };
    if let (Some(wait), Some(mut handle)) = (wait, handle) {
        let limit = wait.min(api.options.request_timeout.mul_f64(0.9));
        // Whether it ended in time or not, the answer is the report as it then stands.
        let _ = tokio::time::timeout(limit, handle.ended()).await;
    }
    let report = find(&api, &caller, id).await?.ok_or_else(|| Problem::no_session(&id.to_string()))?;
    // Who did not ask to wait gets the same answer however fast the session is.
    let ended = wait.is_some() && report.status.is_final();
    let status = if ended { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, replayed, [(header::LOCATION, format!("/v1/sessions/{id}"))], Json(report)).into_response())
}

fn read_task(body: &[u8]) -> Result<Create, Problem> {
    let create: Create = object(body, "the body must be a JSON object with a task")?;
    if create.conversation_id.as_ref().is_some_and(|id| id.trim().is_empty()) {
        let detail = "the conversation_id is empty: name the conversation, or leave it out";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    Ok(create)
}

/// `GET /v1/sessions`: the caller's sessions, newest first; an operator's list is of all, or of one
/// principal, and says whose each is.
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    query: Result<Query<Filter>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let query = asked(query)?;
    let filter = SessionFilter {
        principal: whose(&caller, query.principal)?,
        conversation: query.conversation_id,
        agent: query.agent,
        status: query.status,
        before: query.before,
        limit: query.limit.unwrap_or_default(),
    };
    let sessions = read(&api, move |store| store.sessions(&filter)).await?;
    let row = |session: SessionSummary| {
        let principal = caller.is_operator().then(|| session.principal.clone());
        let mut row = json!(SessionRow::from(session));
        if let Some(principal) = principal {
            row["principal"] = principal.into();
        }
        row
    };
    let rows: Vec<Value> = sessions.into_iter().map(row).collect();
    Ok(Json(json!({ "sessions": rows })))
}

/// Whose sessions are listed: nobody's in particular for an operator who names nobody.
fn whose(caller: &Caller, asked: Option<String>) -> Result<Option<String>, Problem> {
    match asked {
        None if caller.is_operator() => Ok(None),
        None => Ok(Some(caller.id().to_owned())),
        Some(principal) if caller.may_see(&principal) => Ok(Some(principal)),
        Some(_) => Err(Problem::new(StatusCode::FORBIDDEN, "sessions of others are listed for the role operator")),
    }
}

/// `GET /v1/sessions/{id}`
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<SessionReport>, Problem> {
    let report = match id.parse() {
        Ok(session) => find(&api, &caller, session).await?,
        Err(_) => None,
    };
    report.map(Json).ok_or_else(|| Problem::no_session(&id))
}

/// `GET /v1/sessions/{id}/journal`: every fact, in order.
pub(super) async fn journal(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    let entries = load(&api, &caller, session).await?;
    if entries.is_empty() {
        return Err(Problem::no_session(&id));
    }
    let facts: Vec<_> =
        entries.iter().map(|entry| json!({"seq": entry.seq, "at": entry.at.to_string(), "fact": entry.fact})).collect();
    Ok(Json(json!({ "session_id": session, "facts": facts })))
}

/// `POST /v1/sessions/{id}/cancel`: asks it to stop; answers with the report as it then stands.
pub(super) async fn cancel(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    let report = find(&api, &caller, session).await?.ok_or_else(|| Problem::no_session(&id))?;
    if !report.status.is_final() && api.runtime.cancel(session) {
        return Ok((StatusCode::ACCEPTED, Json(report)).into_response());
    }
    if report.status.is_final() {
        return Ok(Json(report).into_response());
    }
    // Nobody drives it here: one that waits is stopped all the same.
    api.runtime.cancel_left(session, caller.id()).await?;
    Ok((StatusCode::ACCEPTED, Json(report)).into_response())
}

/// A session that the caller may see; any other is as none.
pub(super) async fn find(api: &Api, caller: &Caller, id: SessionId) -> Result<Option<SessionReport>, Problem> {
    let report = SessionReport::of(&load(api, caller, id).await?);
    Ok(report.map(|report| if api.runtime.is_held_up(id) { report.held_up() } else { report }))
}

/// The journal of a session that the caller may see; that of any other is empty. Whose a session
/// is stands in its row, so that one of somebody else costs what one that is not there costs.
async fn load(api: &Api, caller: &Caller, id: SessionId) -> Result<Vec<Entry>, Problem> {
    let caller = caller.clone();
    let load = move |store: &dyn crate::core::Store| match store.session(id)? {
        Some(row) if caller.may_see(&row.principal) => store.load(StreamId::Session(id)),
        Some(_) | None => Ok(Vec::new()),
    };
    read(api, load).await
}

/// Reads the store off the async threads.
pub(super) async fn read<T: Send + 'static>(
    api: &Api,
    read: impl FnOnce(&dyn crate::core::Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Problem> {
    let store = api.runtime.store().clone();
    match tokio::task::spawn_blocking(move || read(&*store)).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "reading the journal panicked")),
    }
}

/// The query of a request; a wrong one says which parameter and why.
fn asked<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    query.map(|Query(query)| query).map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))
}

/// `500ms`, `30s` or `1m`.
fn parse_wait(text: &str) -> Result<Duration, Problem> {
    let number = |digits: &str| digits.parse::<u64>().ok();
    let parsed = if let Some(digits) = text.strip_suffix("ms") {
        number(digits).map(Duration::from_millis)
    } else if let Some(digits) = text.strip_suffix('s') {
        number(digits).map(Duration::from_secs)
    } else {
        let minutes = text.strip_suffix('m').and_then(number);
        minutes.and_then(|minutes| minutes.checked_mul(60)).map(Duration::from_secs)
    };
    let detail = "wait must be a whole number with its unit, such as 500ms, 30s or 1m";
    parsed.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_need_their_unit() {
        assert_eq!(parse_wait("30s").ok(), Some(Duration::from_secs(30)));
        assert_eq!(parse_wait("500ms").ok(), Some(Duration::from_millis(500)));
        assert_eq!(parse_wait("2m").ok(), Some(Duration::from_secs(120)));
        assert!(parse_wait("18446744073709551615m").is_err());
        assert!(parse_wait("1h").is_err());
        assert!(parse_wait("30").is_err());
        assert!(parse_wait("-1s").is_err());
        assert!(parse_wait("ms").is_err());
    }
}
