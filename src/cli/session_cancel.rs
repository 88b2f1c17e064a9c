//! `glassbox session cancel`: ends a session that nobody drives.

use anyhow::anyhow;

use super::{
    Global, exit,
    output::{say, say_json},
    run,
    session::resolve,
};
use crate::{
    core::{SessionId, SessionStatus},
    runtime::{NotResumed, Runtime},
    session::Ended,
};

/// Who the journal says asked for it.
const BY: &str = "command line";

pub(super) async fn cancel(global: Global, id: String) -> anyhow::Result<u8> {
    let config = global.load()?;
    let runtime = run::start(&global, &config, "cancel")?;
    let ended = match resolve(&**runtime.store(), &id) {
        Ok(id) => end(&runtime, id, global.json).await,
        Err(wrong) => Err(wrong),
    };
    run::close(&runtime, ended).await
}

async fn end(runtime: &Runtime, id: SessionId, json: bool) -> anyhow::Result<u8> {
    let mut handle = runtime.cancel_left(id, BY).await.map_err(explain)?;
    match handle.ended().await? {
        Ended::Finished(end) => {
            if json {
                say_json(&run::summary(id, &end));
            } else if end.status == SessionStatus::Cancelled {
                say(format!("{id} is cancelled"));
            } else {
                // Its end was decided before anybody asked.
                say(format!("{id} ended as {}", end.status));
            }
            Ok(exit::OK)
        }
        Ended::Suspended | Ended::AwaitingConfirmation(_) | Ended::TakenOver => {
            Err(anyhow!("{id} goes on in another process"))
        }
    }
}

/// Whoever drives it can stop it; this says how.
fn explain(why: NotResumed) -> anyhow::Error {
    match why {
        NotResumed::Held { session, .. } => {
            anyhow!("{why}: ask that process to stop it, with POST /v1/sessions/{session}/cancel if it serves")
        }
        other => other.into(),
    }
}
