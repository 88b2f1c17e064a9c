//! What stands around every request to a model and every run of a tool: one function each, one
//! order (see [`attempts`]); what comes out is an outcome, never an exception.
//!
//! It must never know who implements a port, nor what the loop does with the result.

mod attempts;
mod cache;
mod circuits;
mod limits;
mod meter;
mod primaries;
mod slots;

use std::{
    any::Any,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::sync::Semaphore;

pub use self::{
    attempts::whole_seconds,
    cache::{Cache, CachePlace, MAX_CACHED_BYTES},
    circuits::{Act, Circuits, Standing},
    limits::{Limited, Limits, ToolRate},
    meter::{Meter, MeteredCall},
    primaries::{Entrance, Primaries},
    slots::Slots,
};
use self::{
    attempts::{Attempts, Exchange, attempts},
    meter::Tap,
};
use crate::{
    core::{
        Effect, Fact, Fault, FaultKind, Model, ModelReply, ModelRequest, Principal, Sensitive, SpanId, Tool,
        ToolOutcome, ToolSpec, Usage,
        circuit::CircuitId,
        fact::{AttemptEnd, FallbackCause, ModelCallEnd, ModelOutcome, RateLimit},
        fault::Health,
        op::{ModelAttempt, ToolAttempt},
        port::{Entropy, LiveText, ModelCallInput, Nobody, StoreError, ToolContext, ToolReply, TraceContext},
    },
    journal::SessionLog,
    machine::retry,
};

/// After this an estimate stands in for a count.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// What is shared by all calls of a process. Clones share what was counted and learnt.
#[derive(Clone)]
pub struct Policy {
    /// Breakers of tools and models.
    pub circuits: Circuits,
    /// Models that have a fallback.
    pub primaries: Primaries,
    /// How often tools may be called.
    pub limits: Limits,
    /// How many attempts of a tool run at once.
    pub slots: Slots,
    /// Results of tools that are given again for a while.
    pub cache: Cache,
    /// When a request to a model is made again.
    pub llm_retry: retry::Policy,
    /// When a run of a tool is made again.
    pub tool_retry: retry::Policy,
    /// Chance, for the jitter of waits.
    pub entropy: Arc<dyn Entropy>,
    /// Those who read the text of models while it comes.
    pub readers: Arc<dyn LiveText>,
}

/// A request to a model, ready to be sent.
#[derive(Clone, Copy)]
pub struct ModelInput<'a> {
    /// The model asked.
    pub model: &'a dyn Model,
    /// What is asked.
    pub request: &'a ModelRequest,
    /// The body that will be sent.
    pub body: &'a Bytes,
    /// Time of one attempt.
    pub timeout: Duration,
    /// Whether its text is no part of the conversation, so that nobody reads along.
    pub is_private: bool,
    /// Whether it tries a model that is down: once, for the fallback waits.
    pub probe: bool,
}

/// A tool call that may run.
#[derive(Clone)]
pub struct ToolInput {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Arguments that fit its schema.
    pub arguments: Value,
    /// Who the session acts for.
    pub principal: Arc<Principal>,
    /// The id that the observation answers to.
    pub call_id: String,
    /// Time of one attempt.
    pub timeout: Duration,
    /// What the call changes.
    pub effect: Effect,
}

/// How the attempts of a tool call ended.
#[derive(Debug)]
pub struct ToolVerdict {
    /// The outcome of the call.
    pub outcome: ToolOutcome,
    /// What the tool gave, or why it did not.
    pub result: Result<ToolReply, Fault>,
    /// Attempts made.
    pub attempts: u32,
}

impl Policy {
    /// Makes a model call inside its operation `call`; `meter` counts what it costs while it runs.
    pub async fn call_model(
        &self,
        log: &SessionLog,
        call: SpanId,
        input: ModelInput<'_>,
        meter: &Meter,
    ) -> ModelCallEnd {
        let circuit = CircuitId::model(input.model.info().name.clone());
        let primaries = &self.primaries;
        let readers: &dyn LiveText = if input.is_private { &Nobody } else { &*self.readers };
        let exchange = ModelExchange { log, call, circuit, primaries, input, meter, readers };
        let once = retry::Policy::never();
        let rules = if input.probe { &once } else { &self.llm_retry };
        let Attempts { result, made } = attempts(self, rules, log, &exchange).await;
        model_call_end(result, meter.broken(), made)
    }

