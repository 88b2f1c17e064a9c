//! `/v1/sessions`: begin, list, look at, stop.

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{
        Path, Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    auth::Caller,
    body::{asked, object, whole},
    feed, idempotency,
    problem::Problem,
    quota, traceparent, wait,
    why::Why,
};
use crate::{
    core::{
        Entry, Fact, SessionId, SessionStatus, StreamId,
        fact::SessionSummary,
        port::{SessionFilter, StoreError},
    },
    runtime::{Opened, Task},
    session::{SessionReport, SessionRow},
};

/// A task for an agent.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = Task, example = json!({"task": "Сколько я потратил на такси в сентябре?"}))]
struct Create {
    /// What is asked.
    #[schema(min_length = 1)]
    task: String,
    /// One of the declared agents; the only one, if left out.
    #[serde(default)]
    agent: Option<String>,
    /// One of the agent's kinds of task; its default, as `GET /v1/agents` tells it, if left out.
    #[serde(default)]
    task_type: Option<String>,
    /// The conversation that it continues.
    #[serde(default)]
    #[schema(min_length = 1)]
    conversation_id: Option<String>,
    /// Anything to be found again in the session's report.
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
}

/// The query of `POST /v1/sessions`.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wait {
    /// Wait so long for the end of the session.
    #[param(pattern = "^[0-9]+(ms|s|m)$", example = "30s")]
    wait: Option<String>,
}

/// The query of `GET /v1/sessions`.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only sessions of this principal; of others, for operators.
    principal: Option<String>,
    /// Only sessions of this agent.
    agent: Option<String>,
    /// Only sessions of this kind of task.
    task_type: Option<String>,
    /// Only sessions of this conversation.
    conversation_id: Option<String>,
    /// Only sessions that stand so.
    #[param(inline)]
    status: Option<SessionStatus>,
    /// Only sessions that began before this one: the last of the page before.
    #[param(value_type = Option<String>, pattern = "^sess_[0-9a-f]{32}$")]
    before: Option<SessionId>,
    /// At the most; 0 or nothing means 100.
    #[param(minimum = 0, maximum = 1_000_000)]
    limit: Option<usize>,
}

/// Some sessions, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Sessions {
    sessions: Vec<Listed>,
}

/// One of them.
#[derive(Serialize, ToSchema)]
struct Listed {
    #[serde(flatten)]
    row: SessionRow,
    /// Whose it is, for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
}

/// The facts of a session.
#[derive(Serialize, ToSchema)]
pub(super) struct Journal {
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// All of them, in order.
    facts: Vec<JournalEntry>,
}

/// A fact at its place.
#[derive(Serialize, ToSchema)]
pub(super) struct JournalEntry {
    /// The place, from 0, without gaps.
    seq: u64,
    /// When it was recorded.
    #[schema(format = DateTime)]
    at: String,
    /// The name of the fact, and what it says.
    #[schema(value_type = Object, example = json!({"cancel_requested": {"by": "C-001"}}))]
    fact: Fact,
}

impl From<Entry> for JournalEntry {
    fn from(entry: Entry) -> Self {
        Self { seq: entry.seq, at: entry.at.to_rfc3339_nanos(), fact: entry.fact }
    }
}

