//! Calls that wait for a person: what waits, and the decision on one of them.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Api,
    auth::Caller,
    body::{object, whole},
    problem::Problem,
    sessions::read,
};
use crate::{
    config::Approvers,
    core::{
        BlobHash, SessionId, SessionStatus, StreamId,
        fact::SessionSummary,
        port::{SessionFilter, StoreError},
    },
    machine,
    runtime::NotDecided,
    session::{Objection, Say, SessionReport},
};

/// Sessions whose calls are listed at the most.
const LISTED: usize = 1000;

/// The body of a decision.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Decide {
    decision: Word,
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    arguments_hash: Option<BlobHash>,
}

#[derive(Deserialize, Debug, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Word {
    Approve,
    Deny,
}

/// `POST /v1/sessions/{id}/confirmations/{call_id}`
pub(super) async fn decide(
    State(api): State<Api>,
    caller: Caller,
    Path((id, call_id)): Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let right = "the body must be a JSON object with a decision, approve or deny";
    let decide: Decide = object(&whole(body)?, right)?;
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    check_right(&api, &caller, session, &call_id).await?;
    let say = Say {
        call_id,
        approve: decide.decision == Word::Approve,
        by: caller.id().into(),
        comment: decide.comment.map(Into::into),
        arguments_hash: decide.arguments_hash,
    };
    let decided = api.runtime.decide(session, say).await.map_err(refusal)?.decided;
    Ok(Json(json!({
        "session_id": session,
        "call_id": decided.call_id,
        "decision": decided.decision,
        "decided_at": decided.at.to_string(),
    })))
}

/// `GET /v1/confirmations`: what waits in sessions that the caller may see or decide on, the newest
/// session first. Of the sessions of others it shows the calls that wait and nothing else.
pub(super) async fn list(State(api): State<Api>, caller: Caller) -> Result<Json<Value>, Problem> {
    let approves = caller.is_approver() && api.options.auth.approvers != Approvers::Owner;
    let filter = SessionFilter {
        principal: (!approves && !caller.is_operator()).then(|| caller.id().to_owned()),
        limit: LISTED,
        status: Some(SessionStatus::AwaitingConfirmation),
        ..SessionFilter::default()
    };
    let waiting = read(&api, move |store| {
        let rows = store.sessions(&filter)?;
        rows.iter().map(|row| pending(store, row)).collect::<Result<Vec<_>, StoreError>>()
    });
    let confirmations: Vec<Value> = waiting.await?.into_iter().flatten().collect();
    Ok(Json(json!({ "confirmations": confirmations })))
}

/// Whether the caller may decide on this call. Whoever may neither see the session nor decide on it
/// hears that there is none.
async fn check_right(api: &Api, caller: &Caller, session: SessionId, call_id: &str) -> Result<(), Problem> {
    let none = || Problem::no_session(&session.to_string());
    let row = read(api, move |store| store.session(session)).await?.ok_or_else(none)?;
    let (owns, sees) = (caller.id() == row.principal, caller.may_see(&row.principal));
    let decides = match api.options.auth.approvers {
        Approvers::Owner => owns,
        Approvers::Role => caller.is_approver() && !owns,
        Approvers::Both => caller.is_approver() || owns,
    };
    if !decides && sees {
        return Err(Problem::new(StatusCode::FORBIDDEN, who_decides(api.options.auth.approvers)));
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

fn pending(store: &dyn crate::core::Store, row: &SessionSummary) -> Result<Vec<Value>, StoreError> {
    let report = SessionReport::of(&store.load(StreamId::Session(row.id))?);
    let pending = report.map(|report| report.pending_confirmations).unwrap_or_default();
    Ok(pending.into_iter().map(|call| with_session(row.id, json!(call))).collect())
}

fn with_session(id: SessionId, mut call: Value) -> Value {
    call["session_id"] = json!(id);
    call
}

fn refusal(why: NotDecided) -> Problem {
    let detail = why.to_string();
    match why {
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
    }
}
