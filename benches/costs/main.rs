//! What the runtime costs, one `name value` a line; `#` begins a remark. `make bench` runs it.
//!
//! Every value is the median of several rounds. A disk decides most of the durable ones, so the
//! price of the same sync call on the same disk is measured in the same run.
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock of the machine")]
#![expect(clippy::print_stdout, reason = "this is the report")]

mod bare;
mod endpoint;
mod loopback;
mod streaming;
mod world;

use std::{
    future::Future,
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use glassbox::{
    Effect, FnTool, ToolReply, ToolSpec,
    config::Store,
    core::{Entry, Fact},
    journal::{Journal, SessionLog},
    model::Scripted,
    runtime::spawn,
    session::{Agent, Signals, drive},
    tool::{Registration, Registry},
};
use serde_json::json;
use world::Bench;

const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if loopback::part(&arguments) {
        return;
    }
    // `cargo test --all-targets` runs this too, and there is nothing to test.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("an async runtime");
    if std::env::args().any(|argument| argument == streaming::ALONE) {
        runtime.block_on(streaming::measure());
        return;
    }
    runtime.block_on(measure());
}

async fn measure() {
    let folder = tempfile::tempdir_in(".").expect("a folder on the disk of the project");
    let folder = folder.path();
    against_a_loop_by_hand(folder);
    let collector = world::null_collector();
    report("kib_per_streaming_session", streaming::alone());
    report("raw_fdatasync_us", median(|round| std::future::ready(raw_sync(&folder.join(format!("raw{round}"))))).await);

    let entries = world::recorded(&folder.join("recorded")).await;
    println!("# facts: {} of one bank session, recorded again and again, to the last sync and export", entries.len());
    let collector = collector.as_str();
    let entries = &entries;
    report("fact_journal_only_ns", median(|n| facts(folder.join(format!("plain{n}")), None, entries)).await);
    report("fact_all_sinks_ns", median(|n| facts(folder.join(format!("full{n}")), Some(collector), entries)).await);
    report("loop_step_us", median(|_| loop_step()).await);

    println!("# sessions: two steps and one tool, one after another");
    report("session_memory_us", median(|n| one_by_one(folder.join(format!("memory{n}")), Store::Memory)).await);
    report("session_sqlite_us", median(|n| one_by_one(folder.join(format!("sqlite{n}")), world::sqlite())).await);

    println!("# steps a second with SQLite, synchronous full, by sessions at a time");
    for width in [1, 32, 256] {
        let rate = median(|n| side_by_side(folder.join(format!("steps{width}-{n}")), width)).await;
        report(&format!("durable_steps_per_s_{width}"), rate);
    }
}

/// What sessions over HTTP cost beside the same loop without a runtime.
fn against_a_loop_by_hand(folder: &Path) {
    println!("# sessions: five model calls over loopback HTTP and four tool calls; processor time and memory of one");
    let rounds: Vec<_> = (0..ROUNDS).map(|number| loopback::round(folder, number)).collect();
    let middle = |value: fn(&loopback::Round) -> f64| middle(rounds.iter().map(value).collect());
    report("bare_loop_session_cpu_us", middle(|round| round.bare_us));
    report("session_cpu_us", middle(|round| round.runtime_us));
    report("cpu_ratio_vs_bare_loop", middle(|round| round.runtime_us / round.bare_us));
    report("telemetry_cost_ratio", middle(|round| round.signals_us / round.journal_us));
    let (ours, bare) = loopback::memory(folder);
    report("kib_per_waiting_session", ours.waiting);
    report("kib_per_waiting_bare_loop", bare.waiting);
    report("kib_per_session_at_peak", ours.peak);
    report("kib_per_bare_loop_at_peak", bare.peak);
}

fn report(name: &str, value: f64) {
    let digits = if value < 100.0 { 2 } else { 0 };
    println!("{name} {value:.digits$}");
}

async fn median<F: Future<Output = f64>>(mut round: impl FnMut(usize) -> F) -> f64 {
    let mut values = Vec::new();
    for number in 0..ROUNDS {
        values.push(round(number).await);
    }
    middle(values)
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn resident_kib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("a Linux machine");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).expect("resident pages");
    pages * 4.0
}

/// One append of 4 KiB and the sync that SQLite would make.
fn raw_sync(path: &Path) -> f64 {
    const SYNCS: u32 = 50;
    let mut file = std::fs::File::create(path).expect("a file");
    let begun = Instant::now();
    for _ in 0..SYNCS {
        file.write_all(&[7; 4096]).expect("room");
        file.sync_data().expect("a sync");
    }
    micros(begun.elapsed()) / f64::from(SYNCS)
}

