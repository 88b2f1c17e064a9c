//! One step's tool calls: side by side, each through its whole path, each with its observation.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};

use super::{
    agent::Agent,
    cached,
    confirm::{self, Say},
};
use crate::{
    core::{
        Effect, Fact, Fault, Principal, Sensitive, SpanId, ToolCall, ToolOutcome, ToolSpec,
        fact::{Observation, ToolCallBegin, ToolCallEnd},
        message::estimate_tokens,
        op::unknown_outcome_text,
        port::{ToolContext, ToolReply, TraceContext},
    },
    journal::SessionLog,
    policy::{Limited, ToolInput, ToolVerdict, whole_seconds},
    tool::{Admitted, Capped, DEFAULT_RESULT_BYTES, Refusal, cap},
};

/// Runs the calls, at most `max_parallel_tools` at a time. Results are recorded as they come and
/// enter the history in call order.
pub(super) async fn run_tools(log: &SessionLog, agent: &Agent, principal: &Arc<Principal>, calls: Vec<ToolCall>) {
    // Boxed, so that a session that waits for its model keeps no room for the way of a call.
    let run = |call| Box::pin(run_call(log, agent, principal, call));
    let calls = match <[ToolCall; 1]>::try_from(calls) {
        Ok([only]) => return run(only).await,
        Err(calls) => calls,
    };
    let width = log.read(|state| state.limits().max_parallel_tools).max(1);
    let width = usize::try_from(width).unwrap_or(usize::MAX);
    stream::iter(calls).map(run).buffer_unordered(width).for_each(|()| std::future::ready(())).await;
}

/// Runs one call that no model asked for, through its whole path; where a person must agree,
/// whoever tries it has said whether they do.
pub async fn try_call(log: &SessionLog, agent: &Agent, principal: &Arc<Principal>, call: ToolCall, approve: bool) {
    run_call(log, agent, principal, call.clone()).await;
    let waits = log.read(|state| state.confirmation(&call.id).filter(|asked| asked.waits()).map(|asked| asked.op));
    if let Some(op) = waits {
        let by = principal.id.clone().into();
        let say = Say { call_id: call.id.clone(), approve, by, comment: None, arguments_hash: None };
        log.record(confirm::decided(op, say));
        run_call(log, agent, principal, call).await;
    }
}

async fn run_call(log: &SessionLog, agent: &Agent, principal: &Arc<Principal>, call: ToolCall) {
    if confirm::waits(log, agent, &call, &context(log, log.root(), principal, &call.id)) {
        return;
    }
    let begin = ToolCallBegin {
        step: log.read(|state| state.steps()),
        call_id: call.id.clone(),
        tool: call.name.clone(),
        known: agent.tools.names().any(|name| name == call.name),
        arguments: call.arguments.clone(),
    };
    let had_effect = log
        .observe(begin, |op| async move {
            let context = context(log, log.trace(op), principal, &call.id);
            match confirm::clear(log, agent, &call, &context) {
                Err(refusal) => (refused(call.id, refusal), false),
                Ok(admitted) => {
                    let had_effect = admitted.spec().effect != Effect::Read;
                    (run_admitted(log, op, agent, principal, admitted, call.id).await, had_effect)
                }
            }
        })
        .await;
    if had_effect {
        // The result of an effect is durable before anything builds on it; a journal that cannot
        // write shows at the next barrier, which the loop does not pass either.
        let _ = log.flush().await;
    }
}

/// Runs a call that may run, unless its result is still known.
async fn run_admitted(
    log: &SessionLog,
    op: SpanId,
    agent: &Agent,
    principal: &Arc<Principal>,
    admitted: Admitted,
    call_id: String,
) -> ToolCallEnd {
    let place = cached::place(&admitted, principal);
    if let Some(reply) = place.as_ref().and_then(|place| agent.policy.cache.get(place, log.now())) {
        return known(log, call_id, reply);
    }
    let input = input(admitted, principal, call_id);
    let verdict = agent.policy.call_tool(log, op, &input).await;
    if let (Some(place), Ok(reply)) = (&place, &verdict.result) {
        agent.policy.cache.put(place, reply, log.now());
    }
    settled(log, agent, input, verdict)
}