/// Begin a session
///
/// Answers as soon as the session is kept, with its place in `location`; with `wait`, when it
/// has ended or the time is over. With `Accept: text/event-stream` the answer is the stream of
/// its facts, as at `/v1/sessions/{id}/events`; the session goes on if the reader leaves. The same
/// request with the same `Idempotency-Key` gets the same session.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", operation_id = "begin_session",
    params(
        Wait,
        ("Idempotency-Key" = Option<String>, Header, description = "Begins one session, however often it comes",
            min_length = 1, max_length = 255, pattern = "^[!-~]+$"),
    ),
    request_body(content = Create, content_type = "application/json"),
    responses(
        (status = 200, description = "It has ended within the time to wait; or the stream of its facts", content(
            (SessionReport = "application/json"), (String = "text/event-stream")
        ), headers(
            ("location" = String, description = "The place of the session"),
            ("ratelimit-policy" = String, description = "The limits of the caller, if there are any"),
            ("ratelimit" = String, description = "What is left of them"),
        )),
        (status = 202, description = "It runs", body = SessionReport,
            headers(
                ("location" = String, description = "The place of the session"),
                ("ratelimit-policy" = String, description = "The limits of the caller, if there are any"),
                ("ratelimit" = String, description = "What is left of them"),
            )),
        (status = 404, description = "The conversation is not the caller's"),
        (status = 409, description = "The conversation has a session that has not ended, the `session_id`"),
        (status = 429, description = "The caller has begun as many sessions in the last hour as it may, or as many of it run"),
    )
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    query: Result<Query<Wait>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let (told, who) = (api.clone(), caller.clone());
    quota::tell(&told, who.id(), begin(api, caller, query, headers, body).await.into_response()).await
}

async fn begin(
    api: Api,
    caller: Caller,
    query: Result<Query<Wait>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let wait = asked(query)?.wait.as_deref().map(wait::parse).transpose()?;
    let streams = feed::is_wanted(&headers);
    if streams && wait.is_some() {
        let detail = "a stream is not waited for: leave out wait, or ask for application/json";
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let body = whole(body)?;
    let create = read_task(&body)?;
    let task = Task {
        text: create.task.into(),
        agent: create.agent,
        task_type: create.task_type,
        conversation_id: create.conversation_id,
        metadata: create.metadata,
        principal: caller.principal().clone(),
        upstream: traceparent::upstream(&headers, api.options.access.joins_trace_of(caller.id())),
    };
    let (id, handle, hour, replayed) = match idempotency::open(&api.runtime, &headers, task, &body).await? {
        Opened::Now(handle, hour) => (handle.id(), Some(handle), hour.map(Extension), None),
        Opened::Before(id) => (id, api.runtime.find(id), None, Some([(idempotency::REPLAYED, "true")])),
    };
    let place = [(header::LOCATION, format!("/v1/sessions/{id}"))];
    if streams {
        return Ok((replayed, place, hour, feed::follow(api, id)).into_response());
    }
    if let (Some(wait), Some(mut handle)) = (wait, handle) {
        let limit = wait.min(api.options.request_timeout.mul_f64(0.9));
        // Whether it ended in time or not, the answer is the report as it then stands.
        let _ = tokio::time::timeout(limit, handle.ended()).await;
    }
    let report = find(&api, &caller, id).await?.ok_or_else(|| Problem::no_session(&id.to_string()))?;
    // Who did not ask to wait gets the same answer however fast the session is.
    let ended = wait.is_some() && report.status.is_final();
    let status = if ended { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, replayed, place, hour, Json(report)).into_response())
}

