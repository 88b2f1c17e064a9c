//! Calls that wait for a person: the question at a terminal, and `glassbox session confirm`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::bail;
use clap::Args;
use console::style;
use tokio::sync::oneshot;

use super::{
    Global, exit,
    live_view::LiveView,
    output::{line as clean, say, say_json},
    run::{self, Asker},
    session::resolve,
    stops::Stops,
};
use crate::{
    core::{Sensitive, SessionId, SessionStatus, StreamId},
    runtime::{Runtime, SessionHandle, Settled},
    session::{PendingConfirmation, Say, SessionReport},
};

#[derive(Args, Debug)]
pub(super) struct Options {
    /// The session, or the beginning of its id.
    id: String,
    /// The call; may be left out where only one waits.
    #[arg(long)]
    call: Option<String>,
    #[command(flatten)]
    answer: Answer,
    /// What else there is to say; the model reads it where the answer is no.
    #[arg(long)]
    comment: Option<String>,
}

/// Yes or no, one of which must be said.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Answer {
    /// Let the call run, exactly as it is shown.
    #[arg(long)]
    approve: bool,
    /// Do not let it run.
    #[arg(long)]
    deny: bool,
}

impl Options {
    pub(super) fn session(&self) -> &str {
        &self.id
    }

    pub(super) fn call(&self) -> Option<&str> {
        self.call.as_deref()
    }

    pub(super) fn comment(&self) -> Option<&str> {
        self.comment.as_deref()
    }

    pub(super) const fn approves(&self) -> bool {
        self.answer.approve && !self.answer.deny
    }
}

/// `glassbox session confirm ID`: decides, and drives the session on.
pub(super) async fn run(global: Global, options: Options) -> anyhow::Result<u8> {
    let config = global.load()?;
    let mut stops = Stops::catch()?;
    let runtime = run::start(&global, &config, "confirm")?;
    let asker = Asker { by: &config.auth.default_principal.id, stops: &mut stops };
    let code = decide(&runtime, options, asker, global.json).await;
    run::close(&runtime, code).await
}

async fn decide(runtime: &Runtime, options: Options, asker: Asker<'_>, json: bool) -> anyhow::Result<u8> {
    let id = resolve(&**runtime.store(), &options.id)?;
    let call_id = match options.call() {
        Some(call) => call.to_owned(),
        None => only_call(id, &report(runtime, id)?.pending_confirmations)?,
    };
    let reader = LiveView::reader(runtime, Some(id), json);
    let say = Say {
        call_id,
        approve: options.approves(),
        by: asker.by.into(),
        comment: options.comment.map(Sensitive::new),
        arguments_hash: None,
    };
    match runtime.decide(id, say).await {
        Ok(Settled { handle: Some(handle), .. }) => run::follow(runtime, handle, reader, asker, json).await,
        Ok(Settled { decided, handle: None }) => {
            let report = report(runtime, id)?;
            if report.status == SessionStatus::AwaitingConfirmation {
                return Ok(tell(id, &report.pending_confirmations, json));
            }
            let call = clean(&decided.call_id);
            super::say(format!("{call} is {}; {id} is {}", decided.decision.label(), report.status));
            Ok(exit::OK)
        }
        Err(why) => {
            // A decision that came too late makes the session go on without the call.
            if let Some(handle) = runtime.find(id) {
                run::follow(runtime, handle, reader, asker, json).await?;
            }
            Err(why.into())
        }
    }
}

fn report(runtime: &Runtime, id: SessionId) -> anyhow::Result<SessionReport> {
    match SessionReport::of(&runtime.store().load(StreamId::Session(id))?) {
        Some(report) => Ok(report),
        None => bail!("there is no session {id}"),
    }
}

/// The one call that waits.
pub(super) fn only_call(id: SessionId, pending: &[PendingConfirmation]) -> anyhow::Result<String> {
    match pending {
        [call] => Ok(call.call_id.clone()),
        [] => bail!("no call of {id} waits for a decision"),
        calls => {
            let ids: Vec<_> = calls.iter().map(|call| call.call_id.as_str()).collect();
            bail!("{} calls of {id} wait: choose one with --call, of {}", calls.len(), ids.join(", "))
        }
    }
}

