//! `glassbox run "task"`.

use anyhow::Context as _;
use clap::Args;
use futures_util::FutureExt as _;
use serde_json::json;

use super::{
    Global, confirm, exit,
    live_view::LiveView,
    output::{say, say_json, text},
    stops::Stops,
};
use crate::{
    config::Config,
    core::{SessionId, SessionStatus, fact::SessionEnd},
    runtime::{Runtime, SessionHandle, Setup, Task},
    session::Ended,
    signal::FeedReader,
};

/// How long a stop waits for its sinks and exporters.
const GRACE: std::time::Duration = std::time::Duration::from_secs(5);

#[derive(Args, Debug)]
pub(super) struct Options {
    /// What is to be done.
    task: String,
    /// Which agent; the only one if left out.
    #[arg(long)]
    agent: Option<String>,
    /// Which kind of task, a label in metrics.
    #[arg(long)]
    task_type: Option<String>,
    /// The conversation that it continues, or begins.
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    conversation: Option<String>,
}

pub(super) async fn run(global: Global, options: Options) -> anyhow::Result<u8> {
    let config = global.load()?;
    // Caught before the session begins, so that no signal finds it unprepared.
    let mut stops = Stops::catch()?;
    let runtime = start(&global, &config, "run")?;
    runtime.report_untested();
    let reader = LiveView::reader(&runtime, None, global.json);
    let task = Task {
        agent: options.agent,
        task_type: options.task_type,
        conversation_id: options.conversation,
        ..Task::new(options.task, config.auth.default_principal.clone())
    };
    let by = config.auth.default_principal.id.clone();
    let opened = runtime.open(task).await;
    let ended = match opened {
        Ok(handle) => follow(&runtime, handle, reader, Asker { by: &by, stops: &mut stops }, global.json).await,
        Err(refused) => Err(refused.into()),
    };
    close(&runtime, ended).await
}

/// `glassbox session resume [ID]`: goes on with one session, or with all that nobody drives.
pub(super) async fn resume(global: Global, id: Option<String>) -> anyhow::Result<u8> {
    let config = global.load()?;
    let mut stops = Stops::catch()?;
    let runtime = start(&global, &config, "resume")?;
    runtime.report_untested();
    let ids = match id {
        Some(text) => vec![super::session::resolve(&**runtime.store(), &text)?],
        None => runtime.orphans().await?,
    };
    if ids.is_empty() {
        say("no session waits to be resumed");
    }
    let mut code = Ok(exit::OK);
    for id in ids {
        let reader = LiveView::reader(&runtime, Some(id), global.json);
        let ended = match runtime.resume(id).await {
            Ok(handle) => {
                let asker = Asker { by: &config.auth.default_principal.id, stops: &mut stops };
                follow(&runtime, handle, reader, asker, global.json).await
            }
            Err(why) => Err(why.into()),
        };
        // The worst of all is what the command ends with; an error ends it at once.
        code = code.and_then(|worst| ended.map(|code| code.max(worst)));
    }
    close(&runtime, code).await
}

pub(super) fn start(global: &Global, config: &Config, surface: &'static str) -> anyhow::Result<Runtime> {
    let setup = Setup { surface, ..Setup::run(&global.data_dir) };
    let runtime = Runtime::start(config, setup)?;
    runtime.diagnostics().install();
    Ok(runtime)
}

/// Stops in order; what went wrong before is told first.
pub(super) async fn close(runtime: &Runtime, code: anyhow::Result<u8>) -> anyhow::Result<u8> {
    let stopped = runtime.stop(GRACE).await;
    let code = code?;
    stopped.context("the journal could not be closed")?;
    Ok(code)
}

/// Who sits at the terminal.
pub(super) struct Asker<'a> {
    /// The principal that decides.
    pub(super) by: &'a str,
    /// Its signals to stop.
    pub(super) stops: &'a mut Stops,
}

/// Shows the session until it ends; where it waits for a person, asks the one at the terminal.
pub(super) async fn follow(
    runtime: &Runtime,
    mut handle: SessionHandle,
    mut reader: FeedReader,
    mut asker: Asker<'_>,
    json: bool,
) -> anyhow::Result<u8> {
    loop {
        let id = handle.id();
        let pending = match watch(handle, reader, asker.stops, json).await? {
            Ended::AwaitingConfirmation(pending) => pending,
            ended => return Ok(conclude(id, ended, json)),
        };
        reader = LiveView::reader(runtime, Some(id), json);
        let asked = if json { None } else { confirm::ask(runtime, id, &pending, &mut asker).await? };
        match asked {
            Some(goes_on) => handle = goes_on,
            None => return confirm::tell_now(runtime, id, json),
        }
    }
}

fn conclude(id: SessionId, ended: Ended, json: bool) -> u8 {
    match ended {
        Ended::Finished(end) => report(id, &end, json),
        Ended::AwaitingConfirmation(pending) => confirm::tell(id, &pending, json),
        Ended::Suspended => {
            say(format!("{id} is suspended; `glassbox session resume {id}` goes on with it"));
            exit::SUSPENDED
        }
        Ended::TakenOver => {
            say(format!("{id} goes on in another process"));
            exit::SUSPENDED
        }
    }
}

/// Shows the session while it runs; the first signal stops it, the second leaves at once.
async fn watch(
    mut handle: SessionHandle,
    mut reader: FeedReader,
    stops: &mut Stops,
    json: bool,
) -> anyhow::Result<Ended> {
    let mut view = LiveView::new(json);
    let stop = handle.clone();
    let mut stopping = false;
    let ended = handle.ended();
    tokio::pin!(ended);
    let ended = loop {
        tokio::select! {
            biased;
            Ok(item) = reader.next() => view.show(&item),
            ended = &mut ended => break ended,
            code = stops.next() => {
                if std::mem::replace(&mut stopping, true) {
                    std::process::exit(code.into());
                }
                stop.cancel();
            }
        }
    };
    while let Some(Ok(item)) = reader.next().now_or_never() {
        view.show(&item);
    }
    view.end();
    ended.context("the journal cannot write; the session is kept as far as it was written")
}

fn report(id: SessionId, end: &SessionEnd, json: bool) -> u8 {
    if json {
        say_json(&summary(id, end));
    } else {
        for given in [end.answer.as_ref(), end.partial.as_ref()].into_iter().flatten() {
            say(text(given.expose()));
        }
        if let Some(explanation) = &end.explanation {
            say(text(explanation));
        }
    }
    if end.status == SessionStatus::Done { exit::OK } else { exit::NOT_DONE }
}

/// The session as JSON, in the words of the API.
pub(super) fn summary(id: SessionId, end: &SessionEnd) -> serde_json::Value {
    json!({
        "session_id": id,
        "trace_id": id.trace_id(),
        "status": end.status,
        "reason": end.reason,
        "answer": end.answer,
        "partial": end.partial,
        "explanation": end.explanation,
        "degraded": end.degraded,
        "total_steps": end.steps,
        "usage": end.usage,
        "tools_called": end.tools_called,
        "active_ms": end.active_ms,
    })
}