/// The way into the tool; a call that comes too often is recorded as such.
pub(super) fn admit(
    log: &SessionLog,
    agent: &Agent,
    call: &ToolCall,
    context: &ToolContext,
) -> Result<Admitted, Refusal> {
    agent.tools.admit_by(call, context, |spec| {
        agent.policy.limits.check(spec.name(), &context.principal.id).map_err(|limited| {
            let wait_ms = u64::try_from(limited.wait.as_millis()).unwrap_or(u64::MAX);
            log.record(Fact::RateLimited {
                limit: limited.limit,
                tool: Some(spec.name().to_owned()),
                wait_ms,
                times: 1,
            });
            Refusal::valid(ToolOutcome::RateLimited, rate_limited_text(spec.name(), limited))
        })
    })
}

fn context(log: &SessionLog, trace: TraceContext, principal: &Arc<Principal>, call_id: &str) -> ToolContext {
    ToolContext::new(log.id(), principal.clone(), call_id, trace)
}

fn input(admitted: Admitted, principal: &Arc<Principal>, call_id: String) -> ToolInput {
    let tool = admitted.tool.clone();
    let (timeout, effect) = (tool.spec().timeout, tool.spec().effect);
    ToolInput { tool, arguments: admitted.into_arguments(), principal: principal.clone(), call_id, timeout, effect }
}

/// The end of a call that was refused before any attempt.
fn refused(call_id: String, refusal: Refusal) -> ToolCallEnd {
    ToolCallEnd {
        call_id,
        outcome: refusal.outcome,
        observation: observation(refusal.text, true),
        arguments_valid: refusal.arguments_valid,
        error: None,
        attempts: 0,
        cached: false,
    }
}

/// The end of a call whose result an earlier one got.
fn known(log: &SessionLog, call_id: String, reply: ToolReply) -> ToolCallEnd {
    ToolCallEnd {
        call_id,
        outcome: ToolOutcome::Ok,
        observation: result_observation(log, reply),
        arguments_valid: Some(true),
        error: None,
        attempts: 0,
        cached: true,
    }
}

/// The end of a call whose attempts are over.
fn settled(log: &SessionLog, agent: &Agent, input: ToolInput, verdict: ToolVerdict) -> ToolCallEnd {
    let spec = input.tool.spec();
    let (observation, error) = match verdict.result {
        Ok(reply) => (result_observation(log, reply), None),
        Err(fault) => {
            let other =
                alternative(agent, &input.principal, spec).filter(|_| verdict.outcome == ToolOutcome::CircuitOpen);
            let text = error_observation(spec.name(), verdict.outcome, &fault, other);
            (observation(text, true), Some(Sensitive::new(fault.detail)))
        }
    };
    ToolCallEnd {
        call_id: input.call_id,
        outcome: verdict.outcome,
        observation,
        arguments_valid: Some(true),
        error,
        attempts: verdict.attempts,
        cached: false,
    }
}

/// A result as the model reads it: capped, the whole kept under its hash.
fn result_observation(log: &SessionLog, reply: ToolReply) -> Observation {
    let Capped { text, whole } = cap(reply.into_text(), DEFAULT_RESULT_BYTES);
    let hash = whole.map(|blob| {
        let hash = blob.hash;
        log.keep(blob);
        hash
    });
    Observation { whole: hash, ..observation(text, false) }
}

/// The tool that stands in for one that cannot be reached: one that the principal may use and
/// that can be reached itself.
fn alternative<'a>(agent: &'a Agent, principal: &Principal, spec: &ToolSpec) -> Option<&'a str> {
    let named = spec.fallback_tool.as_deref()?;
    let other = agent.tools.specs(principal).find(|other| other.name() == named)?;
    (!agent.policy.is_unavailable(other)).then(|| other.name())
}

fn error_observation(name: &str, outcome: ToolOutcome, fault: &Fault, other: Option<&str>) -> String {
    if outcome == ToolOutcome::UnknownOutcome {
        return unknown_outcome_text(name, &fault.to_string());
    }
    if outcome == ToolOutcome::CircuitOpen {
        let other = other.unwrap_or("another tool");
        return format!("Tool unavailable, {}. Use {other} or answer with what you know.", fault.detail);
    }
    if outcome == ToolOutcome::RateLimited {
        return format!(
            "Error: {name} was not called: {}. Try again later, or answer with what you know.",
            fault.detail
        );
    }
    format!("Error: {name} failed ({fault}). Try something else or answer with what you know.")
}

fn rate_limited_text(name: &str, limited: Limited) -> String {
    let seconds = whole_seconds(limited.wait);
    format!("Error: {name} is called too often. Retry after {seconds}s, or answer with what you know.")
}

fn observation(content: String, is_error: bool) -> Observation {
    let tokens = estimate_tokens(&content);
    Observation { content, is_error, tokens, whole: None }
}