/// Asks the person at the terminal about each call that waits. Gives the session once it goes on;
/// nothing where it stays waiting, as without a terminal.
pub(super) async fn ask(
    runtime: &Runtime,
    id: SessionId,
    pending: &[PendingConfirmation],
    asker: &mut Asker<'_>,
) -> anyhow::Result<Option<SessionHandle>> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Ok(None);
    }
    for call in pending {
        say(line(call));
        let Some(approve) = answer(asker.stops).await else { return Ok(None) };
        let say = Say {
            call_id: call.call_id.clone(),
            approve,
            by: asker.by.into(),
            comment: None,
            arguments_hash: Some(call.arguments_hash),
        };
        match runtime.decide(id, say).await {
            Ok(Settled { handle: Some(handle), .. }) => return Ok(Some(handle)),
            Ok(Settled { handle: None, .. }) => {}
            // Too late, or decided elsewhere: whatever goes on here is shown.
            Err(why) => {
                super::say(clean(&why.to_string()));
                return Ok(runtime.find(id));
            }
        }
    }
    Ok(None)
}

/// Whether the person says yes; nothing at the end of the input and on a signal to stop.
async fn answer(stops: &mut Stops) -> Option<bool> {
    tokio::select! {
        answer = typed() => answer,
        _ = stops.next() => {
            super::say("");
            None
        }
    }
}

/// Whether the person at the terminal types yes; nothing at the end of the input.
pub(super) async fn typed() -> Option<bool> {
    let mut stdout = std::io::stdout();
    let _ = write!(stdout, "run it? [y/N] ").and_then(|()| stdout.flush());
    let (told, answered) = oneshot::channel();
    // A thread of its own, which the end of the program need not wait for.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let _ = told.send(matches!(read, Ok(bytes) if bytes > 0).then_some(line));
    });
    let line = answered.await.ok().flatten()?;
    Some(matches!(line.trim().to_lowercase().as_str(), "y" | "yes" | "д" | "да"))
}

/// Says what still waits.
pub(super) fn tell_now(runtime: &Runtime, id: SessionId, json: bool) -> anyhow::Result<u8> {
    Ok(tell(id, &report(runtime, id)?.pending_confirmations, json))
}

/// Says what waits and how to decide; gives the exit code of a session that waits.
pub(super) fn tell(id: SessionId, pending: &[PendingConfirmation], json: bool) -> u8 {
    if json {
        let status = SessionStatus::AwaitingConfirmation;
        let report = serde_json::json!({"session_id": id, "status": status, "pending_confirmations": pending});
        say_json(&report);
        return exit::SUSPENDED;
    }
    for call in pending {
        say(line(call));
        let which = if pending.len() > 1 { format!(" --call {}", clean(&call.call_id)) } else { String::new() };
        say(format!("   `glassbox session confirm {id}{which} --approve` lets it run, `--deny` does not"));
    }
    exit::SUSPENDED
}

/// One call that waits, with everything that a yes holds for.
pub(super) fn line(call: &PendingConfirmation) -> String {
    let (tool, arguments) = (style(clean(&call.tool)).cyan().bold(), clean(&call.arguments.to_string()));
    format!("{} {tool} {arguments} · {} · until {}", style("?").yellow(), clean(&call.call_id), call.expires_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_need_be_named_only_where_several_wait() {
        let call = |id: &str| PendingConfirmation {
            call_id: id.to_owned(),
            tool: "t".to_owned(),
            arguments: serde_json::json!({}),
            arguments_hash: crate::core::BlobHash::from_bytes([1; 32]),
            requested_at: String::new(),
            expires_at: String::new(),
        };
        let id = SessionId::from_bytes([1; 16]);
        assert_eq!(only_call(id, &[call("a")]).expect("one"), "a");
        let error = only_call(id, &[call("a"), call("b")]).expect_err("two");
        assert!(error.to_string().ends_with("choose one with --call, of a, b"), "{error}");
        assert!(only_call(id, &[]).is_err());
    }
}
