//! `glassbox load`: its options, its live line, and where the report goes.

use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;

use super::{Global, exit, say};
use crate::{
    config::{Config, Sampling, parse_duration, process_environment},
    core::Sensitive,
    load::{
        self, Access, Arrivals, Faults, Mix, Moment, OwnServer, Pace, Plan, Report, Service, Sink, Start, Threshold,
    },
    runtime::SystemClock,
};

/// Put a service under load and report how it held.
///
/// With no --server a service is started for the run, in a folder that goes with it, with the
/// demonstration's model and bank. Sessions begin when the clock says so, and latency counts from
/// then, so a service that stalls cannot hide it.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The service; without it one is started for the run.
    #[arg(long, value_name = "URL", conflicts_with_all = ["tool_failures", "tool_latency", "model_429", "model_latency", "keep"])]
    server: Option<String>,
    /// The variable with the key of a caller.
    #[arg(long, value_name = "NAME", default_value = "GLASSBOX_API_KEY")]
    key_env: String,
    /// The agent that is asked; the only one, if left out.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Sessions a second.
    #[arg(long, value_name = "N", default_value = "5", value_parser = positive)]
    rate: f64,
    /// Run a second stage at so many times the rate, and compare.
    #[arg(long, value_name = "N", value_parser = positive)]
    times: Option<f64>,
    /// With --times, leave out the first stage at the plain rate.
    #[arg(long, requires = "times")]
    no_compare: bool,
    /// What is counted of each stage.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    duration: Duration,
    /// What comes before it in each stage.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    warm_up: Duration,
    /// How sessions are spread.
    #[arg(long, value_name = "HOW", default_value = "poisson")]
    arrivals: Spread,
    /// Sessions at once, at the most; who has to wait for a place begins late, and counts so.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: u32,
    /// Run so many sessions, each as soon as another is over, and not at a rate.
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "times", "duration", "warm_up", "arrivals"], value_parser = clap::value_parser!(u64).range(1..))]
    sessions: Option<u64>,
    /// A task, as TEXT or WEIGHT* TEXT; may be given several times.
    #[arg(long, value_name = "TASK")]
    task: Vec<String>,
    /// A file with tasks, one a line.
    #[arg(long, value_name = "FILE", conflicts_with = "task")]
    tasks: Option<PathBuf>,
    /// What a caller waits for the end of a session.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    session_timeout: Duration,
    /// The share of tool calls that fail with status 503.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    tool_failures: f64,
    /// What each tool call takes besides.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = duration)]
    tool_latency: Duration,
    /// The share of model calls that are refused with status 429.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    model_429: f64,
    /// What each model call takes besides.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    model_latency: Duration,
    /// What arrivals, tasks and faults are drawn with.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Where the journal of the service that is started stays.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Exit with code 5 if this is met, such as success<0.99, p99>2s or lost>0; may be given several
    /// times. Without it: lost>0.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Threshold>,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Write the report as a page for a browser.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// [`Arrivals`] as words.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Spread {
    /// By chance, as callers who know nothing of each other.
    Poisson,
    /// At equal distances.
    Constant,
}

pub(super) async fn run(global: Global, options: Options) -> anyhow::Result<u8> {
    let files = Files::open(&options)?;
    let plan = options.plan()?;
    let (stop, line) = (CancellationToken::new(), Line::new());
    let report = tokio::select! {
        report = options.load(&global, &plan, &line, stop.clone()) => report,
        interrupted = interrupted(stop) => interrupted,
    };
    line.end();
    let report = report?;
    files.write(&report)?;
    if global.json {
        say(serde_json::to_string_pretty(&report)?);
    } else {
        say(report.text().trim_end());
    }
    anyhow::ensure!(report.stages.iter().any(|stage| stage.accepted.count > 0), "the service took no session");
    Ok(if report.beyond.is_empty() { exit::OK } else { exit::BEYOND })
}

