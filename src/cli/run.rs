//! `glassbox run "task"`.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use futures_util::FutureExt as _;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Global, exit, live_view::LiveView, say};
use crate::{
    config::Events,
    core::{SessionId, SessionStatus, fact::SessionEnd},
    journal::{Mode, OnFault},
    runtime::{Runtime, SessionHandle, Setup, SystemClock, SystemEntropy, Task},
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
}

pub(super) async fn run(global: Global, options: Options) -> anyhow::Result<u8> {
    let config = global.load()?;
    // Caught before the session begins, so that no interrupt finds it unprepared.
    let interrupts = signal(SignalKind::interrupt())?;
    let runtime = Runtime::start(
        &config,
        Setup {
            surface: "run",
            data_dir: global.data_dir.clone(),
            on_fault: OnFault::Fail,
            events: Events::Off,
            mode: Mode::Thread,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            store: None,
        },
    )?;
    runtime.diagnostics().install();
    let reader = runtime.feed().subscribe(None);
    let task = Task {
        text: options.task.into(),
        agent: options.agent,
        task_type: options.task_type,
        conversation_id: None,
        metadata: serde_json::Map::new(),
        principal: config.auth.default_principal.clone(),
        link: None,
    };
    let opened = runtime.open(task).await;
    let ended = match opened {
        Ok(handle) => watch(handle, reader, interrupts, global.json).await,
        Err(refused) => Err(refused.into()),
    };
    let stopped = runtime.stop(GRACE).await;
    let code = ended?;
    stopped.context("the journal could not be closed")?;
    Ok(code)
}

/// Shows the session until it ends; the first interrupt stops it, the second leaves at once.
async fn watch(
    mut handle: SessionHandle,
    mut reader: FeedReader,
    mut interrupts: Signal,
    json: bool,
) -> anyhow::Result<u8> {
    let mut view = LiveView::new(json);
    let stop = handle.clone();
    let stopping = crate::runtime::spawn(async move {
        if interrupts.recv().await.is_some() {
            stop.cancel();
        }
        if interrupts.recv().await.is_some() {
            std::process::exit(130);
        }
    });
    let id = handle.id();
    let ended = handle.ended();
    tokio::pin!(ended);
    let ended = loop {
        tokio::select! {
            biased;
            Ok(entry) = reader.next() => view.show(&entry),
            ended = &mut ended => break ended,
        }
    };
    stopping.abort();
    while let Some(Ok(entry)) = reader.next().now_or_never() {
        view.show(&entry);
    }
    view.end();
    match ended.context("the journal cannot write; the session is kept as far as it was written")? {
        Ended::Finished(end) => Ok(report(id, &end, json)),
        Ended::Suspended => bail!("{id} is suspended"),
    }
}

fn report(id: SessionId, end: &SessionEnd, json: bool) -> u8 {
    if json {
        say(summary(id, end).to_string());
    } else {
        for text in [end.answer.as_ref(), end.partial.as_ref()].into_iter().flatten() {
            say(text.expose());
        }
        if let Some(explanation) = &end.explanation {
            say(explanation);
        }
    }
    if end.status == SessionStatus::Done { exit::OK } else { exit::NOT_DONE }
}

/// The session as JSON, in the words of the API.
fn summary(id: SessionId, end: &SessionEnd) -> serde_json::Value {
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
