//! The attempts of one call, of a tool or of a model: one function, one order.
//!
//! From the outside in: the session's deadline (the driver's; here no wait goes beyond it), the
//! retry, the admission by the circuit breaker, a slot, the attempt under its timeout, and what it
//! says to the breaker. The breaker stands inside the retry, so that every attempt is admitted and
//! counted, and none is made against an open circuit.
//!
//! A slot is waited for no longer than an attempt may take, in the order of asking. Who has to wait
//! gives the breaker's permit back, so that no probe is held up, and asks for it again afterwards.
//! Waits between attempts hold no slot.

use std::{future::Future, time::Duration};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    Policy,
    circuits::{Admission, Circuits},
};
use crate::{
    core::{Effect, Fault, FaultKind, circuit::CircuitId, fault::Health},
    journal::SessionLog,
    machine::{
        breaker::Refusal,
        retry::{self, Decision},
    },
};

/// How much longer than its timeout an attempt may hold the permit of a probe: its intent has to
/// become durable first.
const SLACK: Duration = Duration::from_secs(5);

/// One call, attempt by attempt.
pub(super) trait Exchange {
    /// What it gives.
    type Reply;

    /// The breaker that guards it.
    fn circuit(&self) -> &CircuitId;

    /// One more breaker, of the way to the other side.
    fn upstream(&self) -> Option<&CircuitId> {
        None
    }

    /// What it changes.
    fn effect(&self) -> Effect;

    /// Time of one attempt.
    fn timeout(&self) -> Duration;

    /// What a fault says of the other side.
    fn health(&self, kind: FaultKind) -> Health;

    /// The slots of which an attempt takes one; none where there is no limit.
    fn slots(&self) -> Option<&Semaphore> {
        None
    }

    /// Records that no slot came free in time; gives the fault that it is.
    fn no_slot(&self) -> Fault {
        Fault::new(FaultKind::RateLimited, "no slot came free in time")
    }

    /// Makes attempt number `number`, `wait` after the one before.
    fn attempt(&self, number: u32, wait: Duration) -> impl Future<Output = Result<Self::Reply, Fault>> + Send;
}

/// How the attempts of a call ended.
pub(super) struct Attempts<T> {
    /// What the last gave; where there was none, why.
    pub(super) result: Result<T, Fault>,
    /// Attempts made.
    pub(super) made: u32,
}

/// Makes attempts until one succeeds or no other may follow.
pub(super) async fn attempts<E: Exchange>(
    policy: &Policy,
    rules: &retry::Policy,
    log: &SessionLog,
    exchange: &E,
) -> Attempts<E::Reply> {
    let (circuits, circuit) = (&policy.circuits, exchange.circuit());
    circuits.earn_retry(circuit);
    let (mut made, mut wait, mut last) = (0, Duration::ZERO, None);
    loop {
        let (admissions, slot) = match enter(circuits, exchange).await {
            Ok(entered) => entered,
            Err(refused) => return Attempts { result: Err(last.unwrap_or(refused)), made },
        };
        made += 1;
        let result = exchange.attempt(made, wait).await;
        admissions.settle(exchange, &result);
        drop(slot);
        let fault = match result {
            Ok(reply) => return Attempts { result: Ok(reply), made },
            Err(fault) => fault,
        };
        match policy.next(rules, log, exchange, made, &fault) {
            Some(pause) => wait = pause,
            None => return Attempts { result: Err(fault), made },
        }
        tokio::time::sleep(wait).await;
        last = Some(fault);
    }
}

/// The rights to make one attempt: of the breaker, and of the one on the way to the other side.
struct Admissions<'a> {
    own: Admission<'a>,
    upstream: Option<Admission<'a>>,
}

impl Admissions<'_> {
    /// Hands in what the attempt says of the other side, and of the way there.
    fn settle<E: Exchange>(self, exchange: &E, result: &Result<E::Reply, Fault>) {
        let kind = result.as_ref().err().map(|fault| fault.kind);
        self.own.settle(kind.map_or(Health::Success, |kind| exchange.health(kind)));
        if let Some(upstream) = self.upstream {
            upstream.settle(kind.map_or(Health::Success, FaultKind::link_health));
        }
    }
}

/// The breakers' word first: an open circuit is not waited for.
async fn enter<'a, E: Exchange>(
    circuits: &'a Circuits,
    exchange: &'a E,
) -> Result<(Admissions<'a>, Option<SemaphorePermit<'a>>), Fault> {
    let hold = exchange.timeout() + SLACK;
    let admit = || {
        let own = circuits.admit(exchange.circuit(), hold).map_err(fault)?;
        let upstream = exchange.upstream().map(|circuit| circuits.admit(circuit, hold).map_err(fault)).transpose()?;
        Ok(Admissions { own, upstream })
    };
    let admission = admit()?;
    let Some(slots) = exchange.slots() else { return Ok((admission, None)) };
    if let Ok(slot) = slots.try_acquire() {
        return Ok((admission, Some(slot)));
    }
    drop(admission);
    match tokio::time::timeout(exchange.timeout(), slots.acquire()).await {
        Ok(Ok(slot)) => Ok((admit()?, Some(slot))),
        // Nobody closes the slots, so only the time can be over.
        Ok(Err(_)) | Err(_) => Err(exchange.no_slot()),
    }
}

impl Policy {
    /// How long to wait before another attempt; nothing if there is none.
    fn next<E: Exchange>(
        &self,
        rules: &retry::Policy,
        log: &SessionLog,
        exchange: &E,
        made: u32,
        fault: &Fault,
    ) -> Option<Duration> {
        let left = log.read(|state| state.time_left(log.now()));
        match rules.decide(made, fault, exchange.effect(), left, self.random()) {
            // An open circuit lets no attempt through after the wait either.
            Decision::Wait(wait) if !self.closed_to(exchange) && self.circuits.spend_retry(exchange.circuit()) => {
                Some(wait)
            }
            Decision::Wait(_) | Decision::GiveUp(_) => None,
        }
    }

    /// Whether an open circuit lets no attempt through.
    fn closed_to<E: Exchange>(&self, exchange: &E) -> bool {
        [Some(exchange.circuit()), exchange.upstream()].into_iter().flatten().any(|id| self.circuits.is_open(id))
    }

    /// A number from 0 up to 1.
    fn random(&self) -> f64 {
        let mut bytes = [0; 4];
        self.entropy.fill(&mut bytes);
        f64::from(u32::from_be_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// The fault of a call that made no attempt because of its circuit.
fn fault(refusal: Refusal) -> Fault {
    match refusal.retry_after {
        Some(wait) => {
            let detail = format!("circuit open. Retry after {}s", whole_seconds(wait));
            Fault::new(FaultKind::CircuitOpen, detail).retry_after(wait)
        }
        None => Fault::new(FaultKind::CircuitOpen, "circuit held open by an operator"),
    }
}

/// Seconds after which it is surely time, at least one.
pub fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}
