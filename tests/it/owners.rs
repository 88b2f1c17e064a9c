//! One owner a session: a lease that ran out is taken over, and whoever lost it stops before
//! the next effect.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use glassbox::{
    core::{
        Effect, Fact, Limits, Principal, SessionStatus, Tool, ToolOutcome,
        fact::{Language, SessionEnd},
        lease::{LeaseGrant, Leases as _},
        port::{StoreError, StoreErrorKind},
    },
    journal::{Journal, SessionLog},
    machine::Prompt,
    session::{Agent, Ended, Signals, drive, take_up},
    store::memory,
};
use serde_json::json;

use crate::world::{self, PausedClock, PlannedTool, Run, ToolPlan};

const SCRIPT: &str = "
name: payer
usage: {input: 10, output: 5}
rules:
  - when: {call_count: 0}
    call: {tool: look, arguments: {}}
  - when: {call_count: 1}
    call: {tool: pay, arguments: {}}
  - text: paid
";

fn planned(name: &str, effect: Effect, delay_ms: u64) -> PlannedTool {
    let runs = vec![Run { delay_ms, text: Some("ok".into()), ..Run::default() }];
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let plan = ToolPlan {
        effect,
        confirm: Default::default(),
        confirm_expires_ms: None,
        schema,
        timeout_ms: Some(60_000),
        scopes: vec![],
        circuit: None,
        tool_error_trips: false,
        max_concurrent: None,
        fallback_tool: None,
        cache_ms: None,
        runs,
    };
    PlannedTool::new(name, plan)
}

/// A process of its own, on the store and by the clock of all.
struct Process {
    journal: Journal,
    agent: Agent,
    prompt: Prompt,
    principal: Arc<Principal>,
    paid: Arc<AtomicUsize>,
}

impl Process {
    fn new(number: u8, store: &Arc<memory::Store>, clock: &Arc<PausedClock>, look_ms: u64) -> Self {
        let (look, pay) = (planned("look", Effect::Read, look_ms), planned("pay", Effect::Unsafe, 0));
        let paid = pay.count.clone();
        let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(look), Arc::new(pay)];
        let agent = world::agent(SCRIPT, world::model_info(), Limits::default(), Language::En, tools);
        let principal = Arc::new(world::principal());
        let prompt = agent.prompt(&principal);
        let journal = world::journal_of(number, store.clone(), Vec::new(), clock.clone());
        Self { journal, agent, prompt, principal, paid }
    }

    async fn drive(&self, log: &SessionLog) -> Result<Ended, StoreError> {
        drive(log, &self.agent, &self.prompt, &self.principal, &Signals::default()).await
    }

    /// Takes the session from whoever left it and drives it.
    async fn resume(&self, store: &memory::Store) -> Result<Ended, StoreError> {
        let now = self.journal.clock().now();
        let until = now.plus(Duration::from_secs(60));
        let granted = store.acquire(world::session_id(), self.journal.process(), now, until);
        let Ok(LeaseGrant::Granted(epoch)) = granted else { panic!("{granted:?}") };
        let entries = world::entries(store);
        let log = SessionLog::reopen(&self.journal, world::session_id(), &entries, epoch).expect("a session");
        take_up(&log);
        self.drive(&log).await
    }
}

fn finished(ended: Result<Ended, StoreError>) -> SessionEnd {
    match ended {
        Ok(Ended::Finished(end)) => *end,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_lost_its_lease_stops_before_the_next_effect() {
    let (store, clock) = (Arc::new(memory::Store::new()), Arc::new(PausedClock::new()));
    let (first, second) = (Process::new(1, &store, &clock, 30_000), Process::new(2, &store, &clock, 30_000));
    let log = world::begin_until(&first.agent, &first.journal, "pay", Duration::from_secs(15));
    let (lost, won) = tokio::join!(first.drive(&log), async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        second.resume(&store).await
    });

    assert_eq!(lost.expect_err("it is another's").kind, StoreErrorKind::LostLease);
    assert_eq!(finished(won).status, SessionStatus::Done);
    let paid = [&first.paid, &second.paid].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(paid, [0, 1], "the effect happened once, by the owner");
    let outcomes: Vec<_> = world::entries(&store)
        .iter()
        .filter_map(|entry| match &entry.fact {
            Fact::ToolCallFinished { end, .. } => Some((end.call_id.clone(), end.outcome)),
            _ => None,
        })
        .collect();
    // The read that was under way is lost and done again under the same call.
    let expected = [("call_1_1", ToolOutcome::Lost), ("call_1_1", ToolOutcome::Ok), ("call_2_1", ToolOutcome::Ok)];
    assert_eq!(outcomes, expected.map(|(id, outcome)| (id.to_owned(), outcome)));
}

#[tokio::test(start_paused = true)]
async fn time_in_which_nobody_drove_the_session_is_not_active_time() {
    let (store, clock) = (Arc::new(memory::Store::new()), Arc::new(PausedClock::new()));
    let first = Process::new(1, &store, &clock, 5_000);
    let log = world::begin_until(&first.agent, &first.journal, "pay", Duration::from_secs(15));
    let mut driving = Box::pin(first.drive(&log));
    let early = tokio::time::timeout(Duration::from_secs(2), &mut driving).await;
    assert!(early.is_err(), "the tool takes five seconds");
    // The process dies: what it would still record reaches no disk.
    store.fail_with(Some(StoreErrorKind::Io));
    drop(driving);
    drop((log, first));
    store.fail_with(None);

    tokio::time::sleep(Duration::from_secs(3600)).await;
    let end = finished(Process::new(2, &store, &clock, 5_000).resume(&store).await);
    // The five seconds of the tool that was run again. Nothing was recorded of the two before
    // the death, and nobody knows how long they were.
    assert_eq!(end.active_ms, 5_000);
}
