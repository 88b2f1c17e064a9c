//! `/v1/handovers`: what operators have to look at, and what they do with it.

use axum::{
    Json,
    body::Bytes,
    extract::{
        Path, Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    auth::Caller,
    body::{asked, object, whole},
    problem::Problem,
    why::Why,
};
use crate::{
    core::{
        Sensitive,
        handover::{Handover, HandoverAction, HandoverFilter, HandoverId, HandoverObjection, HandoverStatus},
    },
    runtime::NotHandled,
    session::HandoverReport,
};

/// Letters of a comment at the most.
const LONGEST: usize = 2000;

/// The query of `GET /v1/handovers`.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only those that stand so.
    #[param(inline)]
    status: Option<HandoverStatus>,
    /// Only those that were opened before this one: the last of the page before.
    #[param(value_type = Option<String>, pattern = "^hand_[0-9a-f]{32}_[0-9]+$")]
    before: Option<HandoverId>,
    /// At the most; 0 or nothing means 100.
    #[param(minimum = 0, maximum = 1_000_000)]
    limit: Option<usize>,
}

/// An operator's word on a hand-over.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = HandOverWord, example = json!({"action": "claim", "comment": "I call the customer"}))]
struct Asked {
    /// Takes it on, or is done with it.
    action: HandoverAction,
    /// What there is to say to it; gone when its session is erased.
    #[serde(default)]
    #[schema(max_length = 2000)]
    comment: Option<String>,
}

/// Some hand-overs, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Shown {
    handovers: Vec<HandoverReport>,
}

/// Hand-overs
///
/// For operators. What a person has to look at: sessions that ended without their answer, and
/// calls that may or may not have happened. Newest first, in pages.
#[utoipa::path(
    get, path = "/v1/handovers", tag = "handovers", operation_id = "list_handovers",
    params(Filter),
    responses(
        (status = 200, description = "A page of them", body = Shown),
        (status = 403, description = "The caller is no operator"),
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    query: Result<Query<Filter>, QueryRejection>,
) -> Result<Json<Shown>, Problem> {
    allow(&caller)?;
    let query = asked(query)?;
    let filter = HandoverFilter { status: query.status, before: query.before, limit: query.limit.unwrap_or_default() };
    let handovers = listed(&api, &caller, filter).await?;
    Ok(Json(Shown { handovers: handovers.into_iter().map(HandoverReport::from).collect() }))
}

/// Claim or close a hand-over
///
/// For operators. Of two who claim at once, one hears that it came second. Asking again with the
/// same word changes nothing. What another works on can be closed, not claimed.
#[utoipa::path(
    post, path = "/v1/handovers/{id}", tag = "handovers", operation_id = "handle_handover",
    params(("id" = String, Path, description = "The hand-over", example = "hand_00112233445566778899aabbccddeeff_12")),
    request_body(content = Asked, content_type = "application/json"),
    responses(
        (status = 200, description = "How it stands now", body = HandoverReport),
        (status = 403, description = "The caller is no operator"),
        (status = 404, description = "There is no such hand-over"),
        (status = 409, description = "Another operator has claimed it, or it is closed"),
    )
)]
pub(super) async fn handle(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<HandoverReport>, Problem> {
    allow(&caller)?;
    let word = read(&whole(body)?)?;
    Ok(Json(settle(&api, &caller, &id, word.action, word.comment).await?.into()))
}

/// Some hand-overs, if the caller works on them.
pub(super) async fn listed(api: &Api, caller: &Caller, filter: HandoverFilter) -> Result<Vec<Handover>, Problem> {
    allow(caller)?;
    Ok(api.runtime.handovers(filter).await?)
}

/// One of them, if the caller works on them.
pub(super) async fn one(api: &Api, caller: &Caller, id: &str) -> Result<Handover, Problem> {
    allow(caller)?;
    let found = api.runtime.handover(named(id)?).await?;
    found.ok_or_else(|| none(id))
}

/// Takes the caller's word on a hand-over, if the caller works on them.
pub(super) async fn settle(
    api: &Api,
    caller: &Caller,
    id: &str,
    action: HandoverAction,
    comment: Option<String>,
) -> Result<Handover, Problem> {
    allow(caller)?;
    let comment = bounded(comment)?;
    api.runtime.handle_handover(named(id)?, action, caller.id().into(), comment).await.map_err(refusal)
}

fn read(body: &[u8]) -> Result<Asked, Problem> {
    object(body, "the body must be a JSON object with an action, claim or close")
}

fn bounded(comment: Option<String>) -> Result<Option<Sensitive<String>>, Problem> {
    if comment.as_ref().is_some_and(|comment| comment.chars().count() > LONGEST) {
        let detail = format!("the comment is too long: at most {LONGEST} letters");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).because(Why::LongComment(LONGEST)));
    }
    Ok(comment.map(Into::into))
}

/// The identifier that a caller wrote.
pub(super) fn named(id: &str) -> Result<HandoverId, Problem> {
    id.parse().map_err(|_| none(id))
}

/// Whether the caller works on hand-overs.
pub(super) fn allow(caller: &Caller) -> Result<(), Problem> {
    if caller.is_operator() {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "hand-overs are for the role operator").because(Why::OnlyOperators))
}

fn none(id: &str) -> Problem {
    let shown: String = id.chars().take(64).collect();
    Problem::new(StatusCode::NOT_FOUND, format!("there is no hand-over {shown:?}")).because(Why::NoHandover)
}

fn refusal(why: NotHandled) -> Problem {
    let (detail, because) = (why.to_string(), Why::of_handover(&why));
    let problem = match why {
        NotHandled::Unknown(id) => none(&id.to_string()),
        NotHandled::Objection(HandoverObjection::Claimed { .. }) => {
            Problem::new(StatusCode::CONFLICT, detail).with("handover_status", HandoverStatus::Claimed.label())
        }
        NotHandled::Objection(HandoverObjection::Closed { .. }) => {
            Problem::new(StatusCode::CONFLICT, detail).with("handover_status", HandoverStatus::Closed.label())
        }
        NotHandled::Store(error) => error.into(),
    };
    problem.because(because)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_an_action_and_perhaps_a_comment() {
        let word = read(br#"{"action": "claim"}"#).expect("a claim");
        assert_eq!((word.action, word.comment), (HandoverAction::Claim, None));
        for wrong in ["", "{}", r#"{"action": "open"}"#, r#"{"action": "claim", "by": "me"}"#] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_comment_has_2000_letters_at_the_most() {
        assert_eq!(bounded(None).ok(), Some(None));
        let letters = |count: usize| bounded(Some("я".repeat(count)));
        assert_eq!(letters(2000).ok(), Some(Some("я".repeat(2000).into())));
        assert!(letters(2001).is_err());
    }
}
