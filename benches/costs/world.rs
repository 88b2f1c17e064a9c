//! What the measurements run in: a runtime, a writer with all sinks, a collector that takes
//! everything and keeps nothing.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use glassbox::{
    Config, Runtime, Setup, Task,
    config::{Otlp, Protocol, RetryPolicy, Store, Synchronous},
    core::{
        Clock, Entry, Principal, SessionId, Sink, StreamId, Timestamp,
        circuit::CircuitId,
        fact::{Language, SpanContent},
        port::{self, Entropy as _, JournalWatch},
    },
    journal::{Journal, Mode, OnFault, SessionLog, SystemLog, Writer},
    machine::{Prompt, breaker::Rules},
    policy::{self, Circuits, Policy},
    runtime::{SystemClock, SystemEntropy},
    session::{Agent, Ended, Followed, NewSession, Upstream},
    signal::{
        Feed, KeyedHash, Lines, MetricLabels, Metrics, lines,
        otlp::{self, Pipeline, SpanCounters},
    },
    store::memory,
    tool::ToolSet,
};
use prometheus::IntCounter;

/// The task of every measured session: two steps, one tool.
const TASK: &str = "Сколько я потратил на такси в сентябре?";

/// The bank assistant on this store, with room for many sessions.
pub(crate) fn config(store: Store) -> Config {
    let mut config = Config::embedded();
    config.server.max_sessions = 10_000;
    config.rate_limits.sessions_per_user_per_hour = None;
    config.store = store;
    config
}

pub(crate) fn sqlite() -> Store {
    Store::Sqlite { path: "glassbox.db".into(), synchronous: Synchronous::Full }
}

/// Every signal on: lines to a file, spans to a collector on this machine.
pub(crate) fn with_signals(mut config: Config, folder: &Path, collector: &str) -> Config {
    config.telemetry.events = Some(glassbox::config::Events::File(folder.join("events.jsonl")));
    config.telemetry.otlp = Some(Otlp {
        endpoint: collector.to_owned(),
        protocol: Protocol::HttpProtobuf,
        headers: Default::default(),
        timeout: Duration::from_secs(10),
        gzip: false,
        queue_size: 100_000,
        batch_size: 512,
    });
    config
}

pub(crate) fn start(config: &Config, folder: &Path) -> Runtime {
    Runtime::start(config, Setup::run(folder)).expect("a runtime")
}

pub(crate) fn task(config: &Config) -> Task {
    Task::new(TASK.to_owned(), config.auth.default_principal.clone())
}

/// One session from its task to its durable end.
pub(crate) async fn session(runtime: &Runtime, config: &Config) {
    let ended = runtime.open(task(config)).await.expect("begun").ended().await.expect("durable");
    let Ended::Finished(end) = ended else { panic!("suspended") };
    assert_eq!(end.steps, 2, "the measured session has two steps");
}

pub(crate) async fn stop(runtime: Runtime) {
    runtime.stop(Duration::from_secs(10)).await.expect("closed");
}

/// The journal of one session, to be recorded again and again.
pub(crate) async fn recorded(folder: &Path) -> Vec<Entry> {
    let config = config(Store::Memory);
    let runtime = start(&config, folder);
    let mut handle = runtime.open(task(&config)).await.expect("begun");
    handle.ended().await.expect("durable");
    let entries = runtime.store().load(StreamId::Session(handle.id())).expect("a journal");
    stop(runtime).await;
    entries
}

/// Hears nothing.
struct Deaf;

impl JournalWatch for Deaf {
    fn committed(&self, _: usize, _: Duration) {}
    fn failed(&self, _: port::StoreErrorKind) {}
    fn queued(&self, _: usize) {}
}

/// A journal in SQLite, and the signals that must be waited for.
pub(crate) struct Bench {
    pub(crate) journal: Journal,
    lines: Option<Lines>,
    pipeline: Option<Pipeline>,
    lost: Option<IntCounter>,
}

impl Bench {
    /// With `collector`, all sinks; without, the journal alone.
    pub(crate) fn new(folder: &Path, collector: Option<&str>) -> Self {
        let (mut sinks, mut lines, mut pipeline, mut lost) = (Vec::new(), None, None, None);
        let mut watch: Arc<dyn JournalWatch> = Arc::new(Deaf);
        if let Some(collector) = collector {
            let metrics = metrics();
            let feed = Feed::new(metrics.dropped("feed"));
            let hash = KeyedHash::from_key(&[7; 32]).expect("a long key");
            let output = lines::Output::File(folder.join("events.jsonl"));
            let open = Lines::new(output, hash, metrics.dropped("lines")).expect("a file");
            let spans = spans(collector, &metrics);
            sinks = vec![metrics.sink(), spans.sink(), feed.sink(), open.sink()];
            (lines, pipeline, lost) = (Some(open), Some(spans), Some(metrics.dropped("lines")));
            watch = Arc::new(metrics);
        }
        let store = glassbox::runtime::open_store(&sqlite(), folder).expect("a store");
        Self { journal: journal(store, sinks, watch), lines, pipeline, lost }
    }

