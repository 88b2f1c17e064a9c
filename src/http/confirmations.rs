//! Calls that wait for a person: what waits, and the decision on one of them.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    auth::Caller,
    body::{object, whole},
    problem::Problem,
    sessions::read,
    why::Why,
};
use crate::{
    config::Approvers,
    core::{
        BlobHash, SessionId, SessionStatus, StreamId,
        fact::{Decision, SessionSummary},
        port::{SessionFilter, StoreError},
    },
    machine,
    runtime::NotDecided,
    session::{self, Objection, PendingConfirmation, Say, SessionReport},
};

/// Sessions whose calls are listed at the most.
const LISTED: usize = 1000;

/// A person's word on a call.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"decision": "approve"}))]
struct Decide {
    /// Whether it may run.
    decision: Word,
    /// Why; the model reads it where the call is denied.
    #[serde(default)]
    comment: Option<String>,
    /// The hash of the arguments that were shown; another one is refused.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^sha256:[0-9a-f]{64}$")]
    arguments_hash: Option<BlobHash>,
}

/// Yes or no.
#[derive(Deserialize, ToSchema, Debug, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Approve,
    Deny,
}

/// What was decided.
#[derive(Serialize, ToSchema)]
pub(super) struct Decided {
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// The call.
    call_id: String,
    /// What was decided.
    #[schema(value_type = String)]
    decision: Decision,
    /// When, RFC 3339.
    #[schema(format = DateTime)]
    decided_at: String,
}

/// Calls that wait for a person.
#[derive(Serialize, ToSchema)]
pub(super) struct Confirmations {
    confirmations: Vec<Pending>,
}

/// A call that waits for a person, and its session.
#[derive(Serialize, ToSchema)]
struct Pending {
    #[serde(flatten)]
    call: PendingConfirmation,
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
}

/// Decide on a call
///
/// What runs after a yes is byte for byte what was shown.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/confirmations/{call_id}", tag = "confirmations", operation_id = "decide_confirmation",
    params(
        ("id" = String, Path, description = "The session", example = "sess_00112233445566778899aabbccddeeff"),
        ("call_id" = String, Path, description = "The call", example = "call_1"),
    ),
    request_body(content = Decide, content_type = "application/json"),
    responses(
        (status = 200, description = "Decided; asking again with the same word changes nothing", body = Decided),
        (status = 403, description = "Others decide on this"),
        (status = 404, description = "There is no such session, or no such call in it"),
        (status = 409, description = "It is decided otherwise, too late, or not about these arguments"),
    )
)]
pub(super) async fn decide(
    State(api): State<Api>,
    caller: Caller,
    Path((id, call_id)): Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Decided>, Problem> {
    let right = "the body must be a JSON object with a decision, approve or deny";
    let decide: Decide = object(&whole(body)?, right)?;
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    let said = Said { approve: decide.decision == Word::Approve, comment: decide.comment, hash: decide.arguments_hash };
    let decided = settle(&api, &caller, session, call_id, said).await?;
    Ok(Json(Decided {
        session_id: session,
        call_id: decided.call_id,
        decision: decided.decision,
        decided_at: decided.at.to_string(),
    }))
}

/// What a person says to a call.
pub(super) struct Said {
    pub(super) approve: bool,
    pub(super) comment: Option<String>,
    /// Of the arguments that were shown.
    pub(super) hash: Option<BlobHash>,
}

/// Takes the caller's word on a call, if it is the caller's to say.
pub(super) async fn settle(
    api: &Api,
    caller: &Caller,
    session: SessionId,
    call_id: String,
    said: Said,
) -> Result<session::Decided, Problem> {
    check_right(api, caller, session, &call_id).await?;
    let say = Say {
        call_id,
        approve: said.approve,
        by: caller.id().into(),
        comment: said.comment.map(Into::into),
        arguments_hash: said.hash,
    };
    Ok(api.runtime.decide(session, say).await.map_err(refusal)?.decided)
}

/// Calls that wait for a person
///
/// Those of sessions that the caller may see or decide on, of the newest session first. Of the
/// sessions of others it shows the calls that wait and nothing else.
#[utoipa::path(
    get, path = "/v1/confirmations", tag = "confirmations", operation_id = "list_confirmations",
    responses((status = 200, description = "All of them", body = Confirmations))
)]
pub(super) async fn list(State(api): State<Api>, caller: Caller) -> Result<Json<Confirmations>, Problem> {
    let show = |(row, call): (SessionSummary, PendingConfirmation)| Pending { call, session_id: row.id };
    let waiting = waiting(&api, &caller).await?;
    Ok(Json(Confirmations { confirmations: waiting.into_iter().map(show).collect() }))
}

