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