impl Options {
    fn plan(&self) -> anyhow::Result<Plan> {
        let mix = match &self.tasks {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("--tasks: {} cannot be read", path.display()))?;
                Mix::parse(text.lines())
            }
            None if self.task.is_empty() => Ok(Mix::demo()),
            None => Mix::parse(self.task.iter().map(String::as_str)),
        };
        let lost = || vec!["lost>0".parse().expect("it is the example of its own mistakes")];
        Ok(Plan {
            stages: self.stages(),
            mix: mix.map_err(|wrong| anyhow::anyhow!("--task: {wrong}"))?,
            seed: self.seed,
            concurrency: usize::try_from(self.concurrency).unwrap_or(usize::MAX),
            fail_if: if self.fail_if.is_empty() { lost() } else { self.fail_if.clone() },
            own_server: self.server.is_none().then(|| self.faults_in_words()),
        })
    }

    fn stages(&self) -> Vec<(String, Pace)> {
        if let Some(sessions) = self.sessions {
            return vec![(format!("{sessions} at {}", self.concurrency), Pace::Closed { sessions })];
        }
        let arrivals = match self.arrivals {
            Spread::Poisson => Arrivals::Poisson,
            Spread::Constant => Arrivals::Constant,
        };
        let times = [Some(1.0).filter(|_| !self.no_compare), self.times];
        let stage = |times: f64| {
            let (rate, warm_up, duration) = (self.rate * times, self.warm_up, self.duration);
            (format!("{times}x"), Pace::Open { rate, arrivals, warm_up, duration })
        };
        times.into_iter().flatten().map(stage).collect()
    }

    fn service(&self, url: String) -> Result<Service, load::Error> {
        let key = process_environment().remove(&self.key_env).filter(|key| !key.is_empty());
        Service::new(Access {
            url,
            key: key.map(Sensitive::new),
            agent: self.agent.clone(),
            patience: self.session_timeout,
            concurrency: usize::try_from(self.concurrency).unwrap_or(usize::MAX),
        })
    }

    async fn load(&self, global: &Global, plan: &Plan, line: &Line, stop: CancellationToken) -> anyhow::Result<Report> {
        let Some(url) = &self.server else { return self.on_its_own(global, plan, line, stop).await };
        let service = self.service(url.clone())?;
        Ok(load::run(service, None, plan, line, &SystemClock, stop).await?)
    }

    /// The run against a service that is started for it.
    async fn on_its_own(
        &self,
        global: &Global,
        plan: &Plan,
        line: &Line,
        stop: CancellationToken,
    ) -> anyhow::Result<Report> {
        let config = global.load()?;
        let sink = if looks_at_spans(&config) { Some(Sink::listen().await.map_err(load::Error::Sink)?) } else { None };
        let program = std::env::current_exe().context("the path of this program is not known")?;
        let server = OwnServer::start(Start {
            program,
            config: &config,
            file: global.config.as_deref(),
            keep: self.keep.clone(),
            faults: self.faults(),
            sink: sink.as_ref(),
        });
        let server = server.await?;
        let service = self.service(server.url().to_owned())?;
        let report = load::run(service, sink.as_ref(), plan, line, &SystemClock, stop).await;
        server.stop().await?;
        Ok(report?)
    }

    const fn faults(&self) -> Faults {
        Faults {
            tool_failures: self.tool_failures,
            tool_latency: self.tool_latency,
            model_429: self.model_429,
            model_latency: self.model_latency,
            seed: self.seed,
        }
    }

    fn faults_in_words(&self) -> String {
        let percent = |share: f64| share * 100.0;
        format!(
            "models {} ms and {} % 429, tools {} ms and {} % 503",
            self.model_latency.as_millis(),
            percent(self.model_429),
            self.tool_latency.as_millis(),
            percent(self.tool_failures)
        )
    }
}

/// The first signal ends the schedule, and the report is of what there was; the second ends all.
async fn interrupted(stop: CancellationToken) -> anyhow::Result<Report> {
    let mut terminate = tokio::signal::unix::signal(SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt())?;
    for _ in 0..2 {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    }
    anyhow::bail!("stopped in the middle, so there is no report")
}

/// Whether spans come to a collector of ours: all of them must be exported, and to nobody else.
fn looks_at_spans(config: &Config) -> bool {
    let telemetry = &config.telemetry;
    telemetry.otlp.is_none() && telemetry.sampling == Sampling::Head && telemetry.sample_ratio >= 1.0
}

/// The files that the report goes to, opened before anything is run.
struct Files {
    json: Option<PathBuf>,
    html: Option<PathBuf>,
}

impl Files {
    fn open(options: &Options) -> anyhow::Result<Self> {
        for path in options.json_file.iter().chain(&options.html) {
            write(path, "")?;
        }
        Ok(Self { json: options.json_file.clone(), html: options.html.clone() })
    }

    fn write(&self, report: &Report) -> anyhow::Result<()> {
        if let Some(path) = &self.json {
            write(path, &(serde_json::to_string_pretty(report)? + "\n"))?;
        }
        if let Some(path) = &self.html {
            write(path, &(load::html(report)? + "\n"))?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("the report {} cannot be written", path.display()))
}

/// The line of a terminal that shows how it stands; nothing elsewhere.
struct Line(Option<ProgressBar>);

impl Line {
    fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner:.cyan} {msg}").expect("the template is a constant"));
        bar.set_message("starting");
        bar.enable_steady_tick(Duration::from_millis(80));
        Self(Some(bar))
    }

    fn end(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

impl load::Watcher for Line {
    fn tell(&self, moment: &Moment<'_>) {
        let Some(bar) = &self.0 else { return };
        bar.set_message(format!(
            "{}  {:.0} s  {} begun  {} counted and over  {} refused or failed  p99 {:.2} s",
            moment.stage,
            moment.elapsed.as_secs_f64(),
            moment.begun,
            moment.over,
            moment.bad,
            moment.p99.as_secs_f64()
        ));
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 100_000.0);
    number.ok_or_else(|| "must be a number above 0 and up to 100000, such as 5 or 0.5".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "must be a share from 0 to 1, such as 0.1".to_owned())
}
