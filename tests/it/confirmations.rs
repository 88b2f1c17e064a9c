//! Calls that wait for a person, through whole runtimes that share one file: restarts, two
//! decisions at once, decisions that come too late.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use glassbox::{
    Config, Effect, Principal, Runtime, Setup, Task,
    core::{
        BlobHash, Entry, Fact, Limits, SessionId, SessionStatus, StreamId, Tool, ToolOutcome,
        fact::{HandoverCause, Language, SessionEnd},
        lease::{LeaseGrant, Leases as _},
        port::StoreErrorKind,
        spec::Confirm,
    },
    journal::{Mode, SessionLog},
    runtime::{NotDecided, NotResumed, SessionHandle},
    session::{Ended, Objection, PendingConfirmation, Say, Signals, drive, expiries, take_up, take_up_because},
    signal::spans::SpanFold,
    store::memory,
};
use opentelemetry::trace::SpanKind;
use serde_json::json;
use tempfile::TempDir;

use crate::world::{self, PausedClock, PlannedTool, Run, ToolPlan};

const SCRIPT: &str = "
name: payer
usage: {input: 10, output: 5}
rules:
  - when: {call_count: 0}
    call: {tool: pay, arguments: {amount: 5}}
  - text: done
";

const CONFIG: &str = "
agents:
  payer: {system_prompt: Pay., model: payer, language: en, tools: [], task_types: [other], limits: {token_budget: 50000}}
models:
  payer: {provider: scripted, script: payer.yaml}
";

/// The time that a person may take.
const HOURS: Duration = Duration::from_secs(2 * 3600);

fn pay(effect: Effect, delay_ms: u64) -> PlannedTool {
    let schema = json!({
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "currency": {"type": "string", "default": "KZT"}},
        "required": ["amount"],
        "additionalProperties": false
    });
    let runs = vec![Run { delay_ms, text: Some("paid".into()), ..Run::default() }];
    PlannedTool::new(
        "pay",
        ToolPlan {
            effect,
            confirm: Confirm::Suspend,
            confirm_expires_ms: Some(HOURS.as_millis() as u64),
            schema,
            timeout_ms: None,
            scopes: Vec::new(),
            circuit: None,
            tool_error_trips: false,
            max_concurrent: None,
            fallback_tool: None,
            cache_ms: None,
            runs,
        },
    )
}

/// A folder whose processes share its journal, a clock and one counter of effects.
struct Place {
    folder: TempDir,
    clock: Arc<PausedClock>,
    paid: Arc<AtomicUsize>,
}

impl Place {
    fn new() -> Self {
        Self::scripted(SCRIPT)
    }

    fn scripted(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("payer.yaml"), script).expect("a writable folder");
        Self { folder, clock: Arc::new(PausedClock::new()), paid: Arc::default() }
    }

    fn process(&self) -> Runtime {
        self.process_with(pay(Effect::Unsafe, 100))
    }

    fn process_with(&self, mut tool: PlannedTool) -> Runtime {
        tool.count = self.paid.clone();
        let config = Config::from_text("test", CONFIG.as_bytes(), self.folder.path(), &BTreeMap::new());
        let setup = Setup { mode: Mode::Inline, clock: self.clock.clone(), ..Setup::run(self.folder.path()) };
        Runtime::start(&config.expect("a good configuration"), setup.with_tool(["payer"], tool)).expect("it starts")
    }

    fn paid(&self) -> usize {
        self.paid.load(Ordering::SeqCst)
    }
}

fn customer() -> Principal {
    world::principal()
}

