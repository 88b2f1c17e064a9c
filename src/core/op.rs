//! Operations: whatever takes time and has a beginning and an end in the journal.
//!
//! Two sorts. *Durable* ones (a session, the wait for a confirmation) are opened once,
//! may be reopened by id in another process, and are closed once. *Process-bound* ones (a call,
//! an attempt) end with their process; whoever resumes closes them as lost.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{
    fact::{
        AttemptEnd, Fact, HandoverCause, McpPeer, ModelCall, ModelCallEnd, ModelOutcome, Observation, ToolCallBegin,
        ToolCallEnd,
    },
    id::SpanId,
    message::Usage,
    outcome::ToolOutcome,
    sensitive::Sensitive,
    spec::Effect,
};

/// What is known of an operation when it is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Attempts begun inside it.
    pub attempts: u32,
    /// The effect of an attempt inside it that nobody knows the result of.
    pub unsettled: Option<Effect>,
}

/// A process-bound operation: what the seam `observe` records around a future.
pub trait Operation {
    /// What the future gives, and the finished fact holds.
    type End;

    /// The fact that opens it. `op` is the id that the seam derived for it.
    fn started(&self, op: SpanId) -> Fact;

    /// The fact that closes it.
    fn finished(&self, op: SpanId, end: Self::End) -> Fact;

    /// Facts that must become durable together with its end.
    fn consequences(&self, _end: &Self::End) -> Vec<Fact> {
        Vec::new()
    }

    /// Its end when the future was dropped in the middle: cancelled, not a fault.
    fn cancelled(&self, cut: Cut) -> Self::End;

    /// Its end when its process died.
    fn lost(&self, cut: Cut) -> Self::End;

    /// The span that work inside it belongs to: its own, or that of the call around it.
    fn span(&self, op: SpanId) -> SpanId {
        op
    }
}

impl Operation for ModelCall {
    type End = ModelCallEnd;

    fn started(&self, op: SpanId) -> Fact {
        Fact::ModelCallStarted { op, call: Arc::new(self.clone()) }
    }

    fn finished(&self, op: SpanId, end: ModelCallEnd) -> Fact {
        Fact::ModelCallFinished { op, end: Box::new(end) }
    }

    fn cancelled(&self, cut: Cut) -> ModelCallEnd {
        unanswered(ModelOutcome::Cancelled, cut)
    }

    fn lost(&self, cut: Cut) -> ModelCallEnd {
        unanswered(ModelOutcome::Lost, cut)
    }
}

/// A model call that ended without a reply of its own.
const fn unanswered(outcome: ModelOutcome, cut: Cut) -> ModelCallEnd {
    let usage = Usage { input: 0, output: 0, cache_read: 0, cache_write: 0, reasoning: 0, estimated: false };
    ModelCallEnd { outcome, reply: None, usage, error: None, attempts: cut.attempts }
}

impl Operation for ToolCallBegin {
    type End = ToolCallEnd;

    fn started(&self, op: SpanId) -> Fact {
        Fact::ToolCallStarted { op, call: Box::new(self.clone()) }
    }

    fn finished(&self, op: SpanId, end: ToolCallEnd) -> Fact {
        Fact::ToolCallFinished { op, end: Box::new(end) }
    }

    /// An unknown outcome never stands without the record that an operator finds.
    fn consequences(&self, end: &ToolCallEnd) -> Vec<Fact> {
        if end.outcome != ToolOutcome::UnknownOutcome {
            return Vec::new();
        }
        let detail = Sensitive::new(format!("call {} of {} may or may not have happened", self.call_id, self.tool));
        let tool = Some(self.tool.clone());
        vec![Fact::HandedOver { cause: HandoverCause::UnknownOutcome, detail, tool }]
    }

    fn cancelled(&self, cut: Cut) -> ToolCallEnd {
        self.interrupted(cut, ToolOutcome::Cancelled, "the session was stopped before the tool answered")
    }

    fn lost(&self, cut: Cut) -> ToolCallEnd {
        self.interrupted(cut, ToolOutcome::Lost, "the process that ran the tool died")
    }
}

