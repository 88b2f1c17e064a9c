//! `glassbox session list|show`; the other commands of `session` are handed on.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use console::style;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    Global, exit,
    output::{json_text, line, say, say_json, text},
    session_cancel, session_data, session_remote,
    steps::Steps,
};
use crate::{
    config::Config,
    core::{BlobHash, Entry, SessionId, SessionStatus, Store, StreamId, fact::ModelCallEnd, port::SessionFilter},
    machine::transcript::{Exchange, transcript},
    runtime::{build_models, open_store},
    session::{SessionReport, SessionRow, beginning, own_prompt},
};

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Ask this server and not the data folder; a key comes from the variable GLASSBOX_API_KEY.
    #[arg(long, global = true, value_name = "URL", env = "GLASSBOX_SERVER")]
    server: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// List sessions, newest first.
    List {
        /// Only with this status.
        #[arg(long, value_parser = status)]
        status: Option<SessionStatus>,
        /// Only of this agent.
        #[arg(long)]
        agent: Option<String>,
        /// At the most.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Show one session, step by step.
    Show {
        /// The session, or the beginning of its id.
        id: String,
        /// The exact prompts, proved by the hashes in the journal, and the replies.
        #[arg(long)]
        raw: bool,
    },
    /// Decide on a call that waits for a person, and go on with its session.
    Confirm(super::confirm::Options),
    /// Go on with a session that nobody drives, or with all of them.
    Resume {
        /// The session, or the beginning of its id; all if left out.
        id: Option<String>,
    },
    /// End a session that nobody drives.
    Cancel {
        /// The session, or the beginning of its id.
        id: String,
    },
    /// Write sessions to the standard output as JSON lines, with every text that they name.
    Export(session_data::Export),
    /// Remove sessions for good.
    Erase(session_data::Erase),
}

pub(super) fn run(global: Global, options: Options) -> anyhow::Result<u8> {
    if let Some(server) = options.server {
        return super::block_on(async move { session_remote::run(global, &server, options.command).await });
    }
    match options.command {
        Command::Resume { id } => super::block_on(super::run::resume(global, id)),
        Command::Confirm(options) => super::block_on(super::confirm::run(global, options)),
        Command::Cancel { id } => super::block_on(session_cancel::cancel(global, id)),
        Command::Export(options) => session_data::export(&global, &options),
        Command::Erase(options) => super::block_on(session_data::erase(global, options)),
        Command::List { status, agent, limit } => {
            let (_, store) = open(&global)?;
            let rows = store.sessions(&SessionFilter { agent, status, limit, ..SessionFilter::default() })?;
            show_list(&rows.into_iter().map(SessionRow::from).collect::<Vec<_>>(), global.json)
        }
        Command::Show { id, raw } => {
            let (config, store) = open(&global)?;
            let entries = store.load(StreamId::Session(resolve(&*store, &id)?))?;
            let Some(report) = SessionReport::of(&entries) else { bail!("there is no session {id}") };
            if raw {
                show_raw(&config, &*store, &entries, global.json)?;
            } else {
                show_one(&report, &entries, global.json);
            }
            Ok(exit::OK)
        }
    }
}

fn open(global: &Global) -> anyhow::Result<(Config, Arc<dyn Store>)> {
    let config = global.load()?;
    let store = open_store(&config.store, &global.data_dir).context("the journal cannot be opened")?;
    Ok((config, store))
}

/// Shows some sessions.
pub(super) fn show_list(rows: &[SessionRow], json: bool) -> anyhow::Result<u8> {
    if json {
        for row in rows {
            say(json_text(&serde_json::to_string(row)?));
        }
        return Ok(exit::OK);
    }
    if rows.is_empty() {
        say("no sessions yet; `glassbox run \"...\"` begins one");
        return Ok(exit::OK);
    }
    say(style(format!(
        "{:<37} {:<24} {:<16} {:>5}  {:<12} {}",
        "SESSION", "STARTED", "STATUS", "STEPS", "AGENT", "TYPE"
    ))
    .dim()
    .to_string());
    for row in rows {
        say(format!(
            "{:<37} {:<24} {:<16} {:>5}  {:<12} {}",
            row.session_id.to_string(),
            line(&row.started_at),
            row.status.label(),
            row.total_steps,
            line(&row.agent),
            line(&row.task_type)
        ));
    }
    Ok(exit::OK)
}

