//! `glassbox session export|erase`: what is kept of sessions, handed out or removed for good.

use std::io::{BufWriter, Write as _};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;

use super::{
    Global, exit,
    output::{line, say},
    run,
    session::resolve,
};
use crate::{
    core::{SessionId, Store, fact::EraseCause},
    runtime::{Erasure, open_store},
    session::{ExportError, all_ids, export as export_session},
};

#[derive(Args, Debug)]
pub(super) struct Export {
    /// The sessions, or the beginnings of their ids.
    #[arg(required_unless_present_any = ["principal", "all"], conflicts_with_all = ["principal", "all"])]
    id: Vec<String>,
    /// All of this principal.
    #[arg(long, value_name = "P", conflicts_with = "all")]
    principal: Option<String>,
    /// All that there are.
    #[arg(long)]
    all: bool,
}

#[derive(Args, Debug)]
pub(super) struct Erase {
    /// The sessions, or the beginnings of their ids.
    #[arg(required_unless_present = "principal", conflicts_with = "principal")]
    id: Vec<String>,
    /// All of this principal.
    #[arg(long, value_name = "P")]
    principal: Option<String>,
    /// Do it; there is no way back.
    #[arg(long)]
    yes: bool,
}

/// Writes JSON lines to the standard output.
pub(super) fn export(global: &Global, options: &Export) -> anyhow::Result<u8> {
    let config = global.load()?;
    let store = open_store(&config.store, &global.data_dir).context("the journal cannot be opened")?;
    let ids = chosen(&*store, &options.id, options.principal.as_deref())?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = ids.into_iter().try_for_each(|id| -> Result<(), ExportError> {
        // One that was erased since it was listed is no part of it any more.
        export_session(&*store, id, &mut |line| writeln!(out, "{line}"))?;
        Ok(())
    });
    match written.and_then(|()| Ok(out.flush()?)) {
        // A reader that went away ends the program quietly.
        Err(ExportError::Output(cause)) if cause.kind() == std::io::ErrorKind::BrokenPipe => Ok(exit::OK),
        result => result.map(|()| exit::OK).context("the export is not whole"),
    }
}

/// Removes sessions; without `--yes` it only says which.
pub(super) async fn erase(global: Global, options: Erase) -> anyhow::Result<u8> {
    let config = global.load()?;
    if !options.yes {
        let store = open_store(&config.store, &global.data_dir).context("the journal cannot be opened")?;
        return announce(&*store, &chosen(&*store, &options.id, options.principal.as_deref())?);
    }
    let runtime = run::start(&global, &config, "erase")?;
    let store = runtime.store();
    let erased = match chosen(&**store, &options.id, options.principal.as_deref()) {
        Ok(ids) => runtime.erase(ids, EraseCause::Request).await.map_err(anyhow::Error::from),
        Err(wrong) => Err(wrong),
    };
    run::close(&runtime, erased.map(|erasure| report(&erasure, global.json))).await
}

/// The sessions that the command line names; all of them where it names none.
fn chosen(store: &dyn Store, texts: &[String], principal: Option<&str>) -> anyhow::Result<Vec<SessionId>> {
    if texts.is_empty() {
        return Ok(all_ids(store, principal)?);
    }
    let mut ids = Vec::new();
    for text in texts {
        let id = resolve(store, text)?;
        if store.session(id)?.is_none() {
            bail!("there is no session {id}; `glassbox session list` shows what there is");
        }
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn announce(store: &dyn Store, ids: &[SessionId]) -> anyhow::Result<u8> {
    for id in ids {
        if let Some(row) = store.session(*id)? {
            say(format!("{id} {} of {}, {} facts", row.status, line(&row.principal), row.facts));
        }
    }
    let sessions = if ids.len() == 1 { "session" } else { "sessions" };
    say(format!("nothing is erased yet: --yes erases {} {sessions} for good", ids.len()));
    Ok(exit::USAGE)
}

fn report(erasure: &Erasure, json: bool) -> u8 {
    if json {
        let held: Vec<_> = erasure.held.iter().map(|held| held.session).collect();
        say(json!({"erased": erasure.erased, "held": held}).to_string());
    } else {
        for held in &erasure.held {
            let (session, owner, until) = (held.session, held.owner, held.until);
            say(format!("{session} stays: it is driven by {owner} until {until} at least; stop it first"));
        }
        let sessions = if erasure.erased == 1 { "session" } else { "sessions" };
        say(format!("erased {} {sessions}", erasure.erased));
    }
    if erasure.held.is_empty() { exit::OK } else { exit::FAILURE }
}
