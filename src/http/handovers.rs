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
    body::{object, whole},
    problem::Problem,
    sessions::asked,
};
use crate::{
    core::handover::{HandoverAction, HandoverFilter, HandoverId, HandoverObjection, HandoverStatus},
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
    let handovers = api.runtime.handovers(filter).await?;
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
    let id: HandoverId = id.parse().map_err(|_| none(&id))?;
    let comment = word.comment.map(Into::into);
    let handled = api.runtime.handle_handover(id, word.action, caller.id().into(), comment).await;
    handled.map(|handover| Json(handover.into())).map_err(refusal)
}

fn read(body: &[u8]) -> Result<Asked, Problem> {
    let word: Asked = object(body, "the body must be a JSON object with an action, claim or close")?;
    if word.comment.as_ref().is_some_and(|comment| comment.chars().count() > LONGEST) {
        let detail = format!("the comment is too long: at most {LONGEST} letters");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    Ok(word)
}

fn allow(caller: &Caller) -> Result<(), Problem> {
    if caller.is_operator() {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "hand-overs are for the role operator"))
}

fn none(id: &str) -> Problem {
    let shown: String = id.chars().take(64).collect();
    Problem::new(StatusCode::NOT_FOUND, format!("there is no hand-over {shown:?}"))
}

fn refusal(why: NotHandled) -> Problem {
    let detail = why.to_string();
    match why {
        NotHandled::Unknown(id) => none(&id.to_string()),
        NotHandled::Objection(HandoverObjection::Claimed { .. }) => {
            Problem::new(StatusCode::CONFLICT, detail).with("handover_status", HandoverStatus::Claimed.label())
        }
        NotHandled::Objection(HandoverObjection::Closed { .. }) => {
            Problem::new(StatusCode::CONFLICT, detail).with("handover_status", HandoverStatus::Closed.label())
        }
        NotHandled::Store(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_an_action_and_perhaps_a_comment() {
        let word = read(br#"{"action": "claim"}"#).expect("a claim");
        assert_eq!((word.action, word.comment), (HandoverAction::Claim, None));
        let longest = format!(r#"{{"action": "close", "comment": "{}"}}"#, "я".repeat(LONGEST));
        assert!(read(longest.as_bytes()).is_ok());
        for wrong in [
            "",
            "{}",
            r#"{"action": "open"}"#,
            r#"{"action": "claim", "by": "me"}"#,
            &format!(r#"{{"action": "close", "comment": "{}"}}"#, "я".repeat(LONGEST + 1)),
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