/// Begins a session and drives it to where it waits.
async fn waiting(runtime: &Runtime) -> (SessionId, PendingConfirmation) {
    let mut handle = runtime.open(Task::new("pay", customer())).await.expect("it begins");
    match handle.ended().await.expect("the journal works") {
        Ended::AwaitingConfirmation(pending) => match pending.as_slice() {
            [call] => (handle.id(), call.clone()),
            calls => panic!("one call waits, not {calls:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn say(approve: bool) -> Say {
    Say { call_id: "call_1_1".into(), approve, by: "C-002".into(), comment: None, arguments_hash: None }
}

async fn end(handle: Option<SessionHandle>) -> SessionEnd {
    match handle.expect("it goes on here").ended().await.expect("the journal works") {
        Ended::Finished(end) => *end,
        other => panic!("{other:?}"),
    }
}

fn journal(runtime: &Runtime, id: SessionId) -> Vec<Entry> {
    runtime.store().load(StreamId::Session(id)).expect("a readable journal")
}

fn count(entries: &[Entry], name: &str) -> usize {
    entries.iter().filter(|entry| entry.fact.name() == name).count()
}

fn outcomes(entries: &[Entry]) -> Vec<ToolOutcome> {
    let outcome = |entry: &Entry| match &entry.fact {
        Fact::ToolCallFinished { end, .. } => Some(end.outcome),
        _ => None,
    };
    entries.iter().filter_map(outcome).collect()
}

/// The value of a series in the text of a process's metrics.
fn metric(runtime: &Runtime, series: &str) -> f64 {
    let text = runtime.metrics().render();
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse().ok()).expect("the series is there")
}

const DONE: &str = r#"glassbox_sessions_total{agent="payer",status="done",task_type="other"}"#;

#[tokio::test(start_paused = true)]
async fn approved_an_hour_later_by_another_process_it_is_one_session_and_one_trace() {
    let place = Place::new();
    let first = place.process();
    let (id, call) = waiting(&first).await;
    assert_eq!((call.tool.as_str(), &call.arguments), ("pay", &json!({"amount": 5, "currency": "KZT"})));
    assert_eq!(
        (metric(&first, "glassbox_confirmations_pending"), metric(&first, "glassbox_sessions_active")),
        (1.0, 0.0)
    );
    first.stop(Duration::from_secs(1)).await.expect("it stops");
    drop(first);
    tokio::time::sleep(Duration::from_secs(3600)).await;

    let second = place.process();
    assert_eq!(second.orphans().await.expect("readable"), [], "it does not go on by itself");
    assert!(matches!(second.resume(id).await, Err(NotResumed::Waiting(_))));
    let settled = second.decide(id, Say { arguments_hash: Some(call.arguments_hash), ..say(true) }).await;
    let end = end(settled.expect("it is decided").handle).await;
    assert_eq!((end.status, end.active_ms, place.paid()), (SessionStatus::Done, 100, 1));
    assert_eq!((metric(&second, DONE), metric(&second, "glassbox_confirmations_pending")), (1.0, 0.0));

    let entries = journal(&second, id);
    assert_eq!((count(&entries, "session_started"), count(&entries, "session_resumed")), (1, 1));
    let mut fold = SpanFold::new();
    let spans: Vec<_> = entries.iter().filter_map(|entry| fold.apply(entry)).collect();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(names, ["chat payer", "await_confirmation", "execute_tool pay", "chat payer", "invoke_agent payer"]);
    let root = spans[4].span_context.span_id();
    for span in &spans {
        assert_eq!(span.span_context.trace_id().to_string(), id.trace_id().to_string(), "{}", span.name);
        assert!(span.span_context.span_id() == root || span.parent_span_id == root, "{}", span.name);
    }
    let wait = &spans[1];
    assert_eq!(wait.span_kind, SpanKind::Internal);
    assert_eq!(wait.end_time.duration_since(wait.start_time).expect("in order"), Duration::from_secs(3600));
    let decision = wait.attributes.iter().find(|one| one.key.as_str() == "glassbox.confirmation.decision");
    assert_eq!(decision.map(|one| one.value.as_str().into_owned()).as_deref(), Some("approved"));
    assert!(!format!("{spans:?}").contains("C-00"), "nobody is named in a trace");
}

#[tokio::test(start_paused = true)]
async fn of_two_approvals_at_once_one_runs_the_call() {
    let place = Place::new();
    let (first, second) = (place.process(), place.process());
    let (id, _) = waiting(&first).await;
    let (one, two) = tokio::join!(first.decide(id, say(true)), second.decide(id, say(true)));
    let (one, two) = (one.expect("it is decided"), two.expect("the same was decided"));
    assert_eq!(one.decided, two.decided);
    assert_eq!([&one, &two].iter().filter(|settled| settled.handle.is_some()).count(), 1, "one drives it");
    end(one.handle.or(two.handle)).await;
    let entries = journal(&first, id);
    assert_eq!((place.paid(), count(&entries, "confirmation_decided")), (1, 1));
    assert_eq!(outcomes(&entries), [ToolOutcome::Ok]);
}

#[tokio::test(start_paused = true)]
async fn of_a_yes_and_a_no_at_once_one_stands() {
    let place = Place::new();
    let (first, second) = (place.process(), place.process());
    let (id, _) = waiting(&first).await;
    let (yes, no) = tokio::join!(first.decide(id, say(true)), second.decide(id, say(false)));
    assert!(yes.is_ok() != no.is_ok(), "{yes:?} {no:?}");
    let approved = yes.is_ok();
    let (won, lost) = if approved { (yes, no) } else { (no, yes) };
    assert!(matches!(lost, Err(NotDecided::Objection(Objection::Decided { .. }))), "{lost:?}");
    end(won.expect("it won").handle).await;
    assert_eq!(place.paid(), usize::from(approved));
}

#[tokio::test(start_paused = true)]
async fn approving_twice_is_once_and_other_arguments_are_refused() {
    let place = Place::new();
    let process = place.process();
    let (id, call) = waiting(&process).await;
    let other = BlobHash::from_bytes([9; 32]);
    let refused = process.decide(id, Say { arguments_hash: Some(other), ..say(true) }).await;
    let expected = Objection::OtherArguments { waiting: call.arguments_hash, given: other };
    assert!(matches!(&refused, Err(NotDecided::Objection(objection)) if *objection == expected), "{refused:?}");
    let unknown = process.decide(id, Say { call_id: "call_9_9".into(), ..say(true) }).await;
    assert!(matches!(unknown, Err(NotDecided::Objection(Objection::NotAsked(_)))), "{unknown:?}");
    let nobody = process.decide(world::session_id(), say(true)).await;
    assert!(matches!(nobody, Err(NotDecided::Unknown(_))), "{nobody:?}");
    assert_eq!(count(&journal(&process, id), "confirmation_decided"), 0);

    let first = process.decide(id, say(true)).await.expect("it is decided");
    end(first.handle).await;
    tokio::time::sleep(HOURS).await;
    let again = process.decide(id, say(true)).await.expect("the same was decided, however late");
    assert_eq!((again.decided, again.handle.is_none()), (first.decided, true));
    let no = process.decide(id, say(false)).await;
    assert!(matches!(no, Err(NotDecided::Objection(Objection::Decided { .. }))), "{no:?}");
    assert_eq!((place.paid(), count(&journal(&process, id), "confirmation_decided")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_yes_after_the_time_but_before_the_sweep_is_refused_and_the_session_goes_on() {
    let place = Place::new();
    let process = place.process();
    let (id, _) = waiting(&process).await;
    tokio::time::sleep(HOURS).await;
    let late = process.decide(id, say(true)).await;
    assert!(matches!(late, Err(NotDecided::Objection(Objection::Expired(_)))), "{late:?}");
    if let Some(mut handle) = process.find(id) {
        handle.ended().await.expect("the journal works");
    }
    let entries = journal(&process, id);
    assert_eq!((outcomes(&entries), place.paid()), (vec![ToolOutcome::Expired], 0));
    assert!(matches!(&entries.last().expect("facts").fact, Fact::SessionFinished(end) if end.answer.is_some()));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_decides_expires_by_itself_in_whichever_process_lives() {
    let place = Place::new();
    let (id, _) = waiting(&place.process()).await;
    let keeper = place.process();
    keeper.keep_sessions();
    tokio::time::sleep(HOURS - Duration::from_secs(10)).await;
    assert_eq!(metric(&keeper, "glassbox_confirmations_pending"), 1.0, "it knows what others asked");
    assert_eq!(count(&journal(&keeper, id), "session_resumed"), 0);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let entries = journal(&keeper, id);
    assert_eq!((outcomes(&entries), place.paid()), (vec![ToolOutcome::Expired], 0));
    assert!(matches!(&entries.last().expect("facts").fact, Fact::SessionFinished(end) if end.active_ms < 1000));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(metric(&keeper, "glassbox_confirmations_pending"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn two_calls_are_decided_in_two_processes_and_the_last_makes_it_go_on() {
    let place = Place::scripted(
        "
name: payer
usage: {input: 10, output: 5}
rules:
  - when: {call_count: 0}
    calls: [{tool: pay, arguments: {amount: 5}}, {tool: pay, arguments: {amount: 6}}]
  - text: done
",
    );
    let first = place.process();
    let mut handle = first.open(Task::new("pay", customer())).await.expect("it begins");
    let id = handle.id();
    assert!(matches!(handle.ended().await, Ok(Ended::AwaitingConfirmation(calls)) if calls.len() == 2));
    let second = place.process();
    let settled = second.decide(id, Say { call_id: "call_1_2".into(), ..say(true) }).await.expect("it is decided");
    assert!(settled.handle.is_none(), "the other call still waits");
    assert_eq!((metric(&second, "glassbox_sessions_active"), place.paid()), (0.0, 0));
    assert_eq!(metric(&second, "glassbox_confirmations_pending"), 1.0);
    assert_eq!(second.orphans().await.expect("readable"), []);

    let settled = first.decide(id, say(false)).await.expect("it is decided");
    assert_eq!(end(settled.handle).await.status, SessionStatus::Done);
    let entries = journal(&first, id);
    assert_eq!((count(&entries, "session_resumed"), place.paid()), (1, 1));
    let mut ends = outcomes(&entries);
    ends.sort_by_key(|outcome| outcome.label());
    assert_eq!(ends, [ToolOutcome::Ok, ToolOutcome::Rejected]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_changed_after_it_was_shown_does_not_run() {
    let place = Place::new();
    let (id, _) = waiting(&place.process()).await;
    // The same tool but for its effect, which decides what happens after a fault.
    let next = place.process_with(pay(Effect::Idempotent, 100));
    let settled = next.decide(id, say(true)).await.expect("it is decided");
    assert_eq!(end(settled.handle).await.status, SessionStatus::Done);
    assert_eq!((outcomes(&journal(&next, id)), place.paid()), (vec![ToolOutcome::Denied], 0));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_waits_can_be_stopped() {
    let place = Place::new();
    let process = place.process();
    let (id, _) = waiting(&process).await;
    assert!(!process.cancel(id), "nobody drives it");
    let handle = process.cancel_left(id, "C-001").await.expect("it is stopped");
    assert_eq!(end(Some(handle)).await.status, SessionStatus::Cancelled);
    let no = process.decide(id, say(true)).await;
    assert!(matches!(no, Err(NotDecided::Objection(Objection::Decided { .. }))), "{no:?}");
    assert_eq!((metric(&process, "glassbox_confirmations_pending"), place.paid()), (0.0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_stops_a_waiting_session_and_goes_away_stops_it_all_the_same() {
    let place = Place::new();
    let process = place.process();
    let (id, _) = waiting(&process).await;
    assert!(process.cancel_left(id, "C-001").now_or_never().is_none(), "begun and given up");
    let stopped = async {
        while count(&journal(&process, id), "session_finished") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), stopped).await.expect("somebody drives it to its end");
    assert_eq!(count(&journal(&process, id), "cancel_requested"), 1);
}

/// Drives a session in a journal of its own; what dies with it is cut off at the store.
async fn die_during(effect: Effect, cut: Duration) -> (Arc<memory::Store>, Arc<PausedClock>, usize) {
    let (store, clock) = (Arc::new(memory::Store::new()), Arc::new(PausedClock::new()));
    let tool = pay(effect, 10_000);
    let paid = tool.count.clone();
    let (agent, principal) = (agent(tool), Arc::new(customer()));
    let journal = world::journal_of(1, store.clone(), Vec::new(), clock.clone());
    let log = world::begin_until(&agent, &journal, "pay", Duration::from_secs(60));
    let (prompt, signals) = (agent.prompt(&principal), Signals::default());
    let ended = drive(&log, &agent, &prompt, &principal, &signals).await;
    assert!(matches!(ended, Ok(Ended::AwaitingConfirmation(_))), "{ended:?}");
    approve(&log);
    if cut > Duration::ZERO {
        let mut driving = Box::pin(drive(&log, &agent, &prompt, &principal, &signals));
        assert!(tokio::time::timeout(cut, &mut driving).await.is_err(), "the tool takes ten seconds");
        store.fail_with(Some(StoreErrorKind::Io));
        drop(driving);
    }
    drop(log);
    store.fail_with(None);
    tokio::time::sleep(Duration::from_secs(120)).await;
    (store, clock, paid.load(Ordering::SeqCst))
}

fn agent(tool: PlannedTool) -> glassbox::session::Agent {
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(tool)];
    world::agent(SCRIPT, world::model_info(), Limits::default(), Language::En, tools)
}

fn approve(log: &SessionLog) {
    let op = log.read(|state| state.waiting().next().map(|asked| asked.op)).expect("a call waits");
    assert_eq!(log.read(|state| expiries(state, log.now())), []);
    take_up_because(log, vec![glassbox::session::decided(op, say(true))]);
}

/// Goes on in another process; gives how it ended and how often the tool ran there.
async fn go_on(effect: Effect, store: &Arc<memory::Store>, clock: &Arc<PausedClock>) -> (Ended, usize) {
    let tool = pay(effect, 10_000);
    let paid = tool.count.clone();
    let (agent, principal) = (agent(tool), Arc::new(customer()));
    let journal = world::journal_of(2, store.clone(), Vec::new(), clock.clone());
    let now = journal.clock().now();
    let granted = store.acquire(world::session_id(), journal.process(), now, now.plus(HOURS));
    let Ok(LeaseGrant::Granted(epoch)) = granted else { panic!("{granted:?}") };
    let entries = world::entries(store);
    let log = SessionLog::reopen(&journal, world::session_id(), &entries, epoch).expect("a session");
    take_up(&log);
    let ended = drive(&log, &agent, &agent.prompt(&principal), &principal, &Signals::default()).await;
    (ended.expect("the journal works"), paid.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn what_was_approved_does_not_run_twice_when_the_process_dies_in_it() {
    let (store, clock, paid) = die_during(Effect::Unsafe, Duration::from_secs(5)).await;
    let (ended, again) = go_on(Effect::Unsafe, &store, &clock).await;
    assert!(matches!(ended, Ended::Finished(end) if end.status == SessionStatus::Done));
    assert_eq!([paid, again], [1, 0], "the effect was begun once");
    let entries = world::entries(&store);
    assert_eq!(outcomes(&entries), [ToolOutcome::UnknownOutcome]);
    let handed_over = |fact: &Fact| matches!(fact, Fact::HandedOver { cause: HandoverCause::UnknownOutcome, .. });
    assert_eq!(entries.iter().filter(|entry| handed_over(&entry.fact)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_approval_survives_a_death_before_the_call_began() {
    let (store, clock, paid) = die_during(Effect::Unsafe, Duration::ZERO).await;
    let (ended, again) = go_on(Effect::Unsafe, &store, &clock).await;
    assert!(matches!(ended, Ended::Finished(end) if end.status == SessionStatus::Done));
    assert_eq!([paid, again], [0, 1]);
    assert_eq!(outcomes(&world::entries(&store)), [ToolOutcome::Ok]);
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_an_attempt_relied_on_is_used_up() {
    let (store, clock, paid) = die_during(Effect::Idempotent, Duration::from_secs(5)).await;
    let (ended, again) = go_on(Effect::Idempotent, &store, &clock).await;
    // The lost call would be repeated; it is asked for anew.
    assert!(matches!(ended, Ended::AwaitingConfirmation(calls) if calls.len() == 1));
    assert_eq!([paid, again], [1, 0]);
    assert_eq!(outcomes(&world::entries(&store)), [ToolOutcome::Lost]);
}
