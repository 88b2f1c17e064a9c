//! What was said to the models, rebuilt from a journal: each request as it was sent and what
//! came back. Nothing is stored twice; the hash in the journal proves the rebuilt body.

use super::{
    Old,
    prompt::{Prompt, request},
    state::State,
};
use crate::core::{
    Entry, Fact, ModelRequest, SpanId, Timestamp,
    fact::{ModelCall, ModelCallEnd},
};

/// One model call, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// When it began.
    pub at: Timestamp,
    /// What the journal says of it.
    pub call: ModelCall,
    /// The request, rebuilt.
    pub request: ModelRequest,
    /// How it ended; nothing while it runs.
    pub end: Option<ModelCallEnd>,
}

/// Every model call of a journal, in order.
pub fn transcript(entries: &[Entry], prompt: &Prompt) -> Vec<Exchange> {
    let mut state = State::default();
    let mut exchanges: Vec<(SpanId, Exchange)> = Vec::new();
    for entry in entries {
        match &entry.fact {
            Fact::ModelCallStarted { op, call } => {
                let request = request(&state, prompt, call.purpose, call.max_tokens, Old::of(call));
                let exchange = Exchange { at: entry.at, call: (**call).clone(), request, end: None };
                exchanges.push((*op, exchange));
            }
            Fact::ModelCallFinished { op, end } => {
                if let Some((_, exchange)) = exchanges.iter_mut().rev().find(|(open, _)| open == op) {
                    exchange.end = Some((**end).clone());
                }
            }
            Fact::SessionStarted(_)
            | Fact::SessionSuspended { .. }
            | Fact::SessionResumed { .. }
            | Fact::CancelRequested { .. }
            | Fact::ModelAttemptStarted { .. }
            | Fact::ModelAttemptFinished { .. }
            | Fact::ToolCallStarted { .. }
            | Fact::ToolAttemptStarted { .. }
            | Fact::ToolAttemptFinished { .. }
            | Fact::ToolCallFinished { .. }
            | Fact::ConfirmationRequested { .. }
            | Fact::ConfirmationDecided { .. }
            | Fact::RateLimited { .. }
            | Fact::ContextCompacted { .. }
            | Fact::LimitReached { .. }
            | Fact::AnswerChecked { .. }
            | Fact::HandedOver { .. }
            | Fact::SessionFinished(_)
            | Fact::ModelFallback { .. }
            | Fact::CircuitChanged(_)
            | Fact::ToolDefinitionChanged(_)
            | Fact::PrimaryChanged { .. }
            | Fact::ModelChecked { .. }
            | Fact::ProcessStarted { .. }
            | Fact::ProcessStopped { .. }
            | Fact::ConfigReloaded { .. }
            | Fact::HandoverChanged(_)
            | Fact::SessionsErased { .. } => {}
        }
        state.apply(&entry.fact, entry.at);
    }
    exchanges.into_iter().map(|(_, exchange)| exchange).collect()
}