    /// Waits until everything is written and sent.
    pub(crate) async fn finish(&self) {
        self.journal.writer().stop().await.expect("committed");
        if let Some(lines) = &self.lines {
            assert!(lines.stop(Duration::from_secs(20)), "lines were left");
        }
        assert_eq!(
            self.lost.as_ref().map_or(0, |lost| lost.get()),
            0,
            "lines were dropped, so this is not their price"
        );
        if let Some(pipeline) = &self.pipeline {
            let counts = pipeline.shutdown(Duration::from_secs(20));
            assert_eq!((counts.failed, counts.dropped), (0, 0), "spans were lost");
        }
    }
}

fn metrics() -> Metrics {
    let config = Config::embedded();
    let labels = MetricLabels {
        agents: vec![("bank".into(), config.agents["bank"].task_types.clone())],
        models: vec![("bank".into(), "scripted".into(), "bank".into())],
        tools: vec!["txn_sum".into(), "card_block".into(), "lookup".into()],
        mcp_servers: Vec::new(),
        fallbacks: Vec::new(),
        circuits: Vec::new(),
        sinks: vec!["feed", "lines", "otlp"],
        version: "0".into(),
    };
    Metrics::new(&labels).expect("families")
}

fn spans(collector: &str, metrics: &Metrics) -> Pipeline {
    let config = otlp::Config {
        queue_size: 1_000_000,
        queue_bytes: 1 << 30,
        batch_size: 512,
        ..otlp::Config::new(collector, otlp::Protocol::HttpProtobuf)
    };
    let counter = |name: &str| IntCounter::new(name, "a count").expect("a counter");
    let counters = SpanCounters {
        acknowledged: metrics.spans_acknowledged(),
        failed: counter("failed"),
        dropped: counter("lost"),
    };
    Pipeline::start(config, counters).expect("a pipeline")
}

fn journal(store: Arc<dyn port::Store>, sinks: Vec<Box<dyn Sink>>, watch: Arc<dyn JournalWatch>) -> Journal {
    let clock = Arc::new(SystemClock);
    let writer = Writer::start(Mode::Thread, OnFault::Fail, store, sinks, watch, clock.clone()).expect("a thread");
    let mut process = [0; 16];
    SystemEntropy.fill(&mut process);
    Journal::new(writer, clock, glassbox::core::id::ProcessId::from_bytes(process))
}

/// A journal in memory without signals.
pub(crate) fn memory_journal() -> Journal {
    journal(Arc::new(memory::Store::new()), Vec::new(), Arc::new(Deaf))
}

/// The end of a lease that outlasts the measurement.
pub(crate) fn an_hour_from_now(journal: &Journal) -> Timestamp {
    journal.clock().now().plus(Duration::from_secs(3600))
}

pub(crate) fn numbered(number: u32) -> SessionId {
    let mut bytes = [1; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    SessionId::from_bytes(bytes)
}

/// An agent of these parts.
pub(crate) fn agent(journal: &Journal, model: Arc<dyn port::Model>, tools: ToolSet, system: &str) -> Agent {
    Agent {
        name: "bank".into(),
        system_prompt: system.into(),
        prompt_version: None,
        language: Language::En,
        limits: glassbox::core::Limits::default(),
        model,
        model_timeout: Duration::from_secs(30),
        fallback: None,
        output_schema: None,
        tools,
        policy: Arc::new(policy(journal)),
        task_types: vec!["other".into()],
        default_task_type: "other".into(),
        fingerprint: "{}".into(),
    }
}

/// The principal of every measured session.
pub(crate) fn principal() -> Arc<Principal> {
    Arc::new(Config::embedded().auth.default_principal)
}

/// The journal of a session that begins.
pub(crate) fn begin(
    journal: &Journal,
    agent: &Agent,
    prompt: &Prompt,
    principal: &Principal,
    number: u32,
    task: &str,
) -> SessionLog {
    let new = NewSession {
        task: task.to_owned().into(),
        task_type: "other".into(),
        principal: principal.clone(),
        conversation_id: None,
        follows: Followed::default(),
        metadata: serde_json::Map::new(),
        upstream: Upstream::None,
        sampled: true,
        content: SpanContent::Off,
        once: None,
    };
    agent.begin(journal, numbered(number), new, prompt, an_hour_from_now(journal))
}

/// The default policy, with the breakers of one model and of the tools.
pub(crate) fn policy(journal: &Journal) -> Policy {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let circuits = [CircuitId::model("bank"), CircuitId::tool("ping"), CircuitId::tool("lookup")];
    let system = SystemLog::begin(journal);
    Policy {
        circuits: Circuits::new(system.clone(), &Rules::default(), circuits),
        primaries: policy::Primaries::new(system, Rules::default().half_open_after, []),
        limits: policy::Limits::new([], &clock),
        slots: policy::Slots::default(),
        cache: policy::Cache::default(),
        llm_retry: RetryPolicy::llm().rules(),
        tool_retry: RetryPolicy::tool().rules(),
        entropy: Arc::new(SystemEntropy),
        readers: Arc::new(port::Nobody),
    }
}

/// Takes every export and forgets it; gives its address.
pub(crate) fn null_collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    format!("http://{address}")
}

/// Answers requests of one connection until it closes.
fn answer(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
        let reply = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(reply).ok()?;
    }
}
