//! The list of sessions with its filters, and the form that begins one.

use std::collections::BTreeSet;

use askama::Template;
use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
};
use serde::Deserialize;
use serde_json::Map;

use super::{
    frame::{Frame, Place},
    look::{self, Moment, Pill},
    page,
    posted::{Posted, filled},
    query, text,
    visitor::Visitor,
};
use crate::{
    core::{SessionStatus, fact::SessionSummary, port::SessionFilter},
    http::{
        Api,
        auth::Caller,
        problem::Problem,
        sessions::{read, whose},
    },
    runtime::Task,
    session::Upstream,
};

/// Sessions of one page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "sessions.html")]
struct Sessions {
    f: Frame,
    asked: Asked,
    statuses: Vec<(&'static str, &'static str)>,
    agents: Vec<Choice>,
    /// Of all agents, each once.
    task_types: BTreeSet<String>,
    is_operator: bool,
    rows: Vec<Row>,
    /// The next page, where there is one.
    older: Option<String>,
}

/// An agent to choose, and the kinds of task that it takes.
struct Choice {
    name: String,
    task_types: Vec<String>,
}

struct Row {
    id: String,
    short: String,
    status: Pill,
    reason: &'static str,
    agent: String,
    task_type: String,
    conversation: String,
    principal: String,
    steps: u32,
    started: Moment,
    lasted: String,
}

/// The filter as the form sends it; what is left empty is none.
#[derive(Deserialize, Default)]
pub(super) struct Asked {
    #[serde(default)]
    status: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    task_type: String,
    #[serde(default)]
    conversation: String,
    #[serde(default)]
    principal: String,
    #[serde(default)]
    before: String,
}

/// The form that begins a session.
#[derive(Deserialize)]
pub(super) struct New {
    #[serde(default)]
    task: String,
    agent: Option<String>,
    task_type: Option<String>,
    conversation: Option<String>,
}

pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    visitor: Visitor,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let filter = filter(&caller, &asked)?;
    let sessions = read(&api, move |store| store.sessions(&filter)).await?;
    let (f, t) = (visitor.frame(Place::Sessions), visitor.words());
    let more = sessions.len() > PAGE;
    let older = sessions.get(PAGE - 1).filter(|_| more).map(|last| asked.address(&last.id.to_string()));
    let rows = sessions.into_iter().take(PAGE).map(|row| Row::of(&f, row)).collect();
    let choice =
        |agent: &crate::session::Agent| Choice { name: agent.name.clone(), task_types: agent.task_types.clone() };
    let agents: Vec<_> = api.runtime.agents().values().map(|agent| choice(agent)).collect();
    let task_types = agents.iter().flat_map(|agent| agent.task_types.iter().cloned()).collect();
    let statuses = SessionStatus::ALL.iter().map(|status| (status.label(), look::status(t, *status).word)).collect();
    Ok(page(&Sessions { f, asked, statuses, agents, task_types, is_operator: caller.is_operator(), rows, older }))
}

pub(super) async fn begin(
    State(api): State<Api>,
    caller: Caller,
    Posted(new): Posted<New>,
) -> Result<Response, Problem> {
    let task = Task {
        text: new.task.into(),
        agent: filled(new.agent),
        task_type: filled(new.task_type),
        conversation_id: filled(new.conversation),
        metadata: Map::new(),
        principal: caller.principal().clone(),
        upstream: Upstream::None,
    };
    let handle = api.runtime.open(task).await?;
    Ok(Redirect::to(&format!("/console/sessions/{}", handle.id())).into_response())
}

fn filter(caller: &Caller, asked: &Asked) -> Result<SessionFilter, Problem> {
    let wrong = |what: &str| Problem::new(StatusCode::BAD_REQUEST, format!("there is no such {what}"));
    let given = |text: &String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let status = given(&asked.status).map(|word| {
        let found = SessionStatus::ALL.iter().find(|status| status.label() == word);
        found.copied().ok_or_else(|| wrong("status"))
    });
    let before = given(&asked.before).map(|id| id.parse().map_err(|_| Problem::no_session(&id)));
    Ok(SessionFilter {
        principal: whose(caller, given(&asked.principal))?,
        conversation: given(&asked.conversation),
        agent: given(&asked.agent),
        task_type: given(&asked.task_type),
        status: status.transpose()?,
        before: before.transpose()?,
        // One more than is shown says whether there is a further page.
        limit: PAGE + 1,
    })
}

impl Asked {
    /// Whether anything is asked for besides a place.
    fn is_narrow(&self) -> bool {
        let fields = [&self.status, &self.agent, &self.task_type, &self.conversation, &self.principal];
        fields.iter().any(|field| !field.is_empty())
    }

    /// This list from another place on.
    fn address(&self, before: &str) -> String {
        let query = query([
            ("status", self.status.as_str()),
            ("agent", &self.agent),
            ("task_type", &self.task_type),
            ("conversation", &self.conversation),
            ("principal", &self.principal),
            ("before", before),
        ]);
        format!("/console?{query}")
    }
}

impl Row {
    fn of(f: &Frame, row: SessionSummary) -> Self {
        let id = row.id.to_string();
        Self {
            short: id.chars().take(17).collect(),
            id,
            status: look::status(f.t, row.status),
            reason: row.reason.map_or("", |reason| reason.label()),
            agent: text::line(&row.agent),
            task_type: text::line(&row.task_type),
            conversation: row.conversation.unwrap_or_default(),
            principal: text::line(&row.principal),
            steps: row.steps,
            started: Moment::of(row.started),
            lasted: look::took(f.t, row.updated.since(row.started)),
        }
    }

    /// All sessions of the same conversation.
    fn siblings(&self) -> String {
        Asked { conversation: self.conversation.clone(), ..Asked::default() }.address("")
    }

    fn conversation_line(&self) -> String {
        text::line(&self.conversation)
    }
}