fn read_task(body: &[u8]) -> Result<Create, Problem> {
    let create: Create = object(body, "the body must be a JSON object with a task")?;
    if create.conversation_id.as_ref().is_some_and(|id| id.trim().is_empty()) {
        let detail = "the conversation_id is empty: name the conversation, or leave it out";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    Ok(create)
}

/// The caller's sessions
///
/// Newest first, in pages. An operator's list is of all, or of one principal, and says whose each
/// is.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", operation_id = "list_sessions",
    params(Filter),
    responses(
        (status = 200, description = "A page of them", body = Sessions),
        (status = 403, description = "Sessions of others are listed for operators"),
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    query: Result<Query<Filter>, QueryRejection>,
) -> Result<Json<Sessions>, Problem> {
    let query = asked(query)?;
    let filter = SessionFilter {
        principal: whose(&caller, query.principal)?,
        conversation: query.conversation_id,
        agent: query.agent,
        task_type: query.task_type,
        status: query.status,
        before: query.before,
        limit: query.limit.unwrap_or_default(),
    };
    let sessions = read(&api, move |store| store.sessions(&filter)).await?;
    let row = |session: SessionSummary| Listed {
        principal: caller.is_operator().then(|| session.principal.clone()),
        row: SessionRow::from(session),
    };
    Ok(Json(Sessions { sessions: sessions.into_iter().map(row).collect() }))
}

/// Whose sessions are listed: nobody's in particular for an operator who names nobody.
pub(super) fn whose(caller: &Caller, asked: Option<String>) -> Result<Option<String>, Problem> {
    match asked {
        None if caller.is_operator() => Ok(None),
        None => Ok(Some(caller.id().to_owned())),
        Some(principal) if caller.may_see(&principal) => Ok(Some(principal)),
        Some(_) => {
            let detail = "sessions of others are listed for the role operator";
            Err(Problem::new(StatusCode::FORBIDDEN, detail).because(Why::OthersSessions))
        }
    }
}

/// One session
#[utoipa::path(
    get, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "show_session",
    params(("id" = String, Path, description = "The session", example = "sess_00112233445566778899aabbccddeeff")),
    responses(
        (status = 200, description = "How it stands", body = SessionReport),
        (status = 404, description = "There is no such session"),
    )
)]
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

/// The journal of a session
///
/// Every fact, in order.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/journal", tag = "sessions", operation_id = "read_session_journal",
    params(("id" = String, Path, description = "The session", example = "sess_00112233445566778899aabbccddeeff")),
    responses(
        (status = 200, description = "All facts so far", body = Journal),
        (status = 404, description = "There is no such session"),
    )
)]
pub(super) async fn journal(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Journal>, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    let entries = load(&api, &caller, session).await?;
    if entries.is_empty() {
        return Err(Problem::no_session(&id));
    }
    let facts = entries.into_iter().map(JournalEntry::from).collect();
    Ok(Json(Journal { session_id: session, facts }))
}

/// Cancel a session
///
/// Asks it to stop, and answers with how it stands then.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/cancel", tag = "sessions", operation_id = "cancel_session",
    params(("id" = String, Path, description = "The session", example = "sess_00112233445566778899aabbccddeeff")),
    responses(
        (status = 200, description = "It had ended already", body = SessionReport),
        (status = 202, description = "It is asked to stop", body = SessionReport),
        (status = 404, description = "There is no such session"),
        (status = 409, description = "Another process drives it"),
    )
)]
pub(super) async fn cancel(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    let (status, report) = stop(&api, &caller, session).await?;
    Ok((status, Json(report)).into_response())
}

/// Asks a session of the caller to stop; gives how it stood then.
pub(super) async fn stop(
    api: &Api,
    caller: &Caller,
    session: SessionId,
) -> Result<(StatusCode, SessionReport), Problem> {
    let report = find(api, caller, session).await?.ok_or_else(|| Problem::no_session(&session.to_string()))?;
    if report.status.is_final() {
        return Ok((StatusCode::OK, report));
    }
    if !api.runtime.cancel(session) {
        // Nobody drives it here: one that waits is stopped all the same.
        api.runtime.cancel_left(session, caller.id()).await?;
    }
    Ok((StatusCode::ACCEPTED, report))
}

/// A session that the caller may see; any other is as none.
pub(super) async fn find(api: &Api, caller: &Caller, id: SessionId) -> Result<Option<SessionReport>, Problem> {
    let report = SessionReport::of(&load(api, caller, id).await?);
    Ok(report.map(|report| if api.runtime.is_held_up(id) { report.held_up() } else { report }))
}

/// The journal of a session that the caller may see; that of any other is empty. Whose a session
/// is stands in its row, so that one of somebody else costs what one that is not there costs.
pub(super) async fn load(api: &Api, caller: &Caller, id: SessionId) -> Result<Vec<Entry>, Problem> {
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
