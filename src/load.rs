//! `glassbox load`: sessions for a running service at a set rate, and a report of how it held.
//!
//! The loop is open: sessions begin when the clock says so, whether or not earlier ones have been
//! answered, and latency counts from when a session should have begun. So a service that stalls
//! shows it in the percentiles, and nothing is left out because nobody asked meanwhile. It must
//! never look inside the service: it knows what a caller and a scraper of `/metrics` know.

mod census;
mod drive;
mod mix;
mod own_server;
mod report;
mod schedule;
mod service;
mod sink;
mod tally;
mod target;
mod threshold;
mod watch;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;

use self::{drive::Run, report::Stage, tally::Tally, watch::Watch};
use crate::{
    core::{Clock, SpanId, TraceId},
    runtime::spawn,
};

pub use self::{
    drive::Pace,
    mix::Mix,
    own_server::{Faults, OwnServer, Start},
    report::{Report, html},
    schedule::Arrivals,
    service::{Access, Service},
    sink::Sink,
    threshold::Threshold,
};

/// How often a watcher is told how it stands.
const TOLD_EVERY: Duration = Duration::from_millis(250);
/// What spans get to arrive once their sessions have ended: two rounds of the exporter and more.
const SPANS_GRACE: Duration = Duration::from_secs(20);

/// What a service has open besides its connections, and some.
const FILES_BESIDES: usize = 100;

/// What keeps a run from being one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is none.
    #[error("{url:?} is no web address; write it like https://agents.example.com or http://127.0.0.1:8080")]
    Address {
        /// What was given.
        url: String,
    },
    /// Others could read the key.
    #[error("{url} would get the key in the clear; use https, or leave the key out")]
    InTheClear {
        /// Where it would go.
        url: String,
    },
    /// Nobody is there.
    #[error("the service at {url} cannot be reached: {why}; start it (glassbox serve), or leave out --server")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What the connection says.
        why: String,
    },
    /// It wants to know who asks.
    #[error("the service at {url} asks for a key: put one into GLASSBOX_API_KEY, or name its variable with --key-env")]
    KeyMissing {
        /// Where it is.
        url: String,
    },
    /// It does not take the key.
    #[error("the service at {url} refuses the key: it must be one that the service has under auth")]
    KeyRefused {
        /// Where it is.
        url: String,
    },
    /// It answers, but not as glassbox does.
    #[error("what answers at {url} is no glassbox: /v1/agents has the status {status}; the address must be its root")]
    Stranger {
        /// Where it is.
        url: String,
        /// What it answers.
        status: u16,
    },
    /// Nobody knows which agent is meant.
    #[error("the service has no agent {agent:?}; name one with --agent: {declared}")]
    Agent {
        /// The one that was asked for.
        agent: String,
        /// Those that there are.
        declared: String,
    },
    /// No HTTP client.
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
    /// The service of our own.
    #[error("the service that was started for this run {0}")]
    Server(String),
    /// Its folder.
    #[error("the folder {} cannot be made: {error}", .path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The collector of our own.
    #[error("no port of this machine is free for spans: {0}")]
    Sink(std::io::Error),
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Names and paces, one after the other.
    pub stages: Vec<(String, Pace)>,
    /// What is asked.
    pub mix: Mix,
    /// What arrivals and tasks are drawn with.
    pub seed: u64,
    /// Sessions at once, at the most.
    pub concurrency: usize,
    /// The conditions of failure.
    pub fail_if: Vec<Threshold>,
    /// Faults of a service of our own, in words.
    pub own_server: Option<String>,
}

/// How a stage stands.
#[derive(Clone, Debug)]
pub struct Moment<'a> {
    /// Its name.
    pub stage: &'a str,
    /// Since it began.
    pub elapsed: Duration,
    /// Sessions that were begun, those of the warm-up too.
    pub begun: u64,
    /// Of those that count, the ones that are over.
    pub over: u64,
    /// Refused or broken off.
    pub bad: u64,
    /// The 99th percentile end to end so far.
    pub p99: Duration,
}

/// Hears how a run stands.
pub trait Watcher: Send + Sync {
    /// How a stage stands, several times a second.
    fn tell(&self, moment: &Moment<'_>);
}

/// The run itself.
struct Loading<'a> {
    service: Service,
    sink: Option<&'a Sink>,
    plan: &'a Plan,
    watcher: &'a dyn Watcher,
    watch: Watch,
    /// Begin no more.
    stop: CancellationToken,
}

