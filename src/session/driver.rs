//! The loop: `loop { match decide(state) }`.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    agent::{Agent, Chosen, hash_of},
    report::PendingConfirmation,
    tools::run_tools,
};
use crate::{
    core::{
        Fact, Model, Principal, Sensitive, SessionStatus,
        fact::{CallPurpose, CountedBy, Limit, ModelCall, SessionEnd, SuspendCause},
        port::StoreError,
    },
    journal::SessionLog,
    machine::{
        Old, Prompt, State, Step, Surroundings,
        answer::without_fence,
        budget::{Allowance, Count, Measure},
        decide,
        prompt::request,
        reply::settle_ids,
    },
    policy::{Entrance, MeteredCall, ModelInput},
    tool::Schema,
};

/// What may reach a session from outside while it runs.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Stops it for good, at once.
    pub cancel: CancellationToken,
    /// Suspends it at the next step boundary.
    pub suspend: CancellationToken,
    /// Another process took it over: this one stops at once and writes nothing more.
    pub lost: CancellationToken,
}

/// How driving ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// The session ended.
    Finished(Box<SessionEnd>),
    /// It will go on later.
    Suspended,
    /// It goes on once a person has decided on these calls.
    AwaitingConfirmation(Vec<PendingConfirmation>),
    /// It goes on in another process.
    TakenOver,
}

/// The work of one step. Boxed, so that a session has room for the step that it is at, once, and
/// not for the longest that there is.
type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Why driving was interrupted in the middle of a step.
enum Interruption {
    Lost,
    Cancelled,
    Deadline,
}

/// Drives a session to its end, or to a suspension. What is returned is durable.
///
/// # Errors
/// Where the journal cannot make durable what happened; the session then goes on from what is.
pub async fn drive(
    log: &SessionLog,
    agent: &Agent,
    prompt: &Prompt,
    principal: &Arc<Principal>,
    signals: &Signals,
) -> Result<Ended, StoreError> {
    let mut counted = None;
    loop {
        if signals.lost.is_cancelled() {
            return Ok(Ended::TakenOver);
        }
        settle_journal(log).await?;
        let around = agent.surroundings(principal, log.now());
        // A count is of the history as it was then.
        let around = Surroundings { count: counted.take().unwrap_or(around.count), ..around };
        match log.read(|state| decide(state, prompt, around)) {
            Step::Finish(facts) => return finish(log, facts).await,
            Step::Compact(fact) | Step::FallBack(fact) => log.record(fact),
            Step::CheckAnswer(text) => log.record(checked(prompt, &text)),
            Step::AwaitConfirmation if signals.cancel.is_cancelled() => log.record(cancel_requested()),
            Step::AwaitConfirmation => return await_confirmation(log).await,
            Step::Stop => return Ok(Ended::Suspended),
            Step::CallModel { .. } | Step::RunTools(_) | Step::Count { .. } | Step::Summarize { .. }
                if signals.suspend.is_cancelled() =>
            {
                return suspend(log).await;
            }
            Step::Count { purpose, asked } => {
                let work = async { counted = Some(count(log, agent.model_of(asked), agent, prompt, purpose).await) };
                interruptible(log, signals, Box::pin(work)).await;
            }
            Step::CallModel { step, purpose, asked, allowance } => {
                // Where another call just took the probe, it is decided anew.
                let Some(chosen) = agent.choose(asked) else { continue };
                let ask = Ask { step, purpose, allowance, old: Old::default() };
                interruptible(log, signals, Box::pin(ask_model(log, agent, chosen, prompt, ask))).await;
            }
            Step::Summarize { old, asked, allowance } => {
                let Some(chosen) = agent.choose(asked) else { continue };
                let step = log.read(State::next_step);
                let ask = Ask { step, purpose: CallPurpose::Summary, allowance, old };
                interruptible(log, signals, Box::pin(ask_model(log, agent, chosen, prompt, ask))).await;
            }
            Step::RunTools(calls) => {
                interruptible(log, signals, Box::pin(run_tools(log, agent, principal, calls))).await;
            }
        }
    }
}

/// Goes no further while the journal cannot write.
async fn settle_journal(log: &SessionLog) -> Result<(), StoreError> {
    let is_paused = || log.read(|state| state.status() == Some(SessionStatus::Suspended));
    if log.journal().writer().fault().is_some() && !is_paused() {
        pause(log);
    }
    log.ease().await?;
    if is_paused() {
        go_on(log);
    }
    Ok(())
}

async fn finish(log: &SessionLog, facts: Vec<Fact>) -> Result<Ended, StoreError> {
    let end = facts.iter().find_map(|fact| match fact {
        Fact::SessionFinished(end) => Some(end.clone()),
        _ => None,
    });
    log.record_all(facts);
    log.flush().await?;
    Ok(end.map_or(Ended::Suspended, Ended::Finished))
}

async fn suspend(log: &SessionLog) -> Result<Ended, StoreError> {
    log.record(Fact::SessionSuspended { cause: SuspendCause::Drain });
    log.flush().await?;
    Ok(Ended::Suspended)
}

