//! Calls that need a person: asking, what a decision changes, and what may run after it.
//!
//! An approval holds for one call, exactly as it was shown, until it expires. Nothing here waits:
//! a call that waits for a person is left alone, and whoever decides drives the session on.

use serde_json::{Value, json};

use super::{
    agent::{Agent, hash_of},
    tools::admit,
};
use crate::{
    core::{
        BlobHash, Fact, Principal, Sensitive, SpanId, Timestamp, ToolCall, ToolDefinition, ToolOutcome, ToolSpec,
        fact::{ConfirmationEnd, ConfirmationRequest, Decision},
        port::ToolContext,
        spec::Confirm,
    },
    journal::SessionLog,
    machine::state::{Confirmation, State},
    tool::{Admitted, Capped, Refusal, cap},
};

/// Bytes of a comment that the model reads.
const COMMENT_BYTES: usize = 2048;

/// What somebody says to a call that waits.
#[derive(Clone, Debug)]
pub struct Say {
    /// The call.
    pub call_id: String,
    /// Yes or no.
    pub approve: bool,
    /// Who says it: a principal's id.
    pub by: Sensitive<String>,
    /// What else they say; the model reads it where the answer is no.
    pub comment: Option<Sensitive<String>>,
    /// The arguments that they saw; others are refused. Nothing where they take what there is.
    pub arguments_hash: Option<BlobHash>,
}

/// A decision that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The call.
    pub call_id: String,
    /// What was decided.
    pub decision: Decision,
    /// When.
    pub at: Timestamp,
}

/// Why a decision is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// Nobody was asked.
    #[error("call {0:?} does not wait for a decision")]
    NotAsked(String),
    /// Other arguments than those that wait.
    #[error("the arguments that wait have the hash {waiting}, not {given}: look at them again")]
    OtherArguments {
        /// Of the arguments that wait.
        waiting: BlobHash,
        /// As given.
        given: BlobHash,
    },
    /// Somebody else decided.
    #[error("call {call_id:?} is {} already", .decision.label())]
    Decided {
        /// The call.
        call_id: String,
        /// What was decided.
        decision: Decision,
    },
    /// Its time is over.
    #[error("the time to decide on call {0:?} is over")]
    Expired(String),
}

impl Say {
    const fn decision(&self) -> Decision {
        if self.approve { Decision::Approved } else { Decision::Denied }
    }
}

/// How a decision stands to what the state knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It can be recorded as the end of this operation.
    Open(SpanId),
    /// The same was decided before.
    Same(Decided),
}

/// Holds what somebody says against the state, at this time.
///
/// # Errors
/// Why it is not taken.
pub fn weigh(state: &State, say: &Say, now: Timestamp) -> Result<Standing, Objection> {
    let Some(asked) = state.confirmation(&say.call_id) else {
        return Err(Objection::NotAsked(say.call_id.clone()));
    };
    if let Some(given) = say.arguments_hash
        && given != asked.request.arguments_hash
    {
        return Err(Objection::OtherArguments { waiting: asked.request.arguments_hash, given });
    }
    match &asked.end {
        Some((end, at)) if end.decision == say.decision() => {
            Ok(Standing::Same(Decided { call_id: say.call_id.clone(), decision: end.decision, at: *at }))
        }
        Some((end, _)) if end.decision == Decision::Expired => Err(Objection::Expired(say.call_id.clone())),
        Some((end, _)) => Err(Objection::Decided { call_id: say.call_id.clone(), decision: end.decision }),
        None if now >= asked.request.expires => Err(Objection::Expired(say.call_id.clone())),
        None => Ok(Standing::Open(asked.op)),
    }
}

/// The fact that a decision becomes.
pub fn decided(op: SpanId, say: Say) -> Fact {
    let decision = say.decision();
    Fact::ConfirmationDecided { op, end: ConfirmationEnd { decision, by: say.by, comment: say.comment } }
}

/// The facts that end the waiting of every call whose time is over.
pub fn expiries(state: &State, now: Timestamp) -> Vec<Fact> {
    let over = state.waiting().filter(|asked| now >= asked.request.expires);
    over.map(|asked| Fact::ConfirmationDecided { op: asked.op, end: ConfirmationEnd::of_itself(Decision::Expired) })
        .collect()
}

/// Whether a call is left alone because a person must decide first. Asks where nobody was asked
/// yet and the call could run; a call that could not is refused without asking anybody. A rate
/// limit counts runs, so it is asked when the call runs.
pub(super) fn waits(log: &SessionLog, agent: &Agent, call: &ToolCall, context: &ToolContext) -> bool {
    if let Some(waits) = log.read(|state| state.confirmation(&call.id).map(Confirmation::waits)) {
        return waits;
    }
    let suspends = agent.tools.spec(&call.name).is_some_and(|spec| spec.confirm == Confirm::Suspend);
    // Of a tool whose earlier call may or may not have happened, every further call needs a person.
    let doubtful = log.read(|state| state.is_doubtful(&call.name));
    if !suspends && !doubtful {
        return false;
    }
    match agent.tools.admit(call, context) {
        Ok(admitted) if doubtful || admitted.confirm == Confirm::Suspend => {
            log.ask(request(log, &context.principal, &call.id, admitted));
            true
        }
        Ok(_) | Err(_) => false,
    }
}

