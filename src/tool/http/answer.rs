//! What an answer means: its status, the service's own word that it failed, and the part that is
//! the result. It is read to a limit and no further.

use reqwest::Response;
use serde_json::{Value, json};

use super::{Client, Failure, Plan};
use crate::{
    core::{Fault, FaultKind, port::ToolReply, retry_after},
    web::describe,
};

/// Bytes of an error's body that are read.
const MAX_ERROR: u64 = 64 << 10;
/// Letters of a service's own words that are kept.
const MAX_WORDS: usize = 300;

pub(super) async fn read(plan: &Plan, client: &Client, response: Response) -> Result<ToolReply, Fault> {
    let status = response.status().as_u16();
    if let Some(kind) = FaultKind::of_status(status) {
        return Err(failure(plan, client, response, kind).await);
    }
    let body = body(response, plan.max_bytes).await?;
    if body.is_empty() && plan.result.is_none() && plan.failure.is_none() {
        return Ok(ToolReply::Json(json!({ "status": status })));
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(answer) => meaning(plan, answer),
        Err(_) if plan.result.is_none() && plan.failure.is_none() => {
            let text = String::from_utf8(body);
            text.map(ToolReply::Text).map_err(|_| malformed("the answer is neither JSON nor UTF-8 text"))
        }
        Err(_) => Err(malformed("the answer is no JSON")),
    }
}

/// What an answer in JSON says.
fn meaning(plan: &Plan, mut answer: Value) -> Result<ToolReply, Fault> {
    if let Some(rule) = &plan.failure
        && rule.is_met(&answer)
    {
        let words = rule.message.as_ref().and_then(|pointer| answer.pointer(pointer)).map(words_of);
        let words = words.unwrap_or_else(|| "the service says that it failed".to_owned());
        return Err(Fault::new(FaultKind::ToolError, phrase(plan, &words)));
    }
    match &plan.result {
        None => Ok(ToolReply::Json(answer)),
        Some(pointer) => match answer.pointer_mut(pointer) {
            Some(part) => Ok(ToolReply::Json(part.take())),
            None => Err(malformed(&format!("the answer has nothing at {pointer}"))),
        },
    }
}

impl Failure {
    /// Whether an answer says that the service failed.
    fn is_met(&self, answer: &Value) -> bool {
        match (answer.pointer(&self.pointer), &self.equals) {
            (Some(found), Some(wanted)) => found == wanted,
            (Some(found), None) => !matches!(found, Value::Null | Value::Bool(false)),
            (None, _) => false,
        }
    }
}

async fn failure(plan: &Plan, client: &Client, response: Response, kind: FaultKind) -> Fault {
    let status = response.status().as_u16();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let wait = retry_after::asked(header, client.now());
    let body = body(response, MAX_ERROR).await.unwrap_or_default();
    let mut text = format!("the service answers {status}");
    // What is said about a refused credential may repeat a part of it.
    if kind == FaultKind::Auth {
        text.push_str(": the credential is refused");
    } else {
        let words = phrase(plan, &words_in(&body));
        text = if words.is_empty() { text } else { format!("{text}: {words}") };
    }
    let fault = Fault::new(kind, text).status(status);
    match wait {
        Some(wait) => fault.retry_after(wait),
        None => fault,
    }
}

async fn body(mut response: Response, most: u64) -> Result<Vec<u8>, Fault> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > most => {
                return Err(malformed(&format!("the answer is longer than {most} bytes")));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => {
                return Err(Fault::new(FaultKind::Transport, format!("the answer broke off: {}", describe(&error))));
            }
        }
    }
}

/// The words for people in an error's body: `detail`, `message`, `error`, `title`, or its text.
fn words_in(body: &[u8]) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(answer) => {
            let error = answer.get("error").filter(|error| error.is_object()).unwrap_or(&answer);
            let found = ["detail", "message", "error", "title"].iter().find_map(|key| error.get(key)?.as_str());
            found.map_or_else(|| answer.to_string(), str::to_owned)
        }
        // A page for browsers says nothing to a model.
        Err(_) if body.trim_ascii_start().starts_with(b"<") => String::new(),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    }
}

fn words_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Words as one line of a bounded length, without the tool's secrets.
fn phrase(plan: &Plan, words: &str) -> String {
    let mut words = words.to_owned();
    for secret in plan.secrets().filter(|secret| secret.len() >= 4) {
        words = words.replace(secret, "[key]");
    }
    let words = words.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

fn malformed(text: &str) -> Fault {
    Fault::new(FaultKind::Malformed, text)
}