    /// Runs a tool inside its operation `call`.
    pub async fn call_tool(&self, log: &SessionLog, call: SpanId, input: &ToolInput) -> ToolVerdict {
        let spec = input.tool.spec();
        let (circuit, upstream, slots) = (spec.circuit_id(), spec.upstream_id(), self.slots.of(spec));
        let exchange = ToolExchange { log, call, circuit, upstream, slots, input };
        let Attempts { result, made } = attempts(self, &self.tool_retry, log, &exchange).await;
        let outcome = match &result {
            Ok(_) => ToolOutcome::Ok,
            // No service was asked, so the limit is ours.
            Err(fault) if made == 0 && fault.kind == FaultKind::RateLimited => ToolOutcome::RateLimited,
            Err(fault) => call_outcome(input.effect, fault.kind),
        };
        ToolVerdict { outcome, result, attempts: made }
    }

    /// Lets a model count the input of a request, which is never worth a long wait.
    pub async fn count(&self, model: &dyn Model, request: &ModelRequest, trace: TraceContext) -> Option<u64> {
        guarded(COUNT_TIMEOUT, async { Ok(model.count(request, trace).await) }).await.ok().flatten()
    }

    /// Why calls go straight to the fallback of this model; nothing while it may be asked.
    pub fn detour(&self, model: &str) -> Option<FallbackCause> {
        if self.circuits.is_open(&CircuitId::model(model)) {
            return Some(FallbackCause::Fault(FaultKind::CircuitOpen));
        }
        (!self.primaries.may_ask(model)).then_some(FallbackCause::PrimaryDown)
    }

    /// Whether none of these tools can be reached: the circuit of each is open. False where
    /// there are no tools at all.
    pub fn all_unavailable<'a>(&self, tools: impl IntoIterator<Item = &'a ToolSpec>) -> bool {
        let mut tools = tools.into_iter().peekable();
        tools.peek().is_some() && tools.all(|tool| self.is_unavailable(tool))
    }

    /// Whether a tool cannot be reached: its circuit, or that of the way to it, is open.
    pub fn is_unavailable(&self, tool: &ToolSpec) -> bool {
        [Some(tool.circuit_id()), tool.upstream_id()].iter().flatten().any(|id| self.circuits.is_open(id))
    }
}

/// A model call on its way through [`attempts`].
struct ModelExchange<'a> {
    log: &'a SessionLog,
    call: SpanId,
    circuit: CircuitId,
    primaries: &'a Primaries,
    input: ModelInput<'a>,
    meter: &'a Meter,
    readers: &'a dyn LiveText,
}

impl Exchange for ModelExchange<'_> {
    type Reply = ModelReply;

    fn circuit(&self) -> &CircuitId {
        &self.circuit
    }

    /// A model changes nothing.
    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn timeout(&self) -> Duration {
        self.input.timeout
    }

    fn health(&self, kind: FaultKind) -> Health {
        kind.health()
    }

    async fn attempt(&self, number: u32, wait: Duration) -> Result<ModelReply, Fault> {
        let Self { log, call, input, .. } = *self;
        let attempt =
            ModelAttempt { call, attempt: number, model: input.model.info().name.clone(), wait_ms: millis(wait) };
        log.observe(attempt, |_| async {
            let tap = Tap::new(self.meter, self.readers, log.id(), call);
            let trace = log.trace(call);
            let send = ModelCallInput { request: input.request, body: input.body, trace, progress: &tap };
            let result = guarded(input.timeout, input.model.call(send)).await.and_then(ModelReply::whole);
            self.primaries.hear(&input.model.info().name, &result);
            match &result {
                Ok(_) => tap.answered(),
                Err(fault) => tap.broke(fault.usage),
            }
            (model_attempt_end(&result), result)
        })
        .await
    }
}

/// A tool call on its way through [`attempts`].
struct ToolExchange<'a> {
    log: &'a SessionLog,
    call: SpanId,
    circuit: CircuitId,
    upstream: Option<CircuitId>,
    slots: Option<Arc<Semaphore>>,
    input: &'a ToolInput,
}

