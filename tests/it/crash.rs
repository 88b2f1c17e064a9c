//! Nothing lost, nothing done twice: a real process is killed before and after the commit of
//! every kind of fact, and between an effect and its result; the next life goes on, and together
//! they write every event line.
//!
//! The process that dies is this test binary itself, started again with a plan.

mod desk;
mod lines;
mod order;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use glassbox::{
    Config, FnTool, Runtime,
    config::{Events, Sources},
    core::{
        BlobHash, Clock, Effect, Entry, Fact, SessionId, SessionStatus, Store, StreamId, Timestamp, ToolOutcome,
        ToolSpec,
        fact::{HandoverCause, SessionSummary},
        id::ProcessId,
        lease::{LeaseEpoch, LeaseGrant, Leases},
        once::BegunOnce,
        port::{SessionFilter, StoreError, ToolReply, Write},
    },
    runtime::{Setup, SystemClock, Task},
    signal::spans::SpanFold,
    store::sqlite,
};
use opentelemetry_sdk::trace::SpanData;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The test that is the whole life of a process.
const LIFE: &str = "crash::life_of_the_process_that_dies";
/// The usual configuration, and that of two unsafe siblings.
const USUAL: &str = "glassbox.yaml";
const SIBLINGS: &str = "siblings.yaml";
/// The variable that makes this binary the process that dies.
const PLAN: &str = "GLASSBOX_TEST_CRASH_PLAN";
/// The signal that a process ends itself with.
const ABORT: i32 = 6;

/// What one life does.
#[derive(Serialize, Deserialize, Clone, Debug)]
struct Plan {
    folder: PathBuf,
    /// Which life it is; each begins a minute after the one before, when its leases are over.
    life: u32,
    /// The configuration, in the folder of the test's data.
    config: String,
    /// Sessions in all; what is missing is begun.
    sessions: usize,
    kill: Option<Kill>,
}

/// Where a life ends.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
enum Kill {
    /// Before the commit of the nth fact of this kind.
    Before(String, u32),
    /// After it, before any sink sees it.
    After(String, u32),
    /// In a tool, after its effect and before its result.
    InTool(String),
}

/// Commits fact by fact, and dies where the plan says.
struct DeadlyStore {
    inner: sqlite::Store,
    kill: Option<Kill>,
    seen: AtomicU32,
}

fn die() -> ! {
    // No destructor, no flush: as with a kill from outside.
    std::process::abort()
}

impl DeadlyStore {
    fn hits(&self, fact: &Fact) -> bool {
        match &self.kill {
            Some(Kill::Before(name, nth) | Kill::After(name, nth)) if fact.name() == name => {
                self.seen.fetch_add(1, Ordering::SeqCst) + 1 == *nth
            }
            _ => false,
        }
    }

    fn append_chunk(&self, write: &Write, chunk: &[Arc<Entry>], first: bool) -> Appended {
        let hit = chunk.iter().any(|entry| self.hits(&entry.fact));
        if hit && matches!(self.kill, Some(Kill::Before(..))) {
            die();
        }
        let taken = write.take.map(|_| LeaseEpoch::FIRST);
        let part = Write {
            entries: chunk.to_vec(),
            take: write.take.filter(|_| first),
            lease: if first { write.lease } else { write.lease.or(taken) },
            ..write.clone()
        };
        let mut results = self.inner.append(&[part])?;
        if hit {
            die();
        }
        Ok(results.remove(0))
    }
}

type Appended = Result<Result<(), StoreError>, StoreError>;

/// Cuts a write as finely as commits may be cut: what was recorded together stays together.
fn chunks(entries: &[Arc<Entry>]) -> Vec<Vec<Arc<Entry>>> {
    let mut chunks: Vec<Vec<Arc<Entry>>> = Vec::new();
    for entry in entries {
        let before = chunks.last().and_then(|chunk| chunk.last()).map(|entry| entry.fact.name());
        let joined = match entry.fact.name() {
            "handed_over" => before.is_some(),
            "session_finished" => matches!(before, Some("limit_reached" | "handed_over")),
            _ => false,
        };
        match chunks.last_mut() {
            Some(chunk) if joined => chunk.push(entry.clone()),
            _ => chunks.push(vec![entry.clone()]),
        }
    }
    chunks
}

