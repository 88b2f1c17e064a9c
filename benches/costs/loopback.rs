//! Sessions of five model calls and four tool calls against a model on this machine: what they
//! cost beside the same loop written by hand. Each measurement is a process of its own, so that
//! none finds the heap, the pools and the caches of another.

use std::{
    collections::BTreeMap,
    future::Future,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use glassbox::{
    Config, Effect, FnTool, Runtime, Setup, Task, ToolReply, ToolSpec,
    core::{SessionStatus, fact::ModelInfo},
    model::{Access, Client, OpenAi, openai::MaxTokensKey},
    runtime::{SystemClock, spawn},
    session::{Ended, Signals, drive},
    tool::{Registration, Registry},
};
use serde_json::{Value, json};

use crate::{
    bare,
    endpoint::{self, ALL_HERE, Endpoint, GATED, TOOL_CALLS},
    world::{self, Bench},
};

/// What model and bare loop are told before the task.
pub(crate) const SYSTEM: &str =
    "You help customers of a bank. Look things up, never invent them. Answer in one short sentence.";
const TASK: &str = "How much did I spend on taxi in September?";
/// Sessions of one measurement of time, after those that warm up.
const SESSIONS: usize = 600;
/// Sessions at a time.
const WIDTH: usize = 32;
/// Sessions that wait together.
const WAITING: usize = 1000;
/// How long their model thinks.
const THINKING: Duration = Duration::from_millis(200);

/// What one process measures; those of time give one number, those of memory two.
const PARTS: [&str; 6] = ["bare-time", "runtime-time", "journal-time", "signals-time", "bare-memory", "runtime-memory"];

/// Does what a process of this program was started for, if it was started for a part.
pub(crate) fn part(arguments: &[String]) -> bool {
    let number = |text: &String| text.parse().expect("a number");
    match arguments {
        [part, delay, gate] if part == "--endpoint" => {
            endpoint::serve(Duration::from_millis(number(delay)), number(gate) as usize);
            true
        }
        [part, name, url, folder] if part == "--part" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("an async runtime");
            let values = runtime.block_on(measure(name, url, Path::new(folder)));
            println!("{}", values.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
            true
        }
        _ => false,
    }
}

/// The processor time of a session, in microseconds.
pub(crate) struct Round {
    pub(crate) bare_us: f64,
    pub(crate) runtime_us: f64,
    pub(crate) journal_us: f64,
    pub(crate) signals_us: f64,
}

/// Resident memory of one among many sessions, in KiB.
pub(crate) struct Memory {
    /// When every request has reached the model and none is answered.
    pub(crate) waiting: f64,
    /// The most until the last of them has ended.
    pub(crate) peak: f64,
}

/// One round of the four measurements of time.
pub(crate) fn round(folder: &Path, number: usize) -> Round {
    let endpoint = Endpoint::start(Duration::ZERO, 1);
    let [bare_us, runtime_us, journal_us, signals_us] = ["bare-time", "runtime-time", "journal-time", "signals-time"]
        .map(|part| child(part, &endpoint, &folder.join(format!("{part}-{number}")))[0]);
    Round { bare_us, runtime_us, journal_us, signals_us }
}

/// The memory of a session of glassbox, and of one of the bare loop.
pub(crate) fn memory(folder: &Path) -> (Memory, Memory) {
    let ask = |part: &str| {
        let values = child(part, &Endpoint::start(THINKING, WAITING), &folder.join(part));
        Memory { waiting: values[0], peak: values[1] }
    };
    (ask("runtime-memory"), ask("bare-memory"))
}

fn child(part: &str, endpoint: &Endpoint, folder: &Path) -> Vec<f64> {
    assert!(PARTS.contains(&part), "{part} is measured by nobody");
    std::fs::create_dir_all(folder).expect("a folder");
    let mut command: Command = endpoint::command("--part");
    let output = command.arg(part).arg(&endpoint.url).arg(folder).output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout);
    let values: Result<Vec<_>, _> = text.split_whitespace().map(str::parse).collect();
    let values = values.ok().filter(|values| !values.is_empty());
    values.unwrap_or_else(|| panic!("{part}: {text} {}", String::from_utf8_lossy(&output.stderr)))
}