/// A status by its word; a wrong one lists those that there are.
fn status(word: &str) -> Result<SessionStatus, String> {
    serde_json::from_value(json!(word)).map_err(|error| error.to_string())
}

/// A whole id, or one that only one recent session begins with.
pub(super) fn resolve(store: &dyn Store, text: &str) -> anyhow::Result<SessionId> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let recent = store.sessions(&SessionFilter { limit: 1000, ..SessionFilter::default() })?;
    only_one(recent.into_iter().map(|row| row.id), text)
}

/// The one of these that begins so.
pub(super) fn only_one(ids: impl Iterator<Item = SessionId>, text: &str) -> anyhow::Result<SessionId> {
    let begins = |id: &SessionId| id.to_string().starts_with(text) || id.trace_id().to_string().starts_with(text);
    let matches: Vec<_> = ids.filter(begins).collect();
    match matches[..] {
        [id] => Ok(id),
        [] => bail!("there is no session {text}; `glassbox session list` shows what there is"),
        _ => bail!("{text} is the beginning of {} sessions; give more of the id", matches.len()),
    }
}

/// Shows one session, step by step.
pub(super) fn show_one(report: &SessionReport, entries: &[Entry], json: bool) {
    if json {
        say_json(&json!({"session": report, "facts": facts(entries)}));
    } else {
        show(report, entries);
    }
}

fn show(report: &SessionReport, entries: &[Entry]) {
    let mut steps = Steps::default();
    for line in entries.iter().flat_map(|entry| steps.apply(entry)) {
        say(line);
    }
    super::confirm::tell(report.session_id, &report.pending_confirmations, false);
    for given in [&report.answer, &report.partial, &report.explanation].into_iter().flatten() {
        say(text(given));
    }
}

fn facts(entries: &[Entry]) -> Vec<serde_json::Value> {
    entries.iter().map(|entry| json!({"seq": entry.seq, "at": entry.at.to_string(), "fact": entry.fact})).collect()
}

/// Every request as it went out and every reply, rebuilt from the journal.
fn show_raw(config: &Config, store: &dyn Store, entries: &[Entry], json: bool) -> anyhow::Result<()> {
    let Some(started) = beginning(entries) else { return Ok(()) };
    let prompt = own_prompt(store, started)?;
    let models = build_models(config)?;
    for (number, exchange) in transcript(entries, &prompt).iter().enumerate() {
        let body = models.get(&exchange.call.model.name).map(|model| model.encode(&exchange.request));
        let proof = match &body {
            Some(body) if hash(body) == exchange.call.body_hash => "proved",
            Some(_) => "NOT the bytes that were sent",
            None => "not provable: the model is no longer configured",
        };
        let body = body.map_or_else(
            || serde_json::to_string(&exchange.request),
            |bytes| Ok(String::from_utf8_lossy(&bytes).into_owned()),
        )?;
        if json {
            say_json(&json!({"request": body, "proof": proof, "call": exchange.call, "end": exchange.end}));
        } else {
            print_exchange(number + 1, exchange, &body, proof);
        }
    }
    Ok(())
}

fn print_exchange(number: usize, exchange: &Exchange, body: &str, proof: &str) {
    let call = &exchange.call;
    say(style(format!("── {number} · step {} · {} · {}", call.step, line(&call.model.name), exchange.at))
        .bold()
        .to_string());
    say(style(format!("request {} ({proof})", call.body_hash)).dim().to_string());
    say(pretty(body));
    say(style("reply").dim().to_string());
    say(reply(exchange.end.as_ref()));
}

fn reply(end: Option<&ModelCallEnd>) -> String {
    match end {
        None => "none yet".to_owned(),
        Some(ModelCallEnd { reply: Some(reply), .. }) => {
            json_text(&serde_json::to_string_pretty(reply).expect("a reply is plain data"))
        }
        Some(end) => {
            let error = end.error.as_ref().map_or("", |error| error.expose());
            format!("{}: {}", end.outcome.label(), text(error))
        }
    }
}

/// JSON indented for people; anything else as it is.
fn pretty(body: &str) -> String {
    serde_json::from_str::<serde_json::Value>(body)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .map_or_else(|_| text(body), |pretty| json_text(&pretty))
}

fn hash(bytes: &[u8]) -> BlobHash {
    BlobHash::from_bytes(Sha256::digest(bytes).into())
}