impl Store for DeadlyStore {
    fn append(&self, writes: &[Write]) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        if self.kill.is_none() {
            return self.inner.append(writes);
        }
        let mut results = Vec::new();
        for write in writes {
            let mut result = Ok(());
            for (place, chunk) in chunks(&write.entries).into_iter().enumerate() {
                if result.is_ok() {
                    result = self.append_chunk(write, &chunk, place == 0)?;
                }
            }
            results.push(result);
        }
        Ok(results)
    }

    fn system_facts(&self, name: &str) -> Result<Vec<Entry>, StoreError> {
        self.inner.system_facts(name)
    }

    fn load(&self, stream: StreamId) -> Result<Vec<Entry>, StoreError> {
        self.inner.load(stream)
    }

    fn page(&self, stream: StreamId, from: u64, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.inner.page(stream, from, limit)
    }

    fn blob(&self, hash: BlobHash) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.inner.blob(hash)
    }

    fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        self.inner.sessions(filter)
    }

    fn session(&self, id: SessionId) -> Result<Option<SessionSummary>, StoreError> {
        self.inner.session(id)
    }

    fn recent_starts(&self, principal: &str, since: Timestamp, limit: usize) -> Result<Vec<Timestamp>, StoreError> {
        self.inner.recent_starts(principal, since, limit)
    }

    fn begun_once(&self, key: BlobHash, now: Timestamp) -> Result<Option<BegunOnce>, StoreError> {
        self.inner.begun_once(key, now)
    }

    fn forget_keys(&self, now: Timestamp, limit: usize) -> Result<u64, StoreError> {
        self.inner.forget_keys(now, limit)
    }

    fn mark_exported(&self, sessions: &[SessionId]) -> Result<(), StoreError> {
        self.inner.mark_exported(sessions)
    }

    fn unexported(&self, since: Timestamp, before: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        self.inner.unexported(since, before)
    }

    fn ended(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        self.inner.ended(before, limit)
    }

    fn erase(&self, owner: ProcessId, sessions: &[SessionId]) -> Result<u64, StoreError> {
        self.inner.erase(owner, sessions)
    }

    fn scrub(&self) -> Result<(), StoreError> {
        self.inner.scrub()
    }

    fn probe(&self) -> Result<(), StoreError> {
        self.inner.probe()
    }
}

impl Leases for DeadlyStore {
    fn acquire(
        &self,
        session: SessionId,
        owner: ProcessId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<LeaseGrant, StoreError> {
        self.inner.acquire(session, owner, now, until)
    }

    fn renew(&self, owner: ProcessId, sessions: &[SessionId], until: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        self.inner.renew(owner, sessions, until)
    }

    fn release(&self, session: SessionId, owner: ProcessId) -> Result<(), StoreError> {
        self.inner.release(session, owner)
    }

    fn expired(&self, now: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        self.inner.expired(now)
    }
}

/// The clock of a later life.
struct LaterClock(Duration);

impl Clock for LaterClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(self.0)
    }
}

/// A tool whose effect is a line in a file outside the process.
fn effect_tool(name: &'static str, effect: Effect, plan: &Plan) -> FnTool<impl EffectFn + use<>> {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let spec = ToolSpec::new(name, format!("Leaves a line that says {name}."), schema).effect(effect);
    let path = plan.folder.join("effects");
    let (folder, siblings) = (plan.folder.clone(), plan.config == SIBLINGS);
    let deadly = plan.kill == Some(Kill::InTool(name.to_owned()));
    FnTool::new(spec, move |cx: glassbox::ToolContext, _| {
        let (path, folder, line) = (path.clone(), folder.clone(), format!("{name} {}\n", cx.idempotency_key));
        Box::pin(async move {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("the file of effects");
            file.write_all(line.as_bytes()).expect("a line");
            file.sync_all().expect("a durable line");
            if deadly {
                die();
            }
            if siblings {
                beside_its_sibling(name, &folder).await;
            }
            Ok(ToolReply::Text("ok".into()))
        }) as Pending
    })
}

/// `ship` never comes back from its effect; `pay` does, but not before the effect of `ship`.
async fn beside_its_sibling(name: &str, folder: &Path) {
    if name == "ship" {
        std::future::pending::<()>().await;
    }
    while !effects(folder).iter().any(|line| line.starts_with("ship ")) {
        tokio::task::yield_now().await;
    }
}

