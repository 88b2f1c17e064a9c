//! Hand-overs: what operators have to look at, and what they do with it. To others there is no
//! such page.

use askama::Template;
use axum::{
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
};
use serde::Deserialize;

use super::{
    Room, content,
    frame::{Frame, Place},
    look::{self, Moment, Pill},
    page,
    posted::{Posted, filled},
    query, text,
    visitor::Visitor,
};
use crate::{
    core::{
        Timestamp,
        handover::{Handover, HandoverAction, HandoverFilter, HandoverStatus, OperatorWord},
    },
    http::{Api, auth::Caller, handovers, problem::Problem},
};

/// Hand-overs of one page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "handovers.html")]
struct Handovers {
    f: Frame,
    asked: Asked,
    statuses: Vec<(&'static str, &'static str)>,
    rows: Vec<Row>,
    /// The next page, where there is one.
    older: Option<String>,
}

struct Row {
    id: String,
    status: Pill,
    cause: &'static str,
    tool: String,
    /// One phrase, where the visitor reads texts of its session.
    detail: Option<String>,
    session: String,
    short: String,
    /// Whether its session is gone.
    erased: bool,
    agent: String,
    principal: String,
    opened: Moment,
    /// How long it stands, or stood until it was closed.
    age: String,
    /// What operators did, with the word for it.
    marks: Vec<(&'static str, Mark)>,
    claimable: bool,
    closable: bool,
}

/// What an operator did.
struct Mark {
    by: String,
    at: Moment,
    comment: String,
}

/// The filter as the form sends it; what is left empty is none.
#[derive(Deserialize, Default)]
pub(super) struct Asked {
    #[serde(default)]
    status: String,
    /// The one that a session's page leads to.
    #[serde(default)]
    id: String,
    #[serde(default)]
    before: String,
}

/// An operator's word as the form sends it.
#[derive(Deserialize)]
pub(super) struct Word {
    action: HandoverAction,
    comment: Option<String>,
    /// What the list showed that the form stood in.
    #[serde(default)]
    status: String,
    #[serde(default)]
    id: String,
}

pub(super) async fn list(
    State(room): State<Room>,
    caller: Caller,
    visitor: Visitor,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    enter(&caller)?;
    let found = found(&room.api, &caller, &asked).await?;
    let f = visitor.frame(Place::Handovers);
    let more = found.len() > PAGE;
    let older = found.get(PAGE - 1).filter(|_| more).map(|last| asked.address(&last.id.to_string()));
    let now = room.door.now();
    let reads = |owner: &str| content::reads(room.api.options.console.content, &caller, owner);
    let row = |handover: Handover| {
        let reads = handover.principal.as_deref().is_some_and(reads);
        Row::of(&f, now, reads, handover)
    };
    let rows = found.into_iter().take(PAGE).map(row).collect();
    let statuses = HandoverStatus::ALL.map(|status| (status.label(), look::handover(f.t, status).word)).to_vec();
    Ok(page(&Handovers { f, asked, statuses, rows, older }))
}

pub(super) async fn handle(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Posted(word): Posted<Word>,
) -> Result<Response, Problem> {
    enter(&caller)?;
    handovers::settle(&api, &caller, &id, word.action, filled(word.comment)).await?;
    let shown = Asked { status: word.status, id: word.id, before: String::new() };
    Ok(Redirect::to(&shown.address("")).into_response())
}

/// Whoever does not work on hand-overs finds nothing here.
fn enter(caller: &Caller) -> Result<(), Problem> {
    handovers::allow(caller).map_err(|_| Problem::plain(StatusCode::NOT_FOUND))
}

async fn found(api: &Api, caller: &Caller, asked: &Asked) -> Result<Vec<Handover>, Problem> {
    if !asked.id.is_empty() {
        return Ok(vec![handovers::one(api, caller, &asked.id).await?]);
    }
    let wrong = || Problem::new(StatusCode::BAD_REQUEST, "there is no such status");
    let status = Some(asked.status.as_str()).filter(|word| !word.is_empty());
    let status = status.map(|word| HandoverStatus::ALL.into_iter().find(|one| one.label() == word).ok_or_else(wrong));
    let before = Some(asked.before.as_str()).filter(|id| !id.is_empty()).map(handovers::named);
    // One more than is shown says whether there is a further page.
    let filter = HandoverFilter { status: status.transpose()?, before: before.transpose()?, limit: PAGE + 1 };
    handovers::listed(api, caller, filter).await
}

impl Asked {
    /// This list from another place on.
    fn address(&self, before: &str) -> String {
        let query = query([("status", self.status.as_str()), ("id", &self.id), ("before", before)]);
        let joint = if query.is_empty() { "" } else { "?" };
        format!("/console/handovers{joint}{query}")
    }
}

impl Row {
    fn of(f: &Frame, now: Timestamp, reads: bool, handover: Handover) -> Self {
        let status = handover.status();
        let session = handover.id.session.to_string();
        let until = handover.closed.as_ref().map_or(now, |word| word.at);
        let claimed = handover.claimed.map(|word| (f.t.handover_claimed, Mark::of(word)));
        let closed = handover.closed.map(|word| (f.t.handover_closed, Mark::of(word)));
        let detail = handover.detail.filter(|_| reads);
        Self {
            id: handover.id.to_string(),
            status: look::handover(f.t, status),
            cause: handover.cause.label(),
            tool: handover.tool.as_deref().map(text::line).unwrap_or_default(),
            detail: detail.map(|detail| text::line(detail.expose())),
            short: session.chars().take(17).collect(),
            session,
            erased: handover.erased,
            agent: text::line(&handover.agent),
            principal: handover.principal.as_deref().map(text::line).unwrap_or_default(),
            age: look::age(f.t, until.since(handover.opened)),
            opened: Moment::of(handover.opened),
            marks: claimed.into_iter().chain(closed).collect(),
            claimable: status == HandoverStatus::Open,
            closable: status != HandoverStatus::Closed,
        }
    }
}

impl Mark {
    fn of(word: OperatorWord) -> Self {
        let comment = word.comment.map(|comment| text::line(comment.expose())).unwrap_or_default();
        Self { by: text::line(word.by.expose()), at: Moment::of(word.at), comment }
    }
}
