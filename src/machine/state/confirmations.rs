//! What a session has asked people to agree to, and what they said.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::{
    SpanId, Timestamp, ToolOutcome,
    fact::{ConfirmationEnd, ConfirmationRequest, ToolCallEnd},
};

/// One call that waits, or waited, for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    /// The operation and its span.
    pub op: SpanId,
    /// What is asked.
    pub request: ConfirmationRequest,
    /// When it was asked.
    pub asked: Timestamp,
    /// What was decided, and when.
    pub end: Option<(ConfirmationEnd, Timestamp)>,
    /// Whether an attempt relied on it: a yes holds once.
    used: bool,
}

/// All of one session, by the id of the call.
#[derive(Clone, Debug, Default)]
pub(super) struct Confirmations {
    by_call: BTreeMap<String, Confirmation>,
    /// Tools of which nobody knows whether a call of them happened.
    doubtful: BTreeSet<String>,
}

impl Confirmation {
    /// Whether nobody has decided yet.
    pub const fn waits(&self) -> bool {
        self.end.is_none()
    }
}

impl Confirmations {
    /// None yet, with these tools in doubt since an earlier session of the conversation.
    pub(super) fn doubting(tools: &[String]) -> Self {
        Self { doubtful: tools.iter().cloned().collect(), ..Self::default() }
    }

    pub(super) fn ask(&mut self, op: SpanId, request: &ConfirmationRequest, at: Timestamp) {
        let confirmation = Confirmation { op, request: request.clone(), asked: at, end: None, used: false };
        self.by_call.insert(request.call_id.clone(), confirmation);
    }

    pub(super) fn decide(&mut self, op: SpanId, end: &ConfirmationEnd, at: Timestamp) {
        if let Some(confirmation) = self.by_call.values_mut().find(|confirmation| confirmation.op == op) {
            confirmation.end.get_or_insert_with(|| (end.clone(), at));
        }
    }

    /// An attempt of this call goes out.
    pub(super) fn attempt(&mut self, call_id: &str) {
        if let Some(confirmation) = self.by_call.get_mut(call_id) {
            confirmation.used = true;
        }
    }

    /// A call ended. One that is lost follows again: with the yes that it has, unless an attempt
    /// relied on that.
    pub(super) fn call_ended(&mut self, tool: Option<&str>, end: &ToolCallEnd) {
        if end.outcome == ToolOutcome::Lost && self.by_call.get(&end.call_id).is_some_and(|asked| asked.used) {
            self.by_call.remove(&end.call_id);
        }
        if let Some(tool) = tool
            && end.outcome == ToolOutcome::UnknownOutcome
        {
            self.doubtful.insert(tool.to_owned());
        }
    }

    pub(super) fn get(&self, call_id: &str) -> Option<&Confirmation> {
        self.by_call.get(call_id)
    }

    pub(super) fn is_doubtful(&self, tool: &str) -> bool {
        self.doubtful.contains(tool)
    }

    pub(super) fn doubtful(&self) -> impl Iterator<Item = &String> {
        self.doubtful.iter()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Confirmation> {
        self.by_call.values().filter(|confirmation| confirmation.waits())
    }
}
