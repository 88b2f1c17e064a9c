//! What stands around calls, seen from many callers at once: breakers, retries, restarts.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::join_all;
use glassbox::{
    Config,
    core::{
        Clock, Effect, Entry, Fact, Fault, FaultKind, Principal, Sink, Store, StreamId, Timestamp, Tool, ToolOutcome,
        ToolSpec,
        circuit::{CircuitId, CircuitState},
        fact::Language,
        id::ProcessId,
        port::{ToolContext, ToolReply},
    },
    journal::{Journal, Mode, OnFault, SessionLog, SystemLog, Writer},
    machine::breaker::Rules,
    policy::{Act, Circuits, Policy, ToolInput, ToolVerdict},
    signal::{MetricLabels, Metrics},
    store::memory,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::world::{self, PlannedTool, Run, ToolPlan};

const LOOK: &str = "look";

/// A clock that a test moves by hand.
#[derive(Default)]
struct Hand(AtomicU64);

impl Hand {
    fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(1_771_410_225_000_000_000 + self.0.load(Ordering::SeqCst))
    }
}

/// A tool that answers when the test lets it, or fails at once while `failing` is left.
struct Gate {
    spec: ToolSpec,
    failing: AtomicUsize,
    begun: Semaphore,
    gate: Semaphore,
}

impl Gate {
    fn new(failing: usize) -> Arc<Self> {
        let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let spec = ToolSpec::new(LOOK, "Looks.", schema).effect(Effect::Read);
        let (begun, gate) = (Semaphore::new(0), Semaphore::new(0));
        Arc::new(Self { spec, failing: AtomicUsize::new(failing), begun, gate })
    }
}

#[async_trait]
impl Tool for Gate {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<ToolReply, Fault> {
        let fails = |left: usize| left.checked_sub(1);
        if self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
            return Err(Fault::new(FaultKind::Malformed, "planned"));
        }
        self.begun.add_permits(1);
        self.gate.acquire().await.expect("it is never closed").forget();
        Ok(ToolReply::Text("seen".into()))
    }
}

/// A session in which tools can be called without a loop.
struct Bench {
    store: Arc<memory::Store>,
    policy: Arc<Policy>,
    log: SessionLog,
}

impl Bench {
    fn new(clock: Arc<dyn Clock>, process: u8, store: &Arc<memory::Store>, sinks: Vec<Box<dyn Sink>>) -> Self {
        let writer =
            Writer::start(Mode::Inline, OnFault::Fail, store.clone(), sinks, Arc::new(world::Deaf), clock.clone());
        let journal = Journal::new(writer.expect("no thread"), clock, ProcessId::from_bytes([process; 16]));
        let policy = Arc::new(Policy {
            circuits: Circuits::new(SystemLog::begin(&journal), &Rules::default(), [CircuitId::tool(LOOK)]),
            ..world::policy(&journal, [])
        });
        let script = "{name: mute, rules: [{text: nothing}]}";
        let limits = glassbox::core::Limits::default();
        let agent = world::agent(script, world::model_info(), limits, Language::En, Vec::new());
        let log = world::begin(&agent, &journal, "look");
        Self { store: store.clone(), policy, log }
    }

    async fn call(&self, tool: Arc<dyn Tool>) -> ToolVerdict {
        let (timeout, effect) = (tool.spec().timeout, tool.spec().effect);
        let input = ToolInput {
            tool,
            arguments: json!({}),
            principal: Arc::new(Principal { id: "C-001".into(), ..world::principal() }),
            call_id: "call_1".into(),
            timeout,
            effect,
        };
        self.policy.call_tool(&self.log, glassbox::core::SpanId::from_bytes([7; 8]), &input).await
    }

    fn state(&self) -> CircuitState {
        self.policy.circuits.standing(&CircuitId::tool(LOOK)).expect("it is declared").state
    }

    /// The moves in the system journal, as `from to cause`.
    fn moves(&self, process: u8) -> Vec<String> {
        let entries = self.store.load(StreamId::System(ProcessId::from_bytes([process; 16]))).expect("readable");
        entries.iter().filter_map(described).collect()
    }
}

fn described(entry: &Entry) -> Option<String> {
    let Fact::CircuitChanged(change) = &entry.fact else { return None };
    let by = change.by.as_ref().map_or(String::new(), |by| format!(" by {}", by.expose()));
    Some(format!("{} {} {}{by}", change.from.label(), change.to.label(), change.cause.label()))
}

fn bench(clock: Arc<dyn Clock>) -> Bench {
    Bench::new(clock, 1, &Arc::new(memory::Store::new()), Vec::new())
}