type Pending = std::pin::Pin<Box<dyn Future<Output = Result<ToolReply, glassbox::Fault>> + Send>>;

trait EffectFn: Fn(glassbox::ToolContext, serde_json::Value) -> Pending + Send + Sync {}
impl<F: Fn(glassbox::ToolContext, serde_json::Value) -> Pending + Send + Sync> EffectFn for F {}

/// The whole life of the process that dies; in the test run itself it does nothing.
#[test]
fn life_of_the_process_that_dies() {
    let Ok(text) = std::env::var(PLAN) else { return };
    let plan: Plan = serde_json::from_str(&text).expect("a plan");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(live(&plan));
}

async fn live(plan: &Plan) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/crash").join(&plan.config);
    let config = Config::load(&Sources { file: Some(file), env: BTreeMap::new() }).expect("a configuration");
    let inner = sqlite::Store::open(&plan.folder.join("journal.db"), sqlite::Options::default()).expect("a store");
    let store = Arc::new(DeadlyStore { inner, kill: plan.kill.clone(), seen: AtomicU32::new(0) });
    let events = Events::File(plan.folder.join(lines::FILE));
    let mut setup = Setup { events, ..Setup::run(&plan.folder) }
        .with_store(store)
        .with_tool(["crash"], effect_tool("look", Effect::Read, plan))
        .with_tool(["crash"], effect_tool("note", Effect::Idempotent, plan))
        .with_tool(["crash"], effect_tool("pay", Effect::Unsafe, plan))
        .with_tool(["crash"], effect_tool("ship", Effect::Unsafe, plan));
    let clock = Arc::new(LaterClock(Duration::from_secs(60) * plan.life));
    setup.clock = clock.clone();
    let runtime = Runtime::start(&config, setup).expect("a runtime");
    let orphans = runtime.orphans().await.expect("a list");
    let known = runtime.store().sessions(&SessionFilter { limit: 1000, ..Default::default() }).expect("a list").len();
    let mut handles = Vec::new();
    for id in orphans {
        handles.push(runtime.resume(id).await.expect("a resumed session"));
    }
    for _ in known..plan.sessions {
        let task = Task::new("pay once".to_owned(), config.auth.default_principal.clone());
        handles.push(runtime.open(task).await.expect("a session"));
    }
    for mut handle in handles {
        handle.ended().await.expect("an end");
    }
    // Nobody else lives, so that the leases of earlier lives need not run out first.
    runtime.write_owed_lines(clock.now()).await.expect("a store that works");
    runtime.stop(Duration::from_secs(5)).await.expect("an orderly stop");
}

