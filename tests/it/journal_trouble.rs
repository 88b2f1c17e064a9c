//! What a session makes of a journal that cannot write while an effect waits for its intent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use glassbox::{
    Effect, Fault, ToolContext, ToolReply, ToolSpec, async_trait,
    core::{
        Fact, Limits, SessionStatus, Tool, ToolOutcome,
        fact::{Language, SuspendCause},
        id::ProcessId,
        port::StoreErrorKind,
    },
    journal::{Journal, Mode, OnFault, Writer},
    runtime::SystemClock,
    session::{Ended, Signals, drive},
    store::memory,
};
use serde_json::{Value, json};

use crate::world;

const SCRIPT: &str = "
name: payer
usage: {input: 10, output: 5}
rules:
  - when: {call_count: 0}
    call: {tool: pay, arguments: {}}
  - text: paid
";

/// An effect before whose intent the disk is full: its own check, which comes right before,
/// fills it.
struct Pay {
    spec: ToolSpec,
    store: Arc<memory::Store>,
    paid: Arc<AtomicUsize>,
}

#[async_trait]
impl Tool for Pay {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, _: &ToolContext, _: &Value) -> Result<(), String> {
        self.store.fail_with(Some(StoreErrorKind::Full));
        Ok(())
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<ToolReply, Fault> {
        self.paid.fetch_add(1, Ordering::SeqCst);
        Ok(ToolReply::Text("ok".into()))
    }
}

fn pay(store: &Arc<memory::Store>, paid: &Arc<AtomicUsize>) -> Arc<dyn Tool> {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let spec = ToolSpec::new("pay", "Pays.", schema).effect(Effect::Unsafe);
    Arc::new(Pay { spec, store: store.clone(), paid: paid.clone() })
}

/// Drives a session until its effect waits for the disk, lets `then` happen, and gives the facts.
async fn driven(then: impl Fn(&Signals, &memory::Store)) -> (Vec<Fact>, SessionStatus, usize) {
    let (store, paid) = (Arc::new(memory::Store::new()), Arc::new(AtomicUsize::new(0)));
    let agent = world::agent(SCRIPT, world::model_info(), Limits::default(), Language::En, vec![pay(&store, &paid)]);
    let clock = Arc::new(SystemClock);
    let watch = Arc::new(world::Deaf);
    let writer = Writer::start(Mode::Thread, OnFault::Wait, store.clone(), Vec::new(), watch, clock.clone());
    let journal = Journal::new(writer.expect("a thread"), clock, ProcessId::from_bytes([1; 16]));
    let (log, signals) = (world::begin(&agent, &journal, "pay"), Signals::default());
    let principal = Arc::new(world::principal());
    let prompt = agent.prompt(&principal);
    let waits = async {
        let is_paused = || log.read(|state| state.status() == Some(SessionStatus::Suspended));
        let intent =
            || log.read(|state| state.open().values().any(|open| open.cut().unsettled == Some(Effect::Unsafe)));
        while !(is_paused() && intent()) {
            tokio::task::yield_now().await;
        }
        then(&signals, &store);
    };
    let driving = drive(&log, &agent, &prompt, &principal, &signals);
    let (ended, ()) = tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(driving, waits) })
        .await
        .expect("the session ends");
    let Ok(Ended::Finished(end)) = ended else { panic!("{ended:?}") };
    let facts = world::entries(&store).into_iter().map(|entry| entry.fact).collect();
    (facts, end.status, paid.load(Ordering::SeqCst))
}

fn outcome_of_pay(facts: &[Fact]) -> Option<ToolOutcome> {
    facts.iter().rev().find_map(|fact| match fact {
        Fact::ToolCallFinished { end, .. } if end.call_id == "call_1_1" => Some(end.outcome),
        _ => None,
    })
}

fn count(facts: &[Fact], wanted: impl Fn(&Fact) -> bool) -> usize {
    facts.iter().filter(|fact| wanted(fact)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_whose_intent_never_reached_the_disk_did_not_happen() {
    let (facts, status, paid) = driven(|signals, store| {
        signals.cancel.cancel();
        store.fail_with(None);
    })
    .await;
    assert_eq!((status, paid), (SessionStatus::Cancelled, 0));
    assert_eq!(outcome_of_pay(&facts), Some(ToolOutcome::Cancelled), "nobody need ask whether it happened");
    assert_eq!(count(&facts, |fact| matches!(fact, Fact::HandedOver { .. })), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_when_the_disk_is_back_and_the_wait_was_not_its_own() {
    let (facts, status, paid) = driven(|_, store| store.fail_with(None)).await;
    assert_eq!((status, paid), (SessionStatus::Done, 1));
    assert_eq!(outcome_of_pay(&facts), Some(ToolOutcome::Ok));
    let paused = |fact: &Fact| matches!(fact, Fact::SessionSuspended { cause: SuspendCause::Journal });
    assert_eq!(count(&facts, paused), 1);
    assert_eq!(count(&facts, |fact| matches!(fact, Fact::SessionResumed { .. })), 1);
}

/// On a disk that is all but full a small write succeeds now and then; a session that is set going by
/// that stands again a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_is_over_once_there_is_room_again_and_not_for_a_fact_or_two() {
    let (store, clock) = (Arc::new(memory::Store::new()), Arc::new(SystemClock));
    let agent = world::agent(SCRIPT, world::model_info(), Limits::default(), Language::En, Vec::new());
    let watch = Arc::new(world::Deaf);
    let writer = Writer::start(Mode::Thread, OnFault::Fail, store.clone(), Vec::new(), watch, clock.clone());
    let writer = writer.expect("a thread");
    let journal = Journal::new(writer.clone(), clock, ProcessId::from_bytes([1; 16]));
    let log = world::begin(&agent, &journal, "pay");
    log.flush().await.expect("there is room");
    store.leave_room(Some(2));
    for fact in 0..2 {
        log.record(Fact::CancelRequested { by: "caller".into() });
        assert!(log.flush().await.is_ok(), "what fits is written, as long as nothing failed: {fact}");
    }
    log.record(Fact::CancelRequested { by: "caller".into() });
    assert_eq!(log.flush().await.map_err(|error| error.kind), Err(StoreErrorKind::Full));
    for _ in 0..3 {
        store.leave_room(Some(1));
        assert_eq!(log.flush().await.map_err(|error| error.kind), Err(StoreErrorKind::Full), "the fact would fit");
        assert_eq!(writer.fault().map(|fault| fault.kind), Some(StoreErrorKind::Full));
    }
    assert_eq!(world::entries(&store).len(), 3);
    store.leave_room(None);
    log.flush().await.expect("there is room");
    assert_eq!((writer.fault(), world::entries(&store).len()), (None, 4), "nothing is lost");
}