async fn measure(part: &str, url: &str, folder: &Path) -> Vec<f64> {
    match part {
        "bare-time" => {
            let (client, url) = (bare::client(), url.to_owned());
            let session = move |_| {
                let (client, url) = (client.clone(), url.clone());
                async move {
                    bare::session(&client, &url, TASK).await;
                }
            };
            vec![time_of(session, std::future::ready(())).await]
        }
        "runtime-time" => {
            let side = Side::start(folder, url);
            let runtime = side.runtime.clone();
            let session = move |_| {
                let side = side.clone();
                async move { side.session(TASK).await }
            };
            vec![time_of(session, world::stop(runtime)).await]
        }
        "journal-time" => vec![driven(folder, url, None).await],
        "signals-time" => vec![driven(folder, url, Some(url)).await],
        "bare-memory" => {
            let (client, url) = (bare::client(), url.to_owned());
            bare::session(&client, &url, TASK).await;
            let model = url.clone();
            let session = move || {
                let (client, url) = (client.clone(), url.clone());
                async move {
                    bare::session(&client, &url, GATED).await;
                }
            };
            memory_of(&model, session).await
        }
        "runtime-memory" => {
            let side = Side::start(folder, url);
            side.session(TASK).await;
            let runtime = side.runtime.clone();
            let session = move || {
                let side = side.clone();
                async move { side.session(GATED).await }
            };
            let values = memory_of(url, session).await;
            world::stop(runtime).await;
            values
        }
        other => panic!("nothing is called {other}"),
    }
}

/// The whole runtime, every signal on, with its model at this address.
#[derive(Clone)]
struct Side {
    runtime: Runtime,
    config: Arc<Config>,
}

impl Side {
    fn start(folder: &Path, url: &str) -> Self {
        let text = format!(
            "agents: {{bench: {{system_prompt: '{SYSTEM}', language: en, model: bank, task_types: [other]}}}}\n\
             models: {{bank: {{provider: openai, model: m-1, base_url: '{url}/v1', stream: false}}}}\n\
             server: {{max_sessions: 10000}}\n\
             rate_limits: {{sessions_per_user_per_hour: unlimited}}\n"
        );
        let config = Config::from_text("bench.yaml", text.as_bytes(), folder, &BTreeMap::new());
        let mut config = config.unwrap_or_else(|report| panic!("{report}"));
        config.store = world::sqlite();
        let config = world::with_signals(config, folder, url);
        let setup = Setup::run(folder).with_tool(["bench"], tool());
        Self { runtime: Runtime::start(&config, setup).expect("a runtime"), config: Arc::new(config) }
    }

    async fn session(&self, task: &str) {
        let task = Task::new(task.to_owned(), self.config.auth.default_principal.clone());
        let ended = self.runtime.open(task).await.expect("begun").ended().await.expect("durable");
        check(&ended);
    }
}

fn check(ended: &Ended) {
    let Ended::Finished(end) = ended else { panic!("suspended") };
    // Fewer steps would be another measurement.
    assert_eq!((end.status, end.steps as usize), (SessionStatus::Done, TOOL_CALLS + 1), "{:?}", end.reason);
}

/// Sessions on a journal with all sinks, or with none at all; the runtime itself always counts.
async fn driven(folder: &Path, url: &str, collector: Option<&str>) -> f64 {
    let bench = Arc::new(Bench::new(folder, collector));
    let info = ModelInfo {
        name: "bank".into(),
        request_model: "m-1".into(),
        provider: "openai".into(),
        context_window: 200_000,
        max_output_tokens: 4096,
        prices: None,
    };
    let access = Access { base_url: format!("{url}/v1"), api_key: None, headers: BTreeMap::new(), stream: false };
    let client = Client::new(Arc::new(SystemClock)).expect("a client");
    let model = OpenAi::new(info, &access, MaxTokensKey::MaxTokens, client).expect("a model");
    let registry = Registry::new(vec![Registration::new(Arc::new(tool()))]).expect("a tool");
    let agent = Arc::new(world::agent(&bench.journal, Arc::new(model), registry.all(), SYSTEM));
    let principal = world::principal();
    let prompt = Arc::new(agent.prompt(&principal));
    let session = {
        let bench = bench.clone();
        move |number| {
            let (bench, agent) = (bench.clone(), agent.clone());
            let (prompt, principal) = (prompt.clone(), principal.clone());
            async move {
                let log = world::begin(&bench.journal, &agent, &prompt, &principal, number, TASK);
                let ended = drive(&log, &agent, &prompt, &principal, &Signals::default()).await;
                check(&ended.expect("durable"));
            }
        }
    };
    time_of(session, bench.finish()).await
}