/// Nobody is shown what waits before it is durable.
async fn await_confirmation(log: &SessionLog) -> Result<Ended, StoreError> {
    log.record(Fact::SessionSuspended { cause: SuspendCause::Confirmation });
    log.flush().await?;
    Ok(Ended::AwaitingConfirmation(log.read(PendingConfirmation::all)))
}

/// Holds an answer against the schema that the session began with.
fn checked(prompt: &Prompt, text: &str) -> Fact {
    let schema = prompt.output_schema.as_deref().unwrap_or(&Value::Bool(true));
    let problems = match Schema::open(schema) {
        Ok(schema) => schema.check_answer(without_fence(text)),
        // The configuration compiled it; only a program with a prompt of its own comes here.
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    };
    Fact::AnswerChecked { problems: Sensitive::new(problems) }
}

fn cancel_requested() -> Fact {
    Fact::CancelRequested { by: Sensitive::from("caller") }
}

/// Runs one step under the session's deadline and its cancellation. A step that is interrupted
/// is dropped, which closes its open operations as cancelled; then the fact says why.
async fn interruptible(log: &SessionLog, signals: &Signals, work: Work<'_>) {
    match run(log, signals, work).await {
        None | Some(Interruption::Lost) => {}
        Some(Interruption::Cancelled) => log.record(cancel_requested()),
        Some(Interruption::Deadline) => {
            let value = log.read(|state| state.active_ms(log.now()));
            log.record(Fact::LimitReached { limit: Limit::Deadline, value });
        }
    }
}

/// Runs the work of a step to its end, or says what interrupted it; the work is dropped by then.
async fn run(log: &SessionLog, signals: &Signals, mut work: Work<'_>) -> Option<Interruption> {
    let mut paused = false;
    loop {
        tokio::select! {
            biased;
            () = signals.lost.cancelled() => return Some(Interruption::Lost),
            () = signals.cancel.cancelled() => return Some(Interruption::Cancelled),
            () = &mut work => return None,
            () = log.trouble(), if !paused => {
                pause(log);
                paused = true;
            }
            () = log.recovery(), if paused => {
                go_on(log);
                paused = false;
            }
            () = tokio::time::sleep(time_left(log)), if !paused => return Some(Interruption::Deadline),
        }
    }
}

/// The journal cannot write: the time until it can is nobody's. The facts that say so become
/// durable with the first that can be written again.
fn pause(log: &SessionLog) {
    log.record(Fact::SessionSuspended { cause: SuspendCause::Journal });
}

fn go_on(log: &SessionLog) {
    log.record(Fact::SessionResumed { process: log.journal().process().to_string() });
}

fn time_left(log: &SessionLog) -> Duration {
    log.read(|state| state.time_left(log.now()))
}

/// What a model is asked for.
struct Ask {
    step: u32,
    purpose: CallPurpose,
    allowance: Allowance,
    /// Of a summary: what it is about.
    old: Old,
}

/// Lets the model count the next call. Where it cannot say, the estimate stands.
async fn count(log: &SessionLog, model: &dyn Model, agent: &Agent, prompt: &Prompt, purpose: CallPurpose) -> Count {
    let by = model.counted_by();
    if by == CountedBy::Estimate {
        return Count::Unavailable;
    }
    let request = log.read(|state| request(state, prompt, purpose, model.info().max_output_tokens, Old::default()));
    let tokens = agent.policy.count(model, &request, log.root()).await;
    tokens.map_or(Count::Unavailable, |tokens| Count::Known(Measure { tokens, by }))
}

/// One model call: build the request from the state, send it, record what came.
async fn ask_model(log: &SessionLog, agent: &Agent, chosen: Chosen<'_>, prompt: &Prompt, ask: Ask) {
    let Ask { step, purpose, allowance, old } = ask;
    let request = log.read(|state| request(state, prompt, purpose, allowance.max_tokens, old));
    let body = Bytes::from(chosen.model.encode(&request));
    let call = MeteredCall::new(ModelCall {
        step,
        purpose,
        model: chosen.model.info().clone(),
        estimated_input_tokens: allowance.input.tokens,
        counted_by: allowance.input.by,
        max_tokens: allowance.max_tokens,
        body_hash: hash_of(&body),
        summarized_steps: old.steps,
        summarized_pairs: old.pairs,
    });
    let meter = call.meter.clone();
    let probe = chosen.entrance.as_ref().is_some_and(Entrance::is_probe);
    let (timeout, is_private) = (chosen.timeout, purpose == CallPurpose::Summary);
    let input = ModelInput { model: chosen.model, request: &request, body: &body, timeout, is_private, probe };
    log.observe(call, |op| async move {
        let mut end = agent.policy.call_model(log, op, input, &meter).await;
        if let Some(reply) = &mut end.reply {
            // Every tool call gets an id of its own before it enters the journal.
            log.read(|state| settle_ids(reply, step, state.call_ids()));
        }
        (end, ())
    })
    .await;
}
