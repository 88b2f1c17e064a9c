//! A model that answers from a script: no key, no network, the same each time.
//!
//! What it answers follows from the request alone, so a session that another process resumes
//! goes on as it would have. The one exception is a fault that strikes a set number of times,
//! which is counted for each trace in this process.

mod script;
mod template;
mod turn;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;

use self::{
    script::{FaultSpec, Rule, Script, StreamSpec, UsageSpec},
    turn::Turn,
};
use crate::core::{
    Fault, FaultKind, Model, ModelReply, ModelRequest, ToolCall, TraceId, Usage,
    fact::ModelInfo,
    message::estimate_tokens,
    port::{ModelCallInput, Progress},
};

pub use self::script::Error;

/// The script of the bank assistant.
pub const BANK: &str = include_str!("scripted/bank.yaml");

/// Traces whose faults are counted; when there are more, counting begins anew.
const MAX_COUNTED: usize = 65_536;

/// A model that answers from a script.
#[derive(Debug)]
pub struct Scripted {
    info: ModelInfo,
    script: Script,
    /// How often the fault of a rule struck in a trace.
    struck: Mutex<HashMap<(TraceId, usize), u32>>,
}

impl Scripted {
    /// Reads a script.
    ///
    /// # Errors
    /// Where the text is no YAML or has unknown keys (with the line), or rules are wrong (all).
    pub fn from_yaml(info: ModelInfo, text: &str) -> Result<Self, Error> {
        Ok(Self { info, script: Script::from_yaml(text)?, struck: Mutex::default() })
    }

    /// The bank assistant.
    ///
    /// # Errors
    /// None in practice: a test reads the script.
    pub fn bank(info: ModelInfo) -> Result<Self, Error> {
        Self::from_yaml(info, BANK)
    }

    /// The first rule that matches and has something left to say, and whether its fault strikes.
    fn pick(&self, turn: &Turn<'_>, trace: TraceId) -> Option<(&Rule, Option<&FaultSpec>)> {
        self.script.rules.iter().enumerate().filter(|(_, rule)| rule.when.matches(turn)).find_map(|(index, rule)| {
            match &rule.fault {
                Some(fault) if self.strikes((trace, index), fault.times) => Some((rule, Some(fault))),
                Some(_) if !rule.answers() => None,
                _ => Some((rule, None)),
            }
        })
    }

    fn strikes(&self, place: (TraceId, usize), times: Option<u32>) -> bool {
        let Some(times) = times else { return true };
        let mut struck = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        if struck.len() >= MAX_COUNTED && !struck.contains_key(&place) {
            struck.clear();
        }
        let count = struck.entry(place).or_default();
        *count = count.saturating_add(1);
        *count <= times
    }

    fn reply(&self, rule: &Rule, turn: &Turn<'_>, body: &[u8]) -> ModelReply {
        let text = rule.text.as_deref().map(|text| template::render(text, turn)).unwrap_or_default();
        let calls: Vec<ToolCall> = rule.calls().map(script::Call::to_call).collect();
        let usage = match self.usage_of(rule) {
            Some(usage) => usage.to_usage(),
            None => estimate(body, &text, &calls),
        };
        let finish_reason = rule.finish_reason.as_deref();
        let finish_reason = finish_reason.unwrap_or(if calls.is_empty() { "end_turn" } else { "tool_use" }).to_owned();
        ModelReply { text, calls, usage, model: self.info.request_model.clone(), finish_reason }
    }

    /// The tokens that the script names for replies of this rule.
    fn usage_of<'a>(&'a self, rule: &'a Rule) -> Option<&'a UsageSpec> {
        rule.usage.as_ref().or(self.script.usage.as_ref())
    }

    fn no_rule(&self, turn: &Turn<'_>) -> Fault {
        let detail = format!("script {:?} has no rule for {}", self.script.name, turn.describe_last());
        Fault::new(FaultKind::Refused, detail)
    }
}

#[async_trait]
impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        serde_json::to_vec(request).expect("a request is plain data with text keys")
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        let turn = Turn::of(call.request);
        let (rule, fault) = self.pick(&turn, call.trace.trace_id).ok_or_else(|| self.no_rule(&turn))?;
        if let Some(delay) = rule.delay {
            tokio::time::sleep(delay.0).await;
        }
        // A fault strikes before anything is said, unless it waits for some pieces.
        let pieces = fault.map_or(usize::MAX, |fault| fault.after.unwrap_or(0));
        let reply = self.reply(rule, &turn, call.body);
        if pieces > 0 {
            let input = self.usage_of(rule).map_or_else(|| estimated_input(call.body), |usage| usage.input);
            say(&reply.text, rule.stream, pieces, input, call.progress).await;
        }
        if let Some(fault) = fault {
            return Err(fault.to_fault());
        }
        assert!(!rule.panic, "the script says panic");
        Ok(reply)
    }
}

/// Gives at most so many pieces of a text as they would come from a provider; all of it at once
/// where it is not cut into any.
async fn say(text: &str, stream: Option<StreamSpec>, pieces: usize, input: u64, progress: &dyn Progress) {
    let size = stream.map_or(usize::MAX, |stream| stream.letters.get());
    let mut given = 0;
    for piece in pieces_of(text, size).take(pieces) {
        if let Some(pause) = stream.and_then(|stream| stream.pause) {
            tokio::time::sleep(pause.0).await;
        }
        given += piece.len();
        let output = estimate_tokens(&text[..given]);
        progress.received(piece, Usage { input, output, estimated: true, ..Usage::default() });
    }
}

/// A text in pieces of so many letters.
fn pieces_of(text: &str, letters: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(letters).map_or(rest.len(), |(at, _)| at);
        let (piece, left) = rest.split_at(end);
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

fn estimated_input(body: &[u8]) -> u64 {
    (body.len() as u64).div_ceil(4)
}

fn estimate(body: &[u8], text: &str, calls: &[ToolCall]) -> Usage {
    let asked = calls.iter().map(|call| serde_json::to_string(call).unwrap_or_default()).collect::<String>();
    Usage {
        input: estimated_input(body),
        output: estimate_tokens(text).saturating_add(estimate_tokens(&asked)),
        estimated: true,
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests;