/// Processor time of this process for one session, in microseconds, what is left to do once all
/// have ended included.
async fn time_of<F>(session: impl Fn(u32) -> F + Clone + Send + 'static, finish: impl Future<Output = ()>) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    many(session.clone(), 0, WIDTH * 2).await;
    let before = crate::processor_ticks();
    many(session, WIDTH * 2, SESSIONS).await;
    finish.await;
    (crate::processor_ticks() - before) * 10_000.0 / SESSIONS as f64
}

async fn many<F>(session: impl Fn(u32) -> F + Clone + Send + 'static, first: usize, count: usize)
where
    F: Future<Output = ()> + Send + 'static,
{
    let workers: Vec<_> = (0..WIDTH)
        .map(|worker| {
            let session = session.clone();
            spawn(async move {
                for number in (first + worker..first + count).step_by(WIDTH) {
                    session(u32::try_from(number).expect("few sessions")).await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("a worker");
    }
}

/// Resident memory that a session takes, in KiB, over what there was before: in the middle of the
/// time in which all wait for their model, and at its peak until all have ended.
async fn memory_of<F>(url: &str, session: impl Fn() -> F) -> Vec<f64>
where
    F: Future<Output = ()> + Send + 'static,
{
    let url = url.to_owned();
    let before = crate::resident_kib();
    let done = Arc::new(AtomicBool::new(false));
    let watch = std::thread::spawn({
        let done = done.clone();
        move || {
            let waiting = std::thread::spawn(move || {
                all_here(&url);
                std::thread::sleep(THINKING / 2);
                crate::resident_kib()
            });
            let mut peak: f64 = 0.0;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(crate::resident_kib());
                std::thread::sleep(Duration::from_millis(5));
            }
            [waiting.join().expect("a model that tells"), peak]
        }
    });
    let sessions: Vec<_> = (0..WAITING).map(|_| spawn(session())).collect();
    for session in sessions {
        session.await.expect("a session");
    }
    done.store(true, Ordering::Relaxed);
    let measured = watch.join().expect("the watch counts only");
    measured.map(|kib| (kib - before) / WAITING as f64).to_vec()
}

/// Returns when the model has the requests of all sessions and has answered none.
fn all_here(url: &str) {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("a model");
    stream.write_all(format!("GET {ALL_HERE} HTTP/1.1\r\n\r\n").as_bytes()).expect("a connection");
    stream.read_exact(&mut [0; 12]).expect("all asked");
}

/// The tool of both loops.
pub(crate) fn lookup(arguments: &Value) -> Value {
    let page = arguments["page"].as_u64().unwrap_or_default();
    json!({"page": page, "rows": [{"merchant": "Yandex Go", "tenge": 2100}, {"merchant": "inDrive", "tenge": 2900}],
        "total": 5000})
}

/// How the tool is offered to the model.
pub(crate) fn definition() -> Value {
    let spec = spec();
    let function =
        json!({"name": spec.name(), "description": "Looks up transactions of the customer.", "parameters": schema()});
    json!({"type": "function", "function": function})
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"query": {"type": "string"}, "page": {"type": "integer", "minimum": 1}},
        "required": ["query", "page"],
        "additionalProperties": false
    })
}

fn spec() -> ToolSpec {
    ToolSpec::new("lookup", "Looks up transactions of the customer.", schema()).effect(Effect::Read)
}

fn tool() -> impl glassbox::Tool + 'static {
    FnTool::new(spec(), |_, arguments| async move { Ok(ToolReply::Json(lookup(&arguments))) })
}