/// Starts one life.
fn begin_life(plan: &Plan) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args([LIFE, "--exact", "--nocapture"])
        .env(PLAN, serde_json::to_string(plan).expect("a plan"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child")
}

/// Runs one life; true if it killed itself.
fn run_life(plan: &Plan) -> bool {
    let status = begin_life(plan).wait().expect("a child");
    let killed = status.signal() == Some(ABORT);
    assert!(killed || status.success(), "{plan:?} ended with {status}");
    killed
}

/// Lives a session through its deaths; gives its journal and the lines of its effects.
fn lives(kills: &[Kill]) -> (Vec<Entry>, Vec<String>, usize) {
    lives_of(USUAL, kills)
}

fn lives_of(config: &str, kills: &[Kill]) -> (Vec<Entry>, Vec<String>, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut deaths = 0;
    let plan = |life: usize, kill: Option<Kill>| Plan {
        folder: folder.path().to_owned(),
        life: u32::try_from(life).expect("few lives"),
        config: config.to_owned(),
        sessions: 1,
        kill,
    };
    for (life, kill) in kills.iter().enumerate() {
        deaths += usize::from(run_life(&plan(life, Some(kill.clone()))));
    }
    assert!(!run_life(&plan(kills.len(), None)), "the last life is not killed");
    let store = sqlite::Store::open(&folder.path().join("journal.db"), sqlite::Options::default()).expect("a store");
    let rows = store.sessions(&SessionFilter::default()).expect("a list");
    assert_eq!(rows.len(), 1, "one session, whatever happened to the processes: {kills:?}");
    let entries = store.load(StreamId::Session(rows[0].id)).expect("a journal");
    let repeats = lines::check(folder.path());
    assert!(deaths > 0 || repeats == 0, "without a crash each line is written once");
    (entries, effects(folder.path()), deaths)
}

/// The lines that tools left outside the process.
fn effects(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn check(kills: &[Kill], entries: &[Entry], effects: &[String]) {
    let Some(Fact::SessionFinished(end)) = entries.last().map(|entry| &entry.fact) else {
        panic!("{kills:?}: the session was lost")
    };
    assert_eq!(end.status, SessionStatus::Done, "{kills:?}");
    let ended = |fact: &Fact| matches!(fact, Fact::SessionFinished(_));
    assert_eq!(entries.iter().filter(|entry| ended(&entry.fact)).count(), 1, "{kills:?}: ended once");
    check_pay(kills, entries, effects);
    let notes: BTreeSet<_> = effects.iter().filter(|line| line.starts_with("note ")).collect();
    assert_eq!(notes.len(), 1, "{kills:?}: every attempt of a call carries the same key: {notes:?}");
    check_trace(kills, entries);
}

/// The unsafe call: exactly one effect, or an unknown outcome with 0 or 1 and a hand-over.
fn check_pay(kills: &[Kill], entries: &[Entry], effects: &[String]) {
    let paid = effects.iter().filter(|line| line.starts_with("pay ")).count();
    let outcomes: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.fact {
            Fact::ToolCallFinished { end, .. } if end.call_id == "call_2_1" => Some(end.outcome),
            _ => None,
        })
        .collect();
    let handed_over = entries
        .iter()
        .filter(|entry| matches!(entry.fact, Fact::HandedOver { cause: HandoverCause::UnknownOutcome, .. }))
        .count();
    match outcomes.last() {
        Some(ToolOutcome::Ok) => assert_eq!((paid, handed_over), (1, 0), "{kills:?}"),
        Some(ToolOutcome::UnknownOutcome) => {
            assert!(paid <= 1, "{kills:?}: paid {paid} times");
            assert_eq!(handed_over, 1, "{kills:?}");
        }
        other => panic!("{kills:?}: the call ended as {other:?}"),
    }
}

/// One trace: one root, everything under it, and each span the same whoever folds it.
fn check_trace(kills: &[Kill], entries: &[Entry]) {
    let fold = |entries: &[Entry]| -> Vec<SpanData> {
        let mut fold = SpanFold::new();
        entries.iter().filter_map(|entry| fold.apply(entry)).collect()
    };
    let spans = fold(entries);
    let roots: Vec<_> = spans.iter().filter(|span| span.name.starts_with("invoke_agent")).collect();
    assert_eq!(roots.len(), 1, "{kills:?}");
    let root = roots[0].span_context.span_id();
    let ids: BTreeSet<_> = spans.iter().map(|span| span.span_context.span_id().to_string()).collect();
    assert_eq!(ids.len(), spans.len(), "{kills:?}: span ids differ");
    assert!(spans.iter().all(|span| span.span_context.trace_id() == roots[0].span_context.trace_id()), "{kills:?}");
    let stray = spans.iter().filter(|span| span.span_context.span_id() != root && span.parent_span_id != root).count();
    assert_eq!(stray, 0, "{kills:?}: every call is right under the root");
    assert_eq!(format!("{spans:?}"), format!("{:?}", fold(entries)), "{kills:?}");
}

/// Every place where the life of an undisturbed session can be cut.
fn every_kill() -> Vec<Kill> {
    let (entries, effects, _) = lives(&[]);
    check(&[], &entries, &effects);
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut kills: Vec<_> = ["look", "note", "pay"].map(|tool| Kill::InTool(tool.to_owned())).into();
    for entry in &entries {
        let name = entry.fact.name();
        let nth = *counts.entry(name).and_modify(|count| *count += 1).or_insert(1);
        kills.push(Kill::Before(name.to_owned(), nth));
        kills.push(Kill::After(name.to_owned(), nth));
    }
    assert!(kills.len() > 50, "only {} places", kills.len());
    kills
}

/// Tries many plans, several at a time: lives are short and mostly wait for the disk.
fn try_all(plans: Vec<Vec<Kill>>) {
    let plans = std::sync::Mutex::new(plans.into_iter());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(kills) = { plans.lock().expect("no thread panics with the lock").next() } {
                    let (entries, effects, deaths) = lives(&kills);
                    assert!(deaths > 0, "{kills:?} killed nothing");
                    check(&kills, &entries, &effects);
                }
            });
        }
    });
}