/// One fact through stamp, fold, group commit and, with a collector, every sink.
async fn facts(folder: std::path::PathBuf, collector: Option<&str>, entries: &[Entry]) -> f64 {
    const SESSIONS: u32 = 1000;
    std::fs::create_dir_all(&folder).expect("a folder");
    let bench = Bench::new(&folder, collector);
    let begun = Instant::now();
    for number in 0..SESSIONS {
        let log = replay(&bench.journal, number, entries);
        log.ease().await.expect("durable");
    }
    bench.finish().await;
    begun.elapsed().as_nanos() as f64 / f64::from(SESSIONS) / entries.len() as f64
}

/// Records a known journal under a new id.
fn replay(journal: &Journal, number: u32, entries: &[Entry]) -> SessionLog {
    let (first, rest) = entries.split_first().expect("a journal");
    let Fact::SessionStarted(started) = &first.fact else { panic!("a journal begins with its session") };
    let log = SessionLog::begin(
        journal,
        world::numbered(number),
        (**started).clone(),
        Vec::new(),
        world::an_hour_from_now(journal),
        None,
    );
    for entry in rest {
        log.record(entry.fact.clone());
    }
    log
}

/// One step of the loop where neither model nor tool takes time, with a journal in memory.
async fn loop_step() -> f64 {
    const SESSIONS: u32 = 500;
    let journal = world::memory_journal();
    let agent = instant_agent(&journal);
    let principal = world::principal();
    let prompt = agent.prompt(&principal);
    let begun = Instant::now();
    for number in 0..SESSIONS {
        let log = world::begin(&journal, &agent, &prompt, &principal, number, "go");
        drive(&log, &agent, &prompt, &principal, &Signals::default()).await.expect("durable");
    }
    micros(begun.elapsed()) / f64::from(SESSIONS) / 2.0
}

fn instant_agent(journal: &Journal) -> Agent {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let spec = ToolSpec::new("ping", "Answers.", schema).effect(Effect::Read);
    let tool = FnTool::new(spec, |_, _| async { Ok(ToolReply::Text("pong".into())) });
    let registry = Registry::new(vec![Registration::new(Arc::new(tool))]).expect("a tool");
    let script = "name: t\nrules:\n- {when: {last: user}, call: {tool: ping, arguments: {}}}\n- {text: done}\n";
    let info = world::config(Store::Memory).models["bank"].info("bank");
    let model = Scripted::from_yaml(info, script).expect("a script");
    world::agent(journal, Arc::new(model), registry.all(), "You are measured.")
}

/// The time of a session when nothing else runs.
async fn one_by_one(folder: std::path::PathBuf, store: Store) -> f64 {
    const SESSIONS: u32 = 100;
    let config = world::config(store);
    let runtime = world::start(&config, &folder);
    world::session(&runtime, &config).await;
    let begun = Instant::now();
    for _ in 0..SESSIONS {
        world::session(&runtime, &config).await;
    }
    let took = begun.elapsed();
    world::stop(runtime).await;
    micros(took) / f64::from(SESSIONS)
}

/// Steps a second with so many sessions at a time.
async fn side_by_side(folder: std::path::PathBuf, width: usize) -> f64 {
    let sessions = (width * 2).clamp(100, 512);
    let config = Arc::new(world::config(world::sqlite()));
    let runtime = world::start(&config, &folder);
    world::session(&runtime, &config).await;
    let begun = Instant::now();
    many(&runtime, &config, sessions, width).await;
    let took = begun.elapsed();
    world::stop(runtime).await;
    2.0 * sessions as f64 / took.as_secs_f64()
}

/// Runs sessions, `width` at a time.
async fn many(runtime: &glassbox::Runtime, config: &Arc<glassbox::Config>, sessions: usize, width: usize) {
    let workers: Vec<_> = (0..width)
        .map(|worker| {
            let (runtime, config) = (runtime.clone(), Arc::clone(config));
            let share = sessions / width + usize::from(worker < sessions % width);
            spawn(async move {
                for _ in 0..share {
                    world::session(&runtime, &config).await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("a worker");
    }
}

/// User and system time of this process, in ticks of 10 ms.
fn processor_ticks() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a Linux machine");
    let (_, fields) = stat.rsplit_once(')').expect("the name of the program in brackets");
    fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