async fn fail_five_times(bench: &Bench, tool: &Arc<Gate>) {
    for _ in 0..5 {
        assert_eq!(bench.call(tool.clone()).await.outcome, ToolOutcome::Failed);
    }
    assert_eq!(bench.state(), CircuitState::Open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_callers_at_half_open_are_one_probe_and_forty_nine_quick_refusals() {
    let hand = Arc::new(Hand::default());
    let (bench, tool) = (Arc::new(bench(hand.clone())), Gate::new(5));
    fail_five_times(&bench, &tool).await;
    hand.pass(60);
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let (bench, tool) = (bench.clone(), tool.clone());
            glassbox::runtime::spawn(async move { bench.call(tool).await })
        })
        .collect();
    // The probe is let through only when all others have their answer.
    tool.begun.acquire().await.expect("never closed").forget();
    let (mut refused, mut answered) = (0, 0);
    let (mut waiting, mut probe) = (callers, None);
    while waiting.len() > 1 {
        let (done, _, rest) = futures_util::future::select_all(waiting).await;
        waiting = rest;
        let verdict = done.expect("no panic");
        assert_eq!((verdict.outcome, verdict.attempts), (ToolOutcome::CircuitOpen, 0));
        let fault = verdict.result.expect_err("it was refused");
        // The probe's permit: the tool's 15 s, and 5 more.
        assert_eq!(fault.detail, "circuit open. Retry after 20s");
        refused += 1;
    }
    tool.gate.add_permits(1);
    for caller in join_all(waiting).await {
        probe = Some(caller.expect("no panic").outcome);
        answered += 1;
    }
    assert_eq!((refused, answered, probe), (49, 1, Some(ToolOutcome::Ok)));
    assert_eq!(bench.state(), CircuitState::Closed);
    let moves = bench.moves(1);
    assert_eq!(moves, ["closed open failures", "open half_open time_passed", "half_open closed probe_succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_runs_into_its_timeout_opens_for_another_minute() {
    let (bench, tool) = (bench(Arc::new(world::PausedClock::new())), Gate::new(5));
    fail_five_times(&bench, &tool).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    // One attempt: an open circuit ends the retries.
    let verdict = bench.call(tool.clone()).await;
    assert_eq!((verdict.outcome, verdict.attempts), (ToolOutcome::Timeout, 1));
    let verdict = bench.call(tool.clone()).await;
    assert_eq!(verdict.result.expect_err("refused").detail, "circuit open. Retry after 60s");
    assert_eq!(bench.moves(1)[1..], ["open half_open time_passed", "half_open open probe_failed"]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_cancelled_gives_its_permit_back_at_once() {
    let (bench, tool) = (bench(Arc::new(world::PausedClock::new())), Gate::new(5));
    fail_five_times(&bench, &tool).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(tokio::time::timeout(Duration::from_secs(1), bench.call(tool.clone())).await.is_err());
    assert_eq!(bench.state(), CircuitState::HalfOpen);
    tool.gate.add_permits(1);
    assert_eq!(bench.call(tool.clone()).await.outcome, ToolOutcome::Ok);
    assert_eq!(bench.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_breaker_without_traffic_moves_on_time_and_the_gauge_with_it() {
    let metrics = Metrics::new(&MetricLabels { circuits: vec![CircuitId::tool(LOOK)], ..MetricLabels::default() });
    let metrics = metrics.expect("a right catalogue");
    let store = Arc::new(memory::Store::new());
    let bench = Bench::new(Arc::new(world::PausedClock::new()), 1, &store, vec![metrics.sink()]);
    let shows = |state: &str| {
        let line = format!(r#"glassbox_circuit_state{{kind="tool",name="look",state="{state}"}} "#);
        metrics.render().lines().find_map(|text| text.strip_prefix(&line).map(str::to_owned)).expect("a series")
    };
    let all = || ["closed", "open", "half_open"].map(&shows);
    assert_eq!(all(), ["1", "0", "0"]);
    let traffic = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        fail_five_times(&bench, &Gate::new(5)).await;
        assert_eq!(all(), ["0", "1", "0"]);
        tokio::time::sleep(Duration::from_millis(59_900)).await;
        assert_eq!(all(), ["0", "1", "0"]);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(all(), ["0", "0", "1"]);
    };
    tokio::select! {
        () = bench.policy.circuits.keep_time() => unreachable!("it never ends"),
        () = traffic => {}
    }
    let moved = r#"glassbox_circuit_transitions_total{kind="tool",name="look",to="half_open"} 1"#;
    assert!(metrics.render().lines().any(|line| line == moved));
}

#[tokio::test(start_paused = true)]
async fn all_attempts_of_a_call_share_one_idempotency_key() {
    let runs = vec![
        Run { fault: Some(FaultKind::Overloaded), ..Run::default() },
        Run { text: Some("done".into()), ..Run::default() },
    ];
    let plan: ToolPlan = serde_json::from_value(json!({"effect": "idempotent", "runs": []})).expect("a plan");
    let tool = PlannedTool::new(LOOK, ToolPlan { runs, ..plan });
    let keys = tool.keys.clone();
    let bench = bench(Arc::new(world::PausedClock::new()));
    let verdict = bench.call(Arc::new(tool)).await;
    assert_eq!((verdict.outcome, verdict.attempts), (ToolOutcome::Ok, 2));
    let key = format!("{}:call_1", world::session_id());
    assert_eq!(*keys.lock().expect("no panic"), [(key.clone(), 1), (key, 2)]);
}

#[tokio::test(start_paused = true)]
async fn retries_end_when_their_budget_is_spent() {
    let runs = vec![Run { fault: Some(FaultKind::RateLimited), ..Run::default() }];
    let plan: ToolPlan = serde_json::from_value(json!({"runs": []})).expect("a plan");
    let tool = Arc::new(PlannedTool::new(LOOK, ToolPlan { runs, ..plan }));
    let bench = bench(Arc::new(world::PausedClock::new()));
    let verdicts = join_all((0..20).map(|_| bench.call(tool.clone()))).await;
    let attempts: u32 = verdicts.iter().map(|verdict| verdict.attempts).sum();
    // Twenty first attempts; the floor of ten retries, and four that twenty calls earn.
    assert_eq!(attempts, 20 + 10 + 4);
}

/// A tool with one slot that takes eight seconds and has ten.
fn one_slot(runs: &Value) -> Arc<PlannedTool> {
    let plan = json!({"max_concurrent": 1, "timeout_ms": 10_000, "runs": runs});
    Arc::new(PlannedTool::new(LOOK, serde_json::from_value(plan).expect("a plan")))
}

#[tokio::test(start_paused = true)]
async fn two_sessions_take_turns_in_one_slot_and_a_third_waits_in_vain() {
    let bench = bench(Arc::new(world::PausedClock::new()));
    let tool = one_slot(&json!([{"delay_ms": 8000, "text": "seen"}]));
    let begun = tokio::time::Instant::now();
    let call = async |session: &Bench| {
        let verdict = session.call(tool.clone()).await;
        (verdict.outcome, verdict.attempts, begun.elapsed().as_millis())
    };
    // Other sessions share what the policy holds.
    let other = Bench { store: bench.store.clone(), policy: bench.policy.clone(), log: bench.log.clone() };
    let ends = tokio::join!(call(&bench), call(&other), call(&bench));
    assert_eq!(ends.0, (ToolOutcome::Ok, 1, 8000));
    assert_eq!(ends.1, (ToolOutcome::Ok, 1, 16_000));
    assert_eq!(ends.2, (ToolOutcome::RateLimited, 0, 10_000));
    assert_eq!(tool.count.load(Ordering::SeqCst), 2);
    // The wait in vain is neither a success nor a failure.
    let standing = bench.policy.circuits.standing(&CircuitId::tool(LOOK)).expect("declared");
    assert_eq!((standing.failures, standing.counted), (0, 2));
    assert_eq!(call(&bench).await, (ToolOutcome::Ok, 1, 24_000), "the slot is free again");
}

#[tokio::test(start_paused = true)]
async fn a_circuit_that_opens_while_a_slot_is_waited_for_lets_nothing_through() {
    let bench = bench(Arc::new(world::PausedClock::new()));
    let tool = one_slot(&json!([{"delay_ms": 8000, "text": "seen"}]));
    let open = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.policy.circuits.switch(&CircuitId::tool(LOOK), Act::ForceOpen(None), "olga".into()).expect("declared");
    };
    let (first, second, ()) = tokio::join!(bench.call(tool.clone()), bench.call(tool.clone()), open);
    assert_eq!((first.outcome, first.attempts), (ToolOutcome::Ok, 1));
    assert_eq!((second.outcome, second.attempts), (ToolOutcome::CircuitOpen, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_gives_its_slot_back_and_a_retry_waits_without_one() {
    let bench = bench(Arc::new(world::PausedClock::new()));
    let tool = one_slot(&json!([
        {"delay_ms": 8000, "text": "cut"},
        {"delay_ms": 100, "fault": "overloaded"},
        {"delay_ms": 300, "text": "in between"},
        {"text": "second attempt"},
    ]));
    let cut = tokio::time::timeout(Duration::from_secs(1), bench.call(tool.clone())).await;
    assert!(cut.is_err(), "it is cancelled after a second");
    let begun = tokio::time::Instant::now();
    let call = async || {
        let verdict = bench.call(tool.clone()).await;
        (verdict.outcome, verdict.attempts, begun.elapsed().as_millis())
    };
    // The first fails at 100 ms and waits 500 ms; the other runs from 100 to 400 ms.
    let ends = tokio::join!(call(), call());
    assert_eq!(ends, ((ToolOutcome::Ok, 2, 600), (ToolOutcome::Ok, 1, 400)));
}

#[tokio::test]
async fn a_restart_finds_the_breakers_as_they_were_left() {
    let (hand, store) = (Arc::new(Hand::default()), Arc::new(memory::Store::new()));
    let look = CircuitId::tool(LOOK);
    let first = Bench::new(hand.clone(), 1, &store, Vec::new());
    let until = hand.now().plus(Duration::from_secs(600));
    first
        .policy
        .circuits
        .switch(&look, Act::ForceOpen(Some(Duration::from_secs(600))), "olga".into())
        .expect("declared");
    assert_eq!(first.moves(1), ["closed open forced_open by olga"]);

    let restart = |process: u8| {
        let writer = Writer::start(
            Mode::Inline,
            OnFault::Fail,
            store.clone(),
            Vec::new(),
            Arc::new(world::Deaf),
            hand.clone() as Arc<dyn Clock>,
        );
        let journal = Journal::new(writer.expect("no thread"), hand.clone(), ProcessId::from_bytes([process; 16]));
        let circuits = Circuits::new(SystemLog::begin(&journal), &Rules::default(), [look.clone()]);
        circuits.restore(&store.system_facts("circuit_changed").expect("readable"));
        circuits.standing(&look).expect("declared")
    };
    hand.pass(30);
    let second = restart(2);
    assert_eq!((second.state, second.forced, second.until), (CircuitState::Open, true, Some(until)));
    assert_eq!(second.by.map(|by| by.expose().clone()).as_deref(), Some("olga"));
    hand.pass(30);
    let third = restart(3);
    assert_eq!((third.state, third.forced), (CircuitState::Open, true));
    assert_eq!(first.moves(3), ["closed open restored by olga"]);
    hand.pass(600);
    let fourth = restart(4);
    assert_eq!((fourth.state, fourth.forced, fourth.by), (CircuitState::HalfOpen, false, None));
}

/// The waits before the attempts of a model call whose every answer has this status.
async fn waits_of_a_model(status: u16) -> Vec<u64> {
    let store = Arc::new(memory::Store::new());
    let journal = world::journal(store.clone(), Vec::new());
    let script = format!("{{name: status, rules: [{{fault: {{status: {status}}}}}]}}");
    let limits = glassbox::core::Limits::default();
    let mut agent = world::agent(&script, world::model_info(), limits, Language::En, Vec::new());
    let small =
        "agents: {bank: {system_prompt: Help., model: bank}}\nmodels: {bank: {provider: scripted, script: bank}}\n";
    let text = format!("{small}{}", include_str!("../data/seed/retry.yaml"));
    let config = Config::from_text("seed", text.as_bytes(), Path::new(""), &BTreeMap::new()).expect("it is right");
    agent.policy = Arc::new(Policy { llm_retry: config.llm_retry_policy.rules(), ..world::policy(&journal, []) });
    let log = world::begin(&agent, &journal, "hello");
    let principal = Arc::new(world::principal());
    let prompt = agent.prompt(&principal);
    let ended = glassbox::session::drive(&log, &agent, &prompt, &principal, &Default::default()).await;
    assert!(ended.is_ok());
    let wait = |entry: &Entry| match &entry.fact {
        Fact::ModelAttemptStarted { wait_ms, .. } => Some(*wait_ms),
        _ => None,
    };
    world::entries(&store).iter().filter_map(wait).collect()
}

#[tokio::test(start_paused = true)]
async fn every_status_of_the_seeds_table_is_tried_as_the_table_says() {
    for status in [429, 503, 529] {
        assert_eq!(waits_of_a_model(status).await, [0, 1000, 2000], "{status}");
    }
    for status in [400, 401, 413] {
        assert_eq!(waits_of_a_model(status).await, [0], "{status}");
    }
}
