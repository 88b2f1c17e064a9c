//! `glassbox handover list|claim|close`: what a person has to look at.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use console::style;
use serde_json::json;

use super::{
    Global, exit,
    output::{line, say, say_json},
    run,
};
use crate::{
    core::{
        Store,
        handover::{Handover, HandoverAction, HandoverFilter, HandoverId, HandoverStatus},
    },
    runtime::open_store,
    session::HandoverReport,
};

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// List hand-overs, newest first.
    List {
        /// Only those that stand so.
        #[arg(long, value_parser = status)]
        status: Option<HandoverStatus>,
        /// At the most.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Take a hand-over on.
    Claim(Word),
    /// Be done with a hand-over.
    Close(Word),
}

#[derive(Args, Debug)]
pub(super) struct Word {
    /// The hand-over.
    id: HandoverId,
    /// What there is to say to it.
    #[arg(long)]
    comment: Option<String>,
}

pub(super) fn run(global: Global, command: Command) -> anyhow::Result<u8> {
    match command {
        Command::List { status, limit } => {
            let config = global.load()?;
            let store = open_store(&config.store, &global.data_dir).context("the journal cannot be opened")?;
            list(&*store, &HandoverFilter { status, limit, ..HandoverFilter::default() }, global.json)
        }
        Command::Claim(word) => super::block_on(handle(global, HandoverAction::Claim, word)),
        Command::Close(word) => super::block_on(handle(global, HandoverAction::Close, word)),
    }
}

async fn handle(global: Global, action: HandoverAction, word: Word) -> anyhow::Result<u8> {
    let config = global.load()?;
    let runtime = run::start(&global, &config, "handover")?;
    let by = config.auth.default_principal.id.as_str().into();
    let handled = runtime.handle_handover(word.id, action, by, word.comment.map(Into::into)).await;
    let told = handled.map_err(anyhow::Error::from).map(|handover| {
        if global.json {
            say_json(&json!(HandoverReport::from(handover)));
        } else {
            say(format!("{} is {}", handover.id, handover.status().label()));
        }
        exit::OK
    });
    run::close(&runtime, told).await
}

fn list(store: &dyn Store, filter: &HandoverFilter, json: bool) -> anyhow::Result<u8> {
    let handovers = store.handovers(filter)?;
    if json {
        handovers.into_iter().for_each(|handover| say_json(&json!(HandoverReport::from(handover))));
        return Ok(exit::OK);
    }
    if handovers.is_empty() {
        say("no hand-overs");
        return Ok(exit::OK);
    }
    let head = format!("{:<41} {:<24} {:<8} {:<16} WHAT", "HAND-OVER", "OPENED", "STATUS", "CAUSE");
    say(style(head).dim().to_string());
    handovers.iter().for_each(|handover| say(row(handover)));
    Ok(exit::OK)
}

fn row(handover: &Handover) -> String {
    let detail = handover.detail.as_ref().map_or("its session is erased", |detail| detail.expose());
    let (id, opened) = (handover.id.to_string(), handover.opened.to_string());
    let (status, cause) = (handover.status().label(), handover.cause.label());
    format!("{id:<41} {opened:<24} {status:<8} {cause:<16} {}", line(detail))
}

/// A status by its word; a wrong one lists those that there are.
fn status(word: &str) -> Result<HandoverStatus, String> {
    serde_json::from_value(json!(word)).map_err(|error| error.to_string())
}