/// Runs all stages against a service. Once `stop` is cancelled nothing new begins, and the report
/// is of what there was.
///
/// # Errors
/// Where the service is not there or does not take us. What goes wrong later is in the report.
pub async fn run(
    service: Service,
    sink: Option<&Sink>,
    plan: &Plan,
    watcher: &dyn Watcher,
    clock: &dyn Clock,
    stop: CancellationToken,
) -> Result<Report, Error> {
    service.check().await?;
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        started_at: clock.now().to_string(),
        server: service.url().to_owned(),
        own_server: plan.own_server.clone(),
        seed: plan.seed,
        stages: Vec::new(),
        notes: Vec::new(),
        beyond: Vec::new(),
    };
    let watch = Watch::begin();
    let scraping = CancellationToken::new();
    let _until_the_end = scraping.clone().drop_guard();
    spawn(watch.clone().follow(service.clone(), scraping));
    let loading = Loading { service, sink, plan, watcher, watch, stop };
    for (name, pace) in &plan.stages {
        if !loading.stop.is_cancelled() {
            report.stages.push(loading.stage(name, *pace).await);
        }
    }
    report.notes = loading.notes(&report.stages);
    let judged = report.stages.iter().flat_map(|stage| plan.fail_if.iter().filter_map(|limit| limit.judge(stage)));
    report.beyond = judged.collect();
    Ok(report)
}

impl Loading<'_> {
    async fn stage(&self, name: &str, pace: Pace) -> Stage {
        let run = Run {
            target: Arc::new(self.service.clone()),
            mix: self.plan.mix.clone(),
            seed: self.plan.seed,
            concurrency: self.plan.concurrency,
            tally: Arc::new(Mutex::new(Tally::new())),
            stop: self.stop.clone(),
        };
        let began = self.watch.now();
        self.watch.scrape(&self.service).await;
        let told = self.tell(name, &run);
        tokio::select! {
            () = run.stage(pace) => {}
            () = told => {}
        }
        self.watch.scrape(&self.service).await;
        let warm_up = match pace {
            Pace::Open { warm_up, .. } => warm_up.as_secs_f64(),
            Pace::Closed { .. } => 0.0,
        };
        let (from, until) = (began + warm_up, self.watch.now());
        let tally = run.tally().clone();
        let mut stage = Stage::of(name, pace, until - from, &tally, &self.watch.between(from, until));
        stage.lost = census::lost(&self.service, &tally.taken).await;
        self.count_spans(&mut stage, &tally).await;
        stage
    }

    /// Tells the watcher for ever.
    async fn tell(&self, name: &str, run: &Run) {
        let (began, mut ticks) = (Instant::now(), interval(TOLD_EVERY));
        loop {
            ticks.tick().await;
            let moment = {
                let tally = run.tally();
                let bad = tally.refused.values().sum::<u64>() + tally.failed.values().sum::<u64>();
                let p99 = Duration::from_micros(tally.end_to_end.value_at_percentile(99.0));
                let (begun, over) = (tally.begun + tally.warm_up, tally.over);
                Moment { stage: name, elapsed: began.elapsed(), begun, over, bad, p99 }
            };
            self.watcher.tell(&moment);
        }
    }

    /// Waits for the spans of all sessions whose end was seen.
    async fn count_spans(&self, stage: &mut Stage, tally: &Tally) {
        let Some(sink) = self.sink else { return };
        let ended = tally.taken.iter().filter(|session| session.ended);
        let spans = ended.flat_map(|session| session.spans.iter().map(|span| (session.id.trace_id(), *span)));
        let wanted: Vec<(TraceId, SpanId)> = spans.collect();
        let (expected, until) = (wanted.len() as u64, Instant::now() + SPANS_GRACE);
        let arrived = loop {
            let arrived = sink.arrived(&wanted);
            if arrived == expected || Instant::now() >= until {
                break arrived;
            }
            sleep(TOLD_EVERY).await;
        };
        (stage.telemetry.spans_expected, stage.telemetry.spans_arrived) = (Some(expected), Some(arrived));
    }

    /// A connection for each session, and what a process has open anyway.
    #[expect(clippy::cast_precision_loss, reason = "at the most a hundred thousand")]
    fn files_wanted(&self) -> f64 {
        (self.plan.concurrency + FILES_BESIDES) as f64
    }

    /// What the numbers cannot say.
    fn notes(&self, stages: &[Stage]) -> Vec<String> {
        let mut notes = Vec::new();
        let refused = |status: u16| stages.iter().filter_map(|stage| stage.refused.get(&status)).sum::<u64>();
        if refused(429) > 0 {
            notes.push(format!(
                "{} sessions met a quota (429): for a load run raise rate_limits.sessions_per_user_per_hour, or set it \
                 to unlimited",
                refused(429)
            ));
        }
        if refused(503) > 0 {
            notes.push(format!(
                "{} sessions were shed (503): the service was full (server.max_sessions), its journal was behind \
                 (server.shed_above), or it was stopping",
                refused(503)
            ));
        }
        if let Some(files) = self.watch.files_of_service().filter(|files| *files < self.files_wanted()) {
            notes.push(format!(
                "the service may open {files} files and connections, and {} sessions at once want more: raise it \
                 (ulimit -n) where it is started",
                self.plan.concurrency
            ));
        }
        if let Some(why) = self.watch.trouble() {
            notes.push(format!("nothing is known of processor, memory and telemetry: {why}"));
        }
        if self.stop.is_cancelled() {
            notes.push("the run was stopped before its end".to_owned());
        }
        notes
    }
}
