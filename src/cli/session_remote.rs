//! `glassbox session --server URL list|show|resume|cancel|confirm`: the same commands, asked of a
//! server that runs.
//!
//! A session is shown from its journal, by the same fold as a local one. It must never drive a
//! session: the server does.

use anyhow::{anyhow, bail};
use serde_json::{Value, json};

use super::{
    Global, confirm, exit,
    output::{line, say, say_json},
    remote::Remote,
    session::{self, Command},
};
use crate::{
    config::process_environment,
    core::{Entry, SessionId, SessionStatus},
    session::{SessionReport, SessionRow},
};

/// How many recent sessions the beginning of an id is looked for in.
const RECENT: usize = 1000;

pub(super) async fn run(global: Global, server: &str, command: Command) -> anyhow::Result<u8> {
    let remote = Remote::of(server, &process_environment())?;
    match command {
        Command::List { status, agent, limit } => {
            let rows = rows(&remote, status, agent, limit).await?;
            session::show_list(&rows, global.json)
        }
        Command::Show { raw: true, .. } => bail!(
            "exact prompts are shown where the journal is: use --raw with --data-dir on the server's machine, \
             without --server"
        ),
        Command::Show { id, raw: false } => {
            let (report, entries) = look(&remote, resolve(&remote, &id).await?).await?;
            session::show_one(&report, &entries, global.json);
            Ok(exit::OK)
        }
        Command::Resume { id: None } => bail!("the server resumes all by itself; name one session to resume it now"),
        Command::Resume { id: Some(id) } => order(&remote, &id, "resume", global.json).await,
        Command::Cancel { id } => order(&remote, &id, "cancel", global.json).await,
        Command::Confirm(options) => decide(&remote, options, global.json).await,
        Command::Export(_) | Command::Erase(_) => bail!(
            "over a server, data of people goes by GET /v1/principals/{{id}}/export, DELETE /v1/principals/{{id}} and \
             DELETE /v1/sessions/{{id}}; this command works on a data folder, without --server"
        ),
    }
}

async fn rows(
    remote: &Remote,
    status: Option<SessionStatus>,
    agent: Option<String>,
    limit: usize,
) -> anyhow::Result<Vec<SessionRow>> {
    let mut query = vec![("limit", limit.to_string())];
    query.extend(status.map(|status| ("status", status.label().to_owned())));
    query.extend(agent.map(|agent| ("agent", agent)));
    let listed = remote.get("v1/sessions", &query).await?;
    Ok(serde_json::from_value(listed["sessions"].clone())?)
}

/// A whole id, or one that only one recent session begins with.
async fn resolve(remote: &Remote, text: &str) -> anyhow::Result<SessionId> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => session::only_one(rows(remote, None, None, RECENT).await?.iter().map(|row| row.session_id), text),
    }
}

async fn look(remote: &Remote, id: SessionId) -> anyhow::Result<(SessionReport, Vec<Entry>)> {
    let entries = remote.journal(id).await?;
    let report = SessionReport::of(&entries).ok_or_else(|| anyhow!("there is no session {id}"))?;
    Ok((report, entries))
}

/// Asks for something that the server does with a session, and says how that stands then.
async fn order(remote: &Remote, id: &str, what: &str, json: bool) -> anyhow::Result<u8> {
    let id = resolve(remote, id).await?;
    let answer = remote.post(&format!("v1/sessions/{id}/{what}"), &json!({})).await?;
    tell(&answer, json, || {
        let status = answer["status"].as_str().unwrap_or("unknown");
        match what {
            "cancel" if status != "cancelled" => format!("{id} is asked to stop; it was {}", line(status)),
            _ => format!("{id} is {}", line(status)),
        }
    });
    Ok(exit::OK)
}

async fn decide(remote: &Remote, options: confirm::Options, json: bool) -> anyhow::Result<u8> {
    let id = resolve(remote, options.session()).await?;
    let (report, _) = look(remote, id).await?;
    let call = match options.call() {
        Some(call) => call.to_owned(),
        None => confirm::only_call(id, &report.pending_confirmations)?,
    };
    let mut body = json!({"decision": if options.approves() { "approve" } else { "deny" }});
    if let Some(comment) = options.comment() {
        body["comment"] = json!(comment);
    }
    // What is agreed to is what was looked at just now.
    if let Some(pending) = report.pending_confirmations.iter().find(|pending| pending.call_id == call) {
        body["arguments_hash"] = json!(pending.arguments_hash);
    }
    let answer = remote.post(&format!("v1/sessions/{id}/confirmations/{}", segment(&call)), &body).await?;
    tell(&answer, json, || format!("{} is {}", line(&call), line(answer["decision"].as_str().unwrap_or("decided"))));
    Ok(exit::OK)
}

fn tell(answer: &Value, json: bool, text: impl FnOnce() -> String) {
    if json { say_json(answer) } else { say(text()) }
}

/// A name as one segment of a path.
fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_call_stays_one_segment_whatever_a_model_named_it() {
        assert_eq!(segment("call_1-a"), "call_1-a");
        assert_eq!(segment("../a?b#c d"), "%2E%2E%2Fa%3Fb%23c%20d");
    }
}