/// The calls that wait and that the caller may hear of, each with the session that it belongs to.
pub(super) async fn waiting(api: &Api, caller: &Caller) -> Result<Vec<(SessionSummary, PendingConfirmation)>, Problem> {
    let approves = caller.is_approver() && api.options.access.approvers() != Approvers::Owner;
    let filter = SessionFilter {
        principal: (!approves && !caller.is_operator()).then(|| caller.id().to_owned()),
        limit: LISTED,
        status: Some(SessionStatus::AwaitingConfirmation),
        ..SessionFilter::default()
    };
    let waiting = read(api, move |store| {
        let rows = store.sessions(&filter)?;
        rows.into_iter().map(|row| pending(store, row)).collect::<Result<Vec<_>, StoreError>>()
    });
    Ok(waiting.await?.into_iter().flatten().collect())
}

/// Whether the caller decides on calls of a session of this principal.
pub(super) fn decides(approvers: Approvers, caller: &Caller, owner: &str) -> bool {
    let owns = caller.id() == owner;
    match approvers {
        Approvers::Owner => owns,
        Approvers::Role => caller.is_approver() && !owns,
        Approvers::Both => caller.is_approver() || owns,
    }
}

/// Whether the caller may decide on this call. Whoever may neither see the session nor decide on it
/// hears that there is none.
async fn check_right(api: &Api, caller: &Caller, session: SessionId, call_id: &str) -> Result<(), Problem> {
    let none = || Problem::no_session(&session.to_string());
    let row = read(api, move |store| store.session(session)).await?.ok_or_else(none)?;
    let sees = caller.may_see(&row.principal);
    let decides = decides(api.options.access.approvers(), caller, &row.principal);
    if !decides && sees {
        let who = who_decides(api.options.access.approvers());
        return Err(Problem::new(StatusCode::FORBIDDEN, who).because(Why::MayNotDecide));
    }
    if !decides || (!sees && !was_asked(api, session, call_id.to_owned()).await?) {
        return Err(none());
    }
    Ok(())
}

const fn who_decides(approvers: Approvers) -> &'static str {
    match approvers {
        Approvers::Owner => "this is decided by the principal of the session itself",
        Approvers::Role => "this is decided by someone else with the role approver",
        Approvers::Both => {
            "this is decided by the principal of the session itself, or by someone with the role approver"
        }
    }
}

/// Whether the session asked for this call: of others' sessions an approver knows no more.
async fn was_asked(api: &Api, session: SessionId, call_id: String) -> Result<bool, Problem> {
    let entries = read(api, move |store| store.load(StreamId::Session(session))).await?;
    Ok(machine::State::fold(&entries).confirmation(&call_id).is_some())
}

fn pending(
    store: &dyn crate::core::Store,
    row: SessionSummary,
) -> Result<Vec<(SessionSummary, PendingConfirmation)>, StoreError> {
    let report = SessionReport::of(&store.load(StreamId::Session(row.id))?);
    let pending = report.map(|report| report.pending_confirmations).unwrap_or_default();
    Ok(pending.into_iter().map(|call| (row.clone(), call)).collect())
}

fn refusal(why: NotDecided) -> Problem {
    let (detail, because) = (why.to_string(), Why::of_decision(&why));
    let problem = match why {
        NotDecided::Unknown(id) => Problem::no_session(&id.to_string()),
        NotDecided::Objection(Objection::NotAsked(_)) => Problem::new(StatusCode::NOT_FOUND, detail),
        NotDecided::Objection(Objection::Decided { decision, .. }) => {
            Problem::new(StatusCode::CONFLICT, detail).with("decision", decision.label())
        }
        NotDecided::Objection(Objection::Expired(_)) => {
            Problem::new(StatusCode::CONFLICT, detail).with("decision", "expired")
        }
        NotDecided::Objection(Objection::OtherArguments { waiting, .. }) => {
            Problem::new(StatusCode::CONFLICT, detail).with("arguments_hash", waiting.to_string())
        }
        NotDecided::Busy(_) => Problem::new(StatusCode::CONFLICT, detail).retry_after(1),
        NotDecided::NotResumed(why) => why.into(),
    };
    problem.because(because)
}