impl Exchange for ToolExchange<'_> {
    type Reply = ToolReply;

    fn circuit(&self) -> &CircuitId {
        &self.circuit
    }

    fn upstream(&self) -> Option<&CircuitId> {
        self.upstream.as_ref()
    }

    fn effect(&self) -> Effect {
        self.input.effect
    }

    fn timeout(&self) -> Duration {
        self.input.timeout
    }

    fn slots(&self) -> Option<&Semaphore> {
        self.slots.as_deref()
    }

    fn no_slot(&self) -> Fault {
        let spec = self.input.tool.spec();
        self.log.record(Fact::RateLimited {
            limit: RateLimit::ToolSlots,
            tool: Some(spec.name().to_owned()),
            wait_ms: 0,
            times: 1,
        });
        Fault::new(FaultKind::RateLimited, format!("it is busy, no slot within {:?}", self.input.timeout))
    }

    fn health(&self, kind: FaultKind) -> Health {
        match kind {
            FaultKind::ToolError if self.input.tool.spec().tool_error_trips => Health::Failure,
            kind => kind.health(),
        }
    }

    async fn attempt(&self, number: u32, wait: Duration) -> Result<ToolReply, Fault> {
        let Self { log, call, input, .. } = *self;
        let (effect, wait_ms, begun) = (input.effect, millis(wait), Arc::new(AtomicBool::new(false)));
        let mcp = input.tool.mcp().map(Box::new);
        let attempt = ToolAttempt { call, attempt: number, effect, wait_ms, mcp, begun: begun.clone() };
        let told = ToolContext::new(log.id(), input.principal.clone(), &input.call_id, log.trace(call));
        let context = ToolContext { attempt: number, ..told };
        log.observe(attempt, |_| async {
            let result = match make_intent_durable(log, input.effect).await {
                Ok(()) => {
                    begun.store(true, Ordering::Release);
                    guarded(input.timeout, input.tool.call(&context, input.arguments.clone())).await
                }
                Err(fault) => Err(fault),
            };
            (tool_attempt_end(&result), result)
        })
        .await
    }
}

/// Asks a model once, outside every session: no retry, no breaker, no record but the caller's.
///
/// # Errors
/// The fault that it ended in.
pub async fn ask_once(input: ModelInput<'_>, trace: TraceContext) -> Result<ModelReply, Fault> {
    let send = ModelCallInput { request: input.request, body: input.body, trace, progress: &Nobody };
    guarded(input.timeout, input.model.call(send)).await.and_then(ModelReply::whole)
}

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

fn model_attempt_end(result: &Result<ModelReply, Fault>) -> AttemptEnd<ModelOutcome> {
    match result {
        Ok(_) => AttemptEnd::new(ModelOutcome::Ok, None),
        Err(fault) => AttemptEnd::new(ModelOutcome::Fault(fault.kind), Some(error_text(fault))),
    }
}

/// The call is charged with its reply and with every attempt that broke after its reply began.
fn model_call_end(result: Result<ModelReply, Fault>, broken: Usage, attempts: u32) -> ModelCallEnd {
    match result {
        Ok(reply) => {
            let mut usage = reply.usage;
            usage.add(&broken);
            ModelCallEnd { outcome: ModelOutcome::Ok, reply: Some(reply), usage, error: None, attempts }
        }
        Err(fault) => ModelCallEnd {
            outcome: ModelOutcome::Fault(fault.kind),
            reply: None,
            usage: broken,
            error: Some(error_text(&fault)),
            attempts,
        },
    }
}

/// Before an effect, the fact that it is about to happen must survive a crash.
async fn make_intent_durable(log: &SessionLog, effect: Effect) -> Result<(), Fault> {
    match effect {
        Effect::Read => Ok(()),
        Effect::Idempotent | Effect::Unsafe => log.flush().await.map_err(|error| journal_fault(&error)),
    }
}

/// The fault of a journal that cannot write.
pub fn journal_fault(error: &StoreError) -> Fault {
    Fault::new(FaultKind::Internal, format!("the journal cannot write: {error}"))
}

fn tool_attempt_end(result: &Result<ToolReply, Fault>) -> AttemptEnd<ToolOutcome> {
    match result {
        Ok(_) => AttemptEnd::new(ToolOutcome::Ok, None),
        Err(fault) => AttemptEnd::new(ToolOutcome::of_fault(fault.kind), Some(error_text(fault))),
    }
}

/// The outcome of a call whose last attempt ended in this fault: of an unsafe one that may have
/// happened, nobody knows.
const fn call_outcome(effect: Effect, kind: FaultKind) -> ToolOutcome {
    match effect {
        Effect::Unsafe if kind.leaves_outcome_unknown() => ToolOutcome::UnknownOutcome,
        Effect::Read | Effect::Idempotent | Effect::Unsafe => ToolOutcome::of_fault(kind),
    }
}

fn error_text(fault: &Fault) -> Sensitive<String> {
    Sensitive::new(fault.detail.clone())
}

/// Runs foreign code: under its timeout, with a panic turned into a fault.
async fn guarded<T>(timeout: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    match tokio::time::timeout(timeout, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(Fault::new(FaultKind::Panic, format!("it panicked: {}", panic_text(&*panic)))),
        Err(_) => Err(Fault::new(FaultKind::Timeout, format!("no answer within {timeout:?}"))),
    }
}

/// The text of a panic, as far as it is text.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
