//! `/v1/circuits`: how the circuit breakers stand, and an operator's switches.

use std::time::Duration;

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
    why::Why,
};
use crate::{
    core::{
        Sensitive,
        circuit::{CircuitId, CircuitKind},
    },
    policy::{Act, Standing},
};

/// The longest time that a switch can be set for; without a time it stays until it is reset.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// What an operator does with a circuit breaker.
#[derive(Deserialize, ToSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schema(as = Switch, example = json!({"action": "force_open", "for": "10m"}))]
struct Asked {
    /// How it is held, or that it begins anew.
    action: Action,
    /// For how long, up to 720h; until it is reset, if left out. Not with `reset`.
    #[serde(default, rename = "for")]
    hold: Option<String>,
}

/// How a circuit breaker is held, or that it begins anew.
#[derive(Deserialize, ToSchema, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schema(as = SwitchAction)]
pub(super) enum Action {
    ForceOpen,
    ForceClosed,
    Reset,
}

/// All circuit breakers, by kind and name.
#[derive(Serialize, ToSchema)]
pub(super) struct Circuits {
    circuits: Vec<Standing>,
}

/// How the circuit breakers stand
#[utoipa::path(
    get, path = "/v1/circuits", tag = "circuits", operation_id = "list_circuits",
    responses((status = 200, description = "All of them", body = Circuits))
)]
pub(super) async fn list(State(api): State<Api>) -> Json<Circuits> {
    Json(Circuits { circuits: api.runtime.circuits().standings() })
}

/// Hold a circuit breaker, or let it begin anew
///
/// For operators. Answers with how it stands then, once that is kept.
#[utoipa::path(
    post, path = "/v1/circuits/{kind}/{name}", tag = "circuits", operation_id = "switch_circuit",
    params(
        ("kind" = CircuitKind, Path, description = "What it guards"),
        ("name" = String, Path, description = "The name of that", example = "txn_sum"),
    ),
    request_body(content = Asked, content_type = "application/json"),
    responses(
        (status = 200, description = "How it stands now", body = Standing),
        (status = 403, description = "The caller is no operator"),
        (status = 404, description = "There is no such circuit breaker"),
    )
)]
pub(super) async fn switch(
    State(api): State<Api>,
    caller: Caller,
    Path((kind, name)): Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Standing>, Problem> {
    check_right(&caller)?;
    let act = read(&whole(body)?)?;
    hold(&api, &caller, &kind, name, act).await.map(Json)
}

/// Does what an operator asks for; gives how the circuit stands then, once that is kept.
pub(super) async fn hold(api: &Api, caller: &Caller, kind: &str, name: String, act: Act) -> Result<Standing, Problem> {
    check_right(caller)?;
    let circuit = CircuitKind::of_label(kind).map(|kind| CircuitId { kind, name });
    let switched = circuit.and_then(|circuit| api.runtime.switch_circuit(&circuit, act, Sensitive::from(caller.id())));
    let Some(standing) = switched else {
        let detail = "there is no such circuit; GET /v1/circuits lists them";
        return Err(Problem::new(StatusCode::NOT_FOUND, detail).because(Why::NoCircuit));
    };
    api.runtime.system_flushed().await?;
    Ok(standing)
}

fn check_right(caller: &Caller) -> Result<(), Problem> {
    if caller.is_operator() {
        return Ok(());
    }
    let detail = "a circuit is switched by someone with the role operator";
    Err(Problem::new(StatusCode::FORBIDDEN, detail).because(Why::OnlyOperators))
}

fn read(body: &[u8]) -> Result<Act, Problem> {
    let right = "the body must be {\"action\": \"force_open\" | \"force_closed\" | \"reset\", \"for\": \"10m\"}";
    let asked: Asked = object(body, right)?;
    act(asked.action, asked.hold.as_deref())
}

/// What is asked for, with the time that it is held for.
pub(super) fn act(action: Action, hold: Option<&str>) -> Result<Act, Problem> {
    match (action, hold.map(parse_hold).transpose()?) {
        (Action::ForceOpen, hold) => Ok(Act::ForceOpen(hold)),
        (Action::ForceClosed, hold) => Ok(Act::ForceClosed(hold)),
        (Action::Reset, None) => Ok(Act::Reset),
        (Action::Reset, Some(_)) => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "reset lets the circuit begin anew at once, it takes no \"for\"",
        )),
    }
}

/// `10m`, `90s`, `2h`: above zero and up to thirty days.
fn parse_hold(text: &str) -> Result<Duration, Problem> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
    let bounded = parsed.filter(|hold| !hold.is_zero() && *hold <= LONGEST);
    bounded.ok_or_else(|| {
        let detail = "for must be a time with its unit, such as 90s, 10m or 2h, up to 720h";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_says_what_and_for_how_long() {
        let ten_minutes = Some(Duration::from_secs(600));
        assert_eq!(read(br#"{"action": "force_open", "for": "10m"}"#).ok(), Some(Act::ForceOpen(ten_minutes)));
        assert_eq!(read(br#"{"action": "force_closed"}"#).ok(), Some(Act::ForceClosed(None)));
        assert_eq!(read(br#"{"action": "reset"}"#).ok(), Some(Act::Reset));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for body in [
            "",
            "[]",
            r#"["reset"]"#,
            "{}",
            r#"{"action": "open"}"#,
            r#"{"action": "reset", "for": "10m"}"#,
            r#"{"action": "force_open", "for": "10"}"#,
            r#"{"action": "force_open", "for": "-10m"}"#,
            r#"{"action": "force_open", "for": "0s"}"#,
            r#"{"action": "force_open", "for": "721h"}"#,
            r#"{"action": "force_open", "for": 600}"#,
            r#"{"action": "force_open", "until": "10m"}"#,
        ] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
