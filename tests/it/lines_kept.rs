//! Event lines across lives of the process: each fact that has a line has it, once in normal life
//! and again only around a crash, whoever drives the session and whatever the output did.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use glassbox::{
    Config, Effect, FnTool, Runtime, Setup, Task, ToolReply, ToolSpec,
    config::Events,
    core::{
        Clock, Entry, SessionId, Store, StreamId, Timestamp, circuit::CircuitId, mark::Marks as _, port::SessionFilter,
        spec::Confirm,
    },
    model::Scripted,
    policy::Act,
    runtime::{SessionHandle, SystemClock},
    session::Ended,
    store::memory,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

const DAY: Duration = Duration::from_secs(24 * 3600);
const GRACE: Duration = Duration::from_secs(10);

/// Every fact of these sessions that has a line. A step calls the tool and the next one answers.
const TOLD: [&str; 7] = [
    "session_started",
    "model_call_finished",
    "tool_call_finished",
    "confirmation_requested",
    "session_suspended",
    "session_resumed",
    "session_finished",
];

/// The clock of a day that comes later.
struct LaterClock(Duration);

impl Clock for LaterClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(self.0)
    }
}

/// One store, and a file of lines for each process.
struct World {
    folder: tempfile::TempDir,
    store: Arc<memory::Store>,
    /// Lets the tool answer.
    go: Arc<Notify>,
    /// Told when the tool was called.
    called: Arc<Notify>,
    confirm: Confirm,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, store: Arc::default(), go: Arc::default(), called: Arc::default(), confirm: Confirm::Never }
    }

    /// One whose tool a person must agree to.
    fn with_confirmations() -> Self {
        Self { confirm: Confirm::Suspend, ..Self::new() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A process that writes its lines to this file, or none.
    fn process(&self, events: Option<&Path>) -> Runtime {
        self.process_later(events, Duration::ZERO)
    }

    fn process_later(&self, events: Option<&Path>, later: Duration) -> Runtime {
        let config = Config::embedded();
        let script = "name: t\nrules:\n- {when: {call_count: 0}, call: {tool: wait, arguments: {}}}\n- {text: done}\n";
        let model = Scripted::from_yaml(config.models["bank"].info("bank"), script).expect("a script");
        let events = events.map_or(Events::Off, |path| Events::File(path.to_owned()));
        let setup = Setup { events, clock: Arc::new(LaterClock(later)), ..Setup::run(self.folder.path()) }
            .with_store(self.store.clone())
            .with_tool(["bank"], self.tool())
            .with_model(model);
        Runtime::start(&config, setup).expect("a runtime")
    }

    fn tool(&self) -> impl glassbox::Tool + use<> {
        let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let spec = ToolSpec::new("wait", "Waits for a word.", schema).effect(Effect::Read).confirm(self.confirm);
        let (go, called) = (self.go.clone(), self.called.clone());
        FnTool::new(spec, move |_, _| {
            let (go, called) = (go.clone(), called.clone());
            async move {
                called.notify_one();
                go.notified().await;
                Ok(ToolReply::Text("ok".into()))
            }
        })
    }

    async fn open(&self, runtime: &Runtime) -> SessionHandle {
        let task = Task::new("go", Config::embedded().auth.default_principal);
        runtime.open(task).await.expect("begun")
    }

    /// A session in the middle of its tool.
    async fn begin(&self, runtime: &Runtime) -> SessionHandle {
        let handle = self.open(runtime).await;
        self.called.notified().await;
        handle
    }

    async fn end(&self, mut handle: SessionHandle) {
        self.go.notify_one();
        let ended = handle.ended().await.expect("durable");
        assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    }

    /// A whole session, and the end of its process.
    async fn live(&self, runtime: Runtime) {
        let handle = self.begin(&runtime).await;
        self.end(handle).await;
        stop(&runtime).await;
    }

    fn journal(&self, id: SessionId) -> Vec<Entry> {
        self.store.load(StreamId::Session(id)).expect("a journal")
    }

    fn only(&self) -> SessionId {
        let rows = self.store.sessions(&SessionFilter::default()).expect("a list");
        assert_eq!(rows.len(), 1);
        rows[0].id
    }

    /// The places of the only session's journal that must have a line.
    fn wanted(&self) -> Vec<u64> {
        let journal = self.journal(self.only());
        journal.iter().filter(|entry| TOLD.contains(&entry.fact.name())).map(|entry| entry.seq).collect()
    }

    /// Whether the store still keeps that something is owed.
    fn owed(&self) -> usize {
        let ever = Timestamp::from_nanos(u64::MAX / 2);
        self.store.owing(ever, Timestamp::default(), ever).expect("readable").len()
    }
}

async fn stop(runtime: &Runtime) {
    runtime.stop(GRACE).await.expect("closed");
}

async fn write_owed(runtime: &Runtime) -> usize {
    runtime.write_owed_lines(SystemClock.now().plus(Duration::from_secs(60))).await.expect("a store that works")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn places(path: &Path) -> Vec<u64> {
    lines(path).iter().map(|line| line["seq"].as_u64().expect("a place")).collect()
}

#[tokio::test]
async fn in_normal_life_each_line_is_written_once_and_nothing_is_owed() {
    let world = World::new();
    let file = world.file("a");
    world.live(world.process(Some(&file))).await;
    assert_eq!(places(&file), world.wanted());
    assert_eq!(world.store.mark(StreamId::Session(world.only())), Ok(None), "its mark is gone");
    let next = world.process(Some(&file));
    assert_eq!(write_owed(&next).await, 0);
    stop(&next).await;
    assert_eq!(places(&file), world.wanted());
}

fn all_are_counted_as_lost(world: &World, process: &Runtime) {
    let dropped = format!("glassbox_telemetry_dropped_total{{sink=\"lines\"}} {}\n", world.wanted().len());
    assert!(process.metrics().render().contains(&dropped), "{dropped}");
}

async fn the_next_start_writes_them(world: &World, file: &Path) {
    let next = world.process(Some(file));
    assert_eq!(write_owed(&next).await, 1);
    stop(&next).await;
    assert_eq!(places(file), world.wanted());
    assert_eq!(world.owed(), 0);
}

#[tokio::test]
async fn lines_that_a_full_disk_took_are_counted_and_written_by_the_next_start() {
    let world = World::new();
    let first = world.process(Some(Path::new("/dev/full")));
    world.live(first.clone()).await;
    all_are_counted_as_lost(&world, &first);
    the_next_start_writes_them(&world, &world.file("b")).await;
}

#[tokio::test]
async fn a_file_that_is_moved_away_in_the_middle_of_a_session_costs_no_line() {
    let world = World::new();
    let (file, moved) = (world.file("a"), world.file("a.1"));
    let first = world.process(Some(&file));
    let handle = world.begin(&first).await;
    fs::rename(&file, &moved).expect("moved");
    world.end(handle).await;
    stop(&first).await;
    assert_eq!([places(&moved), places(&file)].concat(), world.wanted(), "each once, and in order");
    assert!(places(&file).ends_with(&world.wanted()[3..]), "what came later is under the name");
    assert_eq!(world.owed(), 0);
}

#[tokio::test]
async fn after_a_file_is_deleted_lines_go_on_in_a_new_one() {
    let world = World::new();
    let file = world.file("a");
    let first = world.process(Some(&file));
    let handle = world.begin(&first).await;
    fs::remove_file(&file).expect("deleted");
    world.end(handle).await;
    stop(&first).await;
    let (kept, wanted) = (places(&file), world.wanted());
    assert!(!kept.is_empty() && wanted.ends_with(&kept), "{kept:?} of {wanted:?}");
    assert_eq!(world.owed(), 0, "who deletes lines wants none of them again");
}

#[tokio::test]
async fn lines_that_no_file_can_be_opened_for_are_counted_and_owed() {
    let world = World::new();
    let file = world.file("a");
    let first = world.process(Some(&file));
    fs::remove_file(&file).expect("deleted");
    fs::create_dir(&file).expect("in the way");
    world.live(first.clone()).await;
    all_are_counted_as_lost(&world, &first);
    fs::remove_dir(&file).expect("out of the way");
    the_next_start_writes_them(&world, &file).await;
}

#[tokio::test]
async fn lines_of_yesterday_are_given_up() {
    let world = World::new();
    world.live(world.process(Some(Path::new("/dev/full")))).await;
    assert_eq!(world.owed(), 1);
    let (file, later) = (world.file("b"), DAY + Duration::from_secs(60));
    let second = world.process_later(Some(&file), later);
    assert_eq!(second.write_owed_lines(SystemClock.now().plus(later)).await, Ok(0));
    stop(&second).await;
    assert_eq!((places(&file), world.owed()), (vec![], 0));
}

#[tokio::test]
async fn a_session_that_a_living_process_drives_is_written_by_that_process_alone() {
    let world = World::new();
    let (one, other) = (world.file("a"), world.file("b"));
    let (first, second) = (world.process(Some(&one)), world.process(Some(&other)));
    let handle = world.begin(&first).await;
    assert_eq!(world.owed(), 1, "its mark lags behind");
    assert_eq!((write_owed(&second).await, write_owed(&first).await), (0, 0));
    world.end(handle).await;
    stop(&first).await;
    assert_eq!(write_owed(&second).await, 0);
    stop(&second).await;
    assert_eq!((places(&one), places(&other)), (world.wanted(), vec![]));
}

#[tokio::test]
async fn whoever_takes_a_session_up_goes_on_where_the_lines_end() {
    let world = World::new();
    let (one, other) = (world.file("a"), world.file("b"));
    let first = world.process(Some(&one));
    let handle = world.begin(&first).await;
    let id = handle.id();
    first.begin_drain();
    world.go.notify_one();
    stop(&first).await;
    let second = world.process(Some(&other));
    second.resume(id).await.expect("nobody drives it").ended().await.expect("durable");
    stop(&second).await;
    let both = [places(&one), places(&other)].concat();
    assert_eq!(both, world.wanted(), "no line twice, and none missing");
    assert!(!places(&one).is_empty() && !places(&other).is_empty());
}

#[tokio::test]
async fn whoever_takes_a_session_up_writes_what_is_owed_of_it_first() {
    for events in [None, Some("/dev/full")] {
        let world = World::new();
        let first = world.process(events.map(Path::new));
        let handle = world.begin(&first).await;
        first.begin_drain();
        world.go.notify_one();
        stop(&first).await;
        let file = world.file("b");
        let second = world.process(Some(&file));
        let id = handle.id();
        second.resume(id).await.expect("nobody drives it").ended().await.expect("durable");
        stop(&second).await;
        assert_eq!(places(&file), world.wanted(), "from the beginning, in order: {events:?}");
        assert_eq!(world.owed(), 0);
    }
}

#[tokio::test]
async fn without_lines_nothing_is_owed() {
    let world = World::new();
    world.live(world.process(None)).await;
    assert_eq!(world.owed(), 0);
    let file = world.file("b");
    let second = world.process(Some(&file));
    assert_eq!(write_owed(&second).await, 0);
    stop(&second).await;
    assert_eq!(places(&file), [0; 0], "a session that was ended without lines has none");
}

#[tokio::test]
async fn what_a_process_owes_of_its_own_is_written_by_the_next() {
    let world = World::new();
    let first = world.process(Some(Path::new("/dev/full")));
    let circuit = CircuitId::tool("wait");
    first.switch_circuit(&circuit, Act::ForceOpen(None), "C-001".into()).expect("a circuit");
    first.switch_circuit(&circuit, Act::Reset, "C-001".into()).expect("a circuit");
    stop(&first).await;
    let file = world.file("b");
    let second = world.process(Some(&file));
    assert_eq!(write_owed(&second).await, 1);
    second.switch_circuit(&circuit, Act::ForceOpen(None), "C-001".into()).expect("a circuit");
    stop(&second).await;
    let told: Vec<_> = lines(&file).iter().map(|line| (line["event"].clone(), line["to"].clone())).collect();
    let expected = ["open", "closed", "open"].map(|to| (json!("circuit_changed"), json!(to)));
    assert_eq!(told, expected);
    let mut processes: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(&file) {
        *processes.entry(line["process_id"].to_string()).or_default() += 1;
    }
    assert_eq!(processes.len(), 2, "each under its own name");
    assert_eq!(world.owed(), 0);
}

#[tokio::test]
async fn nobody_need_decide_for_the_lines_of_a_session_that_waits() {
    let world = World::with_confirmations();
    let first = world.process(Some(Path::new("/dev/full")));
    let ended = world.open(&first).await.ended().await.expect("durable");
    assert!(matches!(ended, Ended::AwaitingConfirmation(_)), "{ended:?}");
    stop(&first).await;
    let file = world.file("b");
    let second = world.process(Some(&file));
    assert_eq!(write_owed(&second).await, 1);
    stop(&second).await;
    assert_eq!(places(&file), world.wanted());
    assert!(lines(&file).iter().any(|line| line["event"] == "confirmation_requested"));
    assert_eq!(world.owed(), 0);
}