impl ToolCallBegin {
    /// An unsafe attempt that was cut off may have happened: that is its outcome, whatever cut it.
    fn interrupted(&self, cut: Cut, outcome: ToolOutcome, content: &str) -> ToolCallEnd {
        match cut.unsettled {
            Some(Effect::Unsafe) => {
                self.ended(cut, ToolOutcome::UnknownOutcome, &unknown_outcome_text(&self.tool, content))
            }
            Some(Effect::Read | Effect::Idempotent) | None => self.ended(cut, outcome, content),
        }
    }

    /// An end with an error observation. What was attempted had arguments that fit; what is lost
    /// is asked again, and says so then.
    fn ended(&self, cut: Cut, outcome: ToolOutcome, content: &str) -> ToolCallEnd {
        ToolCallEnd {
            call_id: self.call_id.clone(),
            outcome,
            observation: Observation {
                content: content.to_owned(),
                is_error: outcome.is_error(),
                tokens: crate::core::message::estimate_tokens(content),
                whole: None,
            },
            arguments_valid: (cut.attempts > 0 && outcome != ToolOutcome::Lost).then_some(true),
            error: None,
            attempts: cut.attempts,
            cached: false,
        }
    }
}

/// What the model reads of a call that may or may not have happened.
pub fn unknown_outcome_text(tool: &str, cause: &str) -> String {
    format!(
        "Error: the outcome of {tool} is unknown ({cause}). It may have happened. Do not call it again; an operator \
         will check. Go on with what you know."
    )
}

/// One request of a model call.
#[derive(Clone, Debug)]
pub struct ModelAttempt {
    /// The call that it belongs to.
    pub call: SpanId,
    /// From 1.
    pub attempt: u32,
    /// The configured model that is asked.
    pub model: String,
    /// Milliseconds waited since the attempt before.
    pub wait_ms: u64,
}

impl Operation for ModelAttempt {
    type End = AttemptEnd<ModelOutcome>;

    fn started(&self, _op: SpanId) -> Fact {
        let (call, attempt, wait_ms) = (self.call, self.attempt, self.wait_ms);
        Fact::ModelAttemptStarted { call, attempt, model: self.model.clone(), wait_ms }
    }

    fn finished(&self, _op: SpanId, end: Self::End) -> Fact {
        Fact::ModelAttemptFinished { call: self.call, attempt: self.attempt, end }
    }

    fn cancelled(&self, _cut: Cut) -> Self::End {
        AttemptEnd::new(ModelOutcome::Cancelled, None)
    }

    fn lost(&self, _cut: Cut) -> Self::End {
        AttemptEnd::new(ModelOutcome::Lost, None)
    }

    fn span(&self, _op: SpanId) -> SpanId {
        self.call
    }
}

/// One attempt of a tool call.
#[derive(Clone, Debug)]
pub struct ToolAttempt {
    /// The call that it belongs to.
    pub call: SpanId,
    /// From 1.
    pub attempt: u32,
    /// What the call changes.
    pub effect: Effect,
    /// Milliseconds waited since the attempt before.
    pub wait_ms: u64,
    /// The MCP server that is asked; nothing for tools of other kinds.
    pub mcp: Option<Box<McpPeer>>,
    /// Whether it has gone out. Until its intent is durable it has not, and whoever cuts it off
    /// then can be sure of that.
    pub begun: Arc<AtomicBool>,
}

impl Operation for ToolAttempt {
    type End = AttemptEnd<ToolOutcome>;

    fn started(&self, _op: SpanId) -> Fact {
        let (call, attempt, wait_ms) = (self.call, self.attempt, self.wait_ms);
        Fact::ToolAttemptStarted { call, attempt, effect: self.effect, wait_ms, mcp: self.mcp.clone() }
    }

    fn finished(&self, _op: SpanId, end: Self::End) -> Fact {
        Fact::ToolAttemptFinished { call: self.call, attempt: self.attempt, end }
    }

    fn cancelled(&self, _cut: Cut) -> Self::End {
        let not_begun = !self.begun.load(Ordering::Acquire);
        AttemptEnd { not_begun, ..AttemptEnd::new(ToolOutcome::Cancelled, None) }
    }

    fn lost(&self, _cut: Cut) -> Self::End {
        AttemptEnd::new(ToolOutcome::Lost, None)
    }

    fn span(&self, _op: SpanId) -> SpanId {
        self.call
    }
}