fn request(log: &SessionLog, principal: &Principal, call_id: &str, admitted: Admitted) -> ConfirmationRequest {
    let spec = admitted.tool.spec();
    ConfirmationRequest {
        step: log.read(State::steps),
        call_id: call_id.to_owned(),
        tool: spec.name().to_owned(),
        arguments_hash: canonical_hash(&admitted.arguments),
        definition_hash: definition_hash(&admitted.definition, spec),
        arguments: admitted.arguments,
        principal: principal.clone(),
        expires: log.now().plus(spec.confirm_expires),
    }
}

/// Admits a call that does not wait: what a person has agreed to runs exactly so, and nothing
/// else that needs a person runs at all.
pub(super) fn clear(
    log: &SessionLog,
    agent: &Agent,
    call: &ToolCall,
    context: &ToolContext,
) -> Result<Admitted, Refusal> {
    let Some(asked) = log.read(|state| state.confirmation(&call.id).cloned()) else {
        return admit(log, agent, call, context);
    };
    check_decision(&asked, log.now())?;
    let admitted = admit(log, agent, call, context)?;
    let Some(why) = changed(&asked.request, &admitted, context) else {
        return Ok(Admitted { arguments: asked.request.arguments, ..admitted });
    };
    let text = format!("Access denied: {why} of {} changed after a person agreed. The call was not made.", call.name);
    Err(refusal(ToolOutcome::Denied, text))
}

fn check_decision(asked: &Confirmation, now: Timestamp) -> Result<(), Refusal> {
    let (tool, end) = (&asked.request.tool, asked.end.as_ref().map(|(end, _)| end));
    match end.map(|end| end.decision) {
        Some(Decision::Approved) if now < asked.request.expires => Ok(()),
        Some(Decision::Approved) => {
            let text = format!("The approval of {tool} is no longer valid: it expired before the call was made.");
            Err(refusal(ToolOutcome::Expired, text))
        }
        Some(Decision::Denied) => {
            let comment = end.and_then(|end| end.comment.as_ref()).map_or(String::new(), |comment| {
                let Capped { text, .. } = cap(comment.expose().clone(), COMMENT_BYTES);
                format!(" They say: {text}")
            });
            let text = format!("A person said no to this call of {tool}. It was not made.{comment}");
            Err(refusal(ToolOutcome::Rejected, text))
        }
        Some(Decision::Expired | Decision::Withdrawn) | None => {
            let text = format!("Nobody agreed to this call of {tool} in time. It was not made.");
            Err(refusal(ToolOutcome::Expired, text))
        }
    }
}

/// What is no longer as it was when a person agreed.
fn changed(request: &ConfirmationRequest, admitted: &Admitted, context: &ToolContext) -> Option<&'static str> {
    if definition_hash(&admitted.definition, admitted.spec()) != request.definition_hash {
        Some("the definition")
    } else if *context.principal != request.principal {
        Some("the customer")
    } else if [&admitted.arguments, &request.arguments].map(canonical_hash) != [request.arguments_hash; 2] {
        Some("the arguments")
    } else {
        None
    }
}

fn refusal(outcome: ToolOutcome, text: String) -> Refusal {
    Refusal { outcome, text, arguments_valid: Some(true) }
}

/// What a call is, beside its arguments. Together with the principal, the bound arguments fix the
/// identity that the call is made with.
pub(super) fn definition_hash(definition: &ToolDefinition, spec: &ToolSpec) -> BlobHash {
    let mut whole = json!({ "definition": definition, "effect": spec.effect });
    // A tool that is bound to nothing keeps the hash that older journals hold.
    if !spec.bind.is_empty() {
        whole["bind"] = json!(spec.bind);
    }
    canonical_hash(&whole)
}

/// SHA-256 of a value as canonical JSON (RFC 8785).
pub(super) fn canonical_hash(value: &Value) -> BlobHash {
    hash_of(&serde_json_canonicalizer::to_vec(value).expect("a JSON value has finite numbers only"))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn arguments_hash_as_the_standard_writes_them() {
        // RFC 8785: keys by UTF-16 units, numbers as ECMAScript prints them, no spaces.
        let value = json!({"\u{20ac}": 1e21, "b": [4.50, 2e-3, 1e-27], "a": "\u{f}\n\"ж", "c": 3.0});
        let text = "{\"a\":\"\\u000f\\n\\\"ж\",\"b\":[4.5,0.002,1e-27],\"c\":3,\"\u{20ac}\":1e+21}";
        assert_eq!(canonical_hash(&value), BlobHash::from_bytes(Sha256::digest(text).into()));
    }

    #[test]
    fn the_order_of_keys_is_no_difference() {
        assert_eq!(canonical_hash(&json!({"a": 1, "b": 2})), canonical_hash(&json!({"b": 2, "a": 1})));
        assert_ne!(canonical_hash(&json!({"a": 1})), canonical_hash(&json!({"a": "1"})));
    }
}