#[test]
fn a_process_may_die_before_or_after_every_fact() {
    try_all(every_kill().into_iter().map(|kill| vec![kill]).collect());
}

#[test]
fn a_process_may_die_while_it_takes_up_what_another_left() {
    let first = Kill::InTool("pay".to_owned());
    let second = ["session_resumed", "tool_attempt_finished", "tool_call_finished", "handed_over"];
    let plans = second.iter().flat_map(|name| {
        [Kill::Before((*name).to_owned(), 1), Kill::After((*name).to_owned(), 1)].map(|kill| vec![first.clone(), kill])
    });
    try_all(plans.collect());
}

/// The result of a finished effect is kept; its sibling, cut off in the middle, is not run again.
#[test]
fn a_finished_sibling_keeps_its_result() {
    let kill = Kill::After("tool_call_finished".to_owned(), 1);
    let (entries, effects, deaths) = lives_of(SIBLINGS, &[kill]);
    assert_eq!(deaths, 1);
    let outcomes: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.fact {
            Fact::ToolCallFinished { end, .. } => Some((end.call_id.as_str(), end.outcome)),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [("call_1_2", ToolOutcome::Ok), ("call_1_1", ToolOutcome::UnknownOutcome)]);
    let count = |name: &str| effects.iter().filter(|line| line.starts_with(name)).count();
    assert_eq!((count("pay "), count("ship ")), (1, 1), "neither ran twice");
    let handed_over =
        |entry: &&Entry| matches!(entry.fact, Fact::HandedOver { cause: HandoverCause::UnknownOutcome, .. });
    assert_eq!(entries.iter().filter(handed_over).count(), 1);
    let Some(Fact::SessionFinished(end)) = entries.last().map(|entry| &entry.fact) else { panic!("lost") };
    assert_eq!(end.status, SessionStatus::Done);
    check_trace(&[], &entries);
}

#[test]
fn a_session_that_takes_its_process_down_three_times_is_given_up() {
    let kill = Kill::InTool("look".to_owned());
    let (entries, _, deaths) = lives(&vec![kill; 9]);
    // What the first life did may not have been durable yet when it died; then the second life
    // does it again, which is progress, and its death is the first of three.
    assert!((3..=8).contains(&deaths), "a later life does not try again: {deaths} deaths");
    let Some(Fact::SessionFinished(end)) = entries.last().map(|entry| &entry.fact) else { panic!("lost") };
    assert_eq!(end.reason.map(|reason| reason.label()), Some("crash_loop"));
}

/// Sessions under a shower of kills from outside, each once the tools have left some more lines.
#[test]
fn many_sessions_survive_kills_under_load() {
    let full = std::env::var_os("GLASSBOX_TEST_FULL").is_some();
    let (sessions, lines_a_life) = if full { (200, 30) } else { (40, 15) };
    let folder = tempfile::tempdir().expect("a folder");
    let mut life = 0;
    loop {
        let plan = Plan { folder: folder.path().to_owned(), life, config: USUAL.to_owned(), sessions, kill: None };
        let before = effects(folder.path()).len();
        let mut child = begin_life(&plan);
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child") {
                break status;
            }
            if effects(folder.path()).len() >= before + lines_a_life {
                child.kill().expect("a child that runs");
            }
            thread::yield_now();
        };
        life += 1;
        if status.success() {
            break;
        }
        assert_eq!(status.signal(), Some(9), "{status}");
        assert!(life < 200, "it never ends");
    }
    assert!(life > 3, "only {life} lives");
    let store = sqlite::Store::open(&folder.path().join("journal.db"), sqlite::Options::default()).expect("a store");
    let rows = store.sessions(&SessionFilter { limit: 1000, ..Default::default() }).expect("a list");
    assert_eq!(rows.len(), sessions, "no session is lost and none is made up");
    let lines = effects(folder.path());
    for row in rows {
        let entries = store.load(StreamId::Session(row.id)).expect("a journal");
        let own: Vec<_> = lines.iter().filter(|line| line.contains(&row.id.to_string())).cloned().collect();
        check(&[], &entries, &own);
    }
    lines::check(folder.path());
}
