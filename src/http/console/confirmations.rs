//! Calls that wait for a person, each with what it would do, and the decision on it.

use askama::Template;
use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
};
use serde::Deserialize;

use super::{
    content::{self, Shown},
    frame::{Frame, Place},
    look::Moment,
    page,
    posted::{Posted, filled},
    text,
    visitor::Visitor,
};
use crate::{
    core::{SessionId, fact::SessionSummary},
    http::{
        Api,
        auth::Caller,
        confirmations::{self, Said, Word},
        problem::Problem,
    },
    session::PendingConfirmation,
};

#[derive(Template)]
#[template(path = "confirmations.html")]
struct Confirmations {
    f: Frame,
    cards: Vec<Card>,
}

/// One call that waits.
pub(super) struct Card {
    pub(super) session: String,
    /// Whether its session may be looked at.
    pub(super) sees: bool,
    /// Whether it may be decided on.
    pub(super) decides: bool,
    pub(super) call_id: String,
    pub(super) tool: String,
    pub(super) arguments: Shown,
    pub(super) hash: String,
    pub(super) asked: Moment,
    pub(super) expires: Moment,
}

/// A decision as the form sends it.
#[derive(Deserialize)]
pub(super) struct Decision {
    decision: Word,
    comment: Option<String>,
    /// Of the arguments that were shown.
    #[serde(default)]
    hash: String,
    /// Where the form stood.
    #[serde(default)]
    from: String,
}

pub(super) async fn list(State(api): State<Api>, caller: Caller, visitor: Visitor) -> Result<Response, Problem> {
    let card = |(row, call): (SessionSummary, PendingConfirmation)| {
        let decides = confirmations::decides(api.options.access.approvers(), &caller, &row.principal);
        let reads = decides || content::reads(api.options.console.content, &caller, &row.principal);
        Card::new(row.id, &call, caller.may_see(&row.principal), decides, reads)
    };
    let cards = confirmations::waiting(&api, &caller).await?.into_iter().map(card).collect();
    Ok(page(&Confirmations { f: visitor.frame(Place::Confirmations), cards }))
}

pub(super) async fn decide(
    State(api): State<Api>,
    caller: Caller,
    Path((id, call_id)): Path<(String, String)>,
    Posted(decision): Posted<Decision>,
) -> Result<Response, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    // Nobody decides here on what was not shown.
    let hash = decision.hash.parse().map_err(|_| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the form must hold the hash of the arguments that it shows")
    })?;
    let approve = decision.decision == Word::Approve;
    let said = Said { approve, comment: filled(decision.comment), hash: Some(hash) };
    confirmations::settle(&api, &caller, session, call_id, said).await?;
    let to_session = decision.from == "session";
    let next = if to_session { format!("/console/sessions/{session}") } else { "/console/confirmations".to_owned() };
    Ok(Redirect::to(&next).into_response())
}

impl Card {
    pub(super) fn new(session: SessionId, call: &PendingConfirmation, sees: bool, decides: bool, reads: bool) -> Self {
        Self {
            session: session.to_string(),
            sees,
            decides,
            call_id: call.call_id.clone(),
            tool: text::line(&call.tool),
            arguments: Shown::when(reads, || text::json(&call.arguments)),
            hash: call.arguments_hash.to_string(),
            asked: Moment::read(call.requested_at.clone()),
            expires: Moment::read(call.expires_at.clone()),
        }
    }

    /// Where its form goes.
    pub(super) fn action(&self) -> String {
        let call = super::sign_in::escaped(&self.call_id);
        format!("/console/sessions/{}/confirmations/{call}", self.session)
    }
}
