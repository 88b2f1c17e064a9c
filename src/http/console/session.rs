//! One session: how it stands, what was asked and answered, its waterfall.

use askama::Template;
use axum::{
    extract::{Path, State},
    response::{IntoResponse as _, Redirect, Response},
};

use super::{
    Room,
    confirmations::Card,
    content::{self, Shown},
    frame::{Frame, Place},
    look::{self, Moment, Pill, number, took},
    page,
    posted::Posted,
    sign_in::Empty,
    text,
    visitor::Visitor,
    waterfall::Waterfall,
};
use crate::{
    config::Links,
    core::{Entry, Fact, Money, SessionId, StreamId, Timestamp, fact::SessionStarted, handover::HandoverId},
    http::{
        Api,
        auth::Caller,
        confirmations,
        problem::Problem,
        sessions::{load, stop},
    },
    session::{SessionReport, beginning},
};

#[derive(Template)]
#[template(path = "session.html")]
struct Session {
    f: Frame,
    id: String,
    status: Pill,
    reason: &'static str,
    ended: bool,
    degraded: bool,
    /// A name and a value each, in the order of the page.
    about: Vec<(&'static str, String)>,
    started: Moment,
    finished: Option<Moment>,
    /// The list of the conversation.
    conversation: Option<(String, String)>,
    task: Shown,
    metadata: Option<Shown>,
    /// A heading and a text: the answer, or what there is in its place.
    outcome: Vec<(&'static str, Shown)>,
    explanation: Option<String>,
    /// The session before it in the conversation.
    follows: Option<String>,
    handed: Vec<Handed>,
    waiting: Vec<Card>,
    fall: Waterfall,
    reads: bool,
    trace: Option<String>,
    dashboard: Option<String>,
}

/// What was handed over to a person.
struct Handed {
    cause: &'static str,
    tool: String,
    /// Where operators work on it.
    place: Option<String>,
}

pub(super) async fn show(
    State(room): State<Room>,
    caller: Caller,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    let entries = load(&room.api, &caller, session).await?;
    let none = || Problem::no_session(&id);
    let report = SessionReport::of(&entries).ok_or_else(none)?;
    let report = if room.api.runtime.is_held_up(session) { report.held_up() } else { report };
    let started = beginning(&entries).ok_or_else(none)?;
    let seen = Seen { api: &room.api, caller: &caller, visitor: &visitor, now: room.door.now() };
    Ok(page(&seen.page(&report, started, &entries)))
}

pub(super) async fn cancel(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Posted(Empty {}): Posted<Empty>,
) -> Result<Response, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    stop(&api, &caller, session).await?;
    Ok(Redirect::to(&format!("/console/sessions/{session}")).into_response())
}

/// What a page is made with.
struct Seen<'a> {
    api: &'a Api,
    caller: &'a Caller,
    visitor: &'a Visitor,
    now: Timestamp,
}

impl Seen<'_> {
    fn page(&self, report: &SessionReport, started: &SessionStarted, entries: &[Entry]) -> Session {
        let (f, t) = (self.visitor.frame(Place::Sessions), self.visitor.words());
        let reads = content::reads(self.api.options.console.content, self.caller, &report.owner);
        let text = |text: &str| Shown::when(reads, || text::block(text));
        let decides = confirmations::decides(self.api.options.access.approvers(), self.caller, &report.owner);
        let card = |call| Card::new(report.session_id, call, true, decides, decides || reads);
        let outcome = [(t.answer, &report.answer), (t.partial, &report.partial)];
        let links = &self.api.options.console.links;
        let listed = |id: &String| (text::line(id), format!("/console?conversation={}", super::sign_in::escaped(id)));
        let metadata = (!report.metadata.is_empty()).then(|| report.metadata.clone().into());
        Session {
            id: report.session_id.to_string(),
            status: look::status(t, report.status),
            reason: report.reason.map_or("", |reason| reason.label()),
            ended: report.status.is_final(),
            degraded: report.degraded,
            about: self.about(report, started),
            started: Moment::read(report.started_at.clone()),
            finished: report.finished_at.clone().map(Moment::read),
            conversation: report.conversation_id.as_ref().map(listed),
            task: text(started.task.expose()),
            metadata: metadata.map(|value| Shown::when(reads, || text::json(&value))),
            outcome: outcome.into_iter().filter_map(|(name, said)| Some((name, text(said.as_ref()?)))).collect(),
            explanation: report.explanation.as_deref().map(text::block),
            follows: report.follows.map(|session| session.to_string()),
            handed: entries.iter().filter_map(|entry| Handed::of(entry, f.is_operator)).collect(),
            waiting: report.pending_confirmations.iter().map(card).collect(),
            fall: Waterfall::of(entries, t, reads, self.now),
            reads,
            trace: link(links, |links| links.trace.as_ref(), report),
            dashboard: link(links, |links| links.dashboard.as_ref(), report),
            f,
        }
    }

    fn about(&self, report: &SessionReport, started: &SessionStarted) -> Vec<(&'static str, String)> {
        let t = self.visitor.words();
        let (usage, limits) = (&report.usage, &started.limits);
        let active = std::time::Duration::from_millis(report.active_ms);
        let tokens = format!("{} / {}", number(usage.total()), number(limits.token_budget));
        let prompt = started.prompt.version.as_deref().map(text::line);
        let mut about = vec![
            (t.agent, text::line(&report.agent)),
            (t.task_type, text::line(&report.task_type)),
            (t.model, text::line(&started.model.name)),
            (t.steps, format!("{} / {}", report.total_steps, limits.max_iterations)),
            (t.tokens, tokens),
            (t.tokens_in, number(usage.input)),
            (t.tokens_out, number(usage.output)),
            (t.active, took(t, active)),
        ];
        about.extend(cost(started, report).map(|cost| (t.cost, cost)));
        about.extend((!report.tools_called.is_empty()).then(|| (t.tools, text::line(&report.tools_called.join(", ")))));
        about.extend(prompt.map(|version| (t.prompt, version)));
        about.push((t.principal, text::line(&report.owner)));
        about.push((t.trace, report.trace_id.to_string()));
        about
    }
}

impl Handed {
    fn of(entry: &Entry, is_operator: bool) -> Option<Self> {
        let Fact::HandedOver { cause, tool, .. } = &entry.fact else { return None };
        let StreamId::Session(session) = entry.stream else { return None };
        let id = HandoverId { session, seq: entry.seq };
        Some(Self {
            cause: cause.label(),
            tool: tool.as_deref().map(text::line).unwrap_or_default(),
            place: is_operator.then(|| format!("/console/handovers?id={id}")),
        })
    }
}

fn cost(started: &SessionStarted, report: &SessionReport) -> Option<String> {
    let spent = format!("${:.4}", report.cost_usd?);
    Some(started.limits.cost_limit.map_or(spent.clone(), |limit: Money| format!("{spent} / {limit}")))
}

/// An address with its holes filled; what fills them needs no escape but the agent's name.
fn link(links: &Links, which: impl Fn(&Links) -> Option<&String>, report: &SessionReport) -> Option<String> {
    let address = which(links)?.replace("{trace_id}", &report.trace_id.to_string());
    let address = address.replace("{session_id}", &report.session_id.to_string());
    Some(address.replace("{agent}", &super::sign_in::escaped(&report.agent)))
}
