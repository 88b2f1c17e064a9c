//! A service of our own, for who has none: `glassbox serve` as a child process, with a folder that
//! goes with it, quotas raised, and the faults that were asked for.
//!
//! It is another process, so that what is measured is the service and not the one that measures.
//! It must never touch a folder that it did not make.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::ChildStderr,
    time::timeout,
};

use super::{Error, Sink};
use crate::{config::Config, runtime::spawn};

/// What a start may take.
const START: Duration = Duration::from_secs(60);
/// What a stop may take: its grace period and a little.
const STOP: Duration = Duration::from_secs(40);
/// Places that the system's allocator takes memory from, as in the image that `deploy/` builds: with
/// one for each thread, as it would, memory creeps up until each has been full once.
const ARENAS: &str = "2";
/// Its last words, for an error.
const WORDS: usize = 5;
const SIGTERM: i32 = 15;

/// Faults on purpose, in every model and tool of the service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The share of tool calls that fail with status 503.
    pub tool_failures: f64,
    /// What each tool call takes besides.
    pub tool_latency: Duration,
    /// The share of model calls that are refused with status 429.
    pub model_429: f64,
    /// What each model call takes besides.
    pub model_latency: Duration,
    /// Another seed lets other calls fail.
    pub seed: u64,
}

/// How the service is started.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// The program.
    pub program: PathBuf,
    /// The configuration, as it would take effect.
    pub config: &'a Config,
    /// Its file; none is the built-in one.
    pub file: Option<&'a Path>,
    /// Where its journal stays; none is a folder that goes with it.
    pub keep: Option<PathBuf>,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// Where spans go; none is what the configuration says.
    pub sink: Option<&'a Sink>,
}

/// The child process; it ends with this value.
pub struct OwnServer {
    child: Box<dyn ChildWrapper>,
    url: String,
    folder: Folder,
}

/// A folder, and whether it is ours to remove.
struct Folder {
    path: PathBuf,
    remove: bool,
}

impl OwnServer {
    /// Starts it and waits for its word that it listens.
    ///
    /// # Errors
    /// Where it does not start; with its last words.
    pub async fn start(start: Start<'_>) -> Result<Self, Error> {
        let folder = Folder::make(start.keep.clone())?;
        let mut command = CommandWrap::with_new(&start.program, |command| {
            command
                .args(["serve", "--listen", "127.0.0.1:0"])
                .envs(variables(&start, &folder.path))
                .env("MALLOC_ARENA_MAX", ARENAS)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            if let Some(file) = start.file {
                command.env("GLASSBOX_CONFIG", file);
            } else {
                command.env_remove("GLASSBOX_CONFIG");
            }
        });
        // A group of its own: an interrupt at the terminal stops the run first, and then the service.
        let child = command.wrap(ProcessGroup::leader()).spawn();
        let mut child = child.map_err(|error| Error::Server(format!("cannot be started: {error}")))?;
        let errors = child.stderr().take();
        let mut server = Self { child, url: String::new(), folder };
        server.url = match errors {
            Some(errors) => listening(errors).await?,
            None => return Err(Error::Server("has no standard error".to_owned())),
        };
        Ok(server)
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where its journal is.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Asks it to stop and waits until it has.
    ///
    /// # Errors
    /// Where it does not, or not well.
    pub async fn stop(mut self) -> Result<(), Error> {
        let stopping = self.child.signal(SIGTERM);
        stopping.map_err(|error| Error::Server(format!("cannot be stopped: {error}")))?;
        match timeout(STOP, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(Error::Server(format!("ended with {status}"))),
            Ok(Err(error)) => Err(Error::Server(format!("cannot be waited for: {error}"))),
            Err(_) => Err(Error::Server("did not stop in time".to_owned())),
        }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // An error means that nobody is left to be killed.
        let _ = self.child.start_kill();
    }
}

impl Folder {
    fn make(keep: Option<PathBuf>) -> Result<Self, Error> {
        let remove = keep.is_none();
        let path = keep.unwrap_or_else(|| {
            let mut name = [0; 8];
            getrandom::fill(&mut name).expect("the operating system gives random bytes to every process");
            std::env::temp_dir().join(format!("glassbox-load-{}", crate::core::id::hex(&name)))
        });
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(Self { path, remove }),
            Err(error) => Err(Error::Folder { path, error }),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.remove {
            // What cannot be removed lies where temporary things lie.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// What is set over the configuration: quotas and the shedding that a load run would meet at once,
/// the faults, and where signals go.
fn variables(start: &Start<'_>, folder: &Path) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut set = |path: &[&str], value: String| {
        let path: Vec<String> = path.iter().map(|key| key.replace(['-', '.'], "_").to_uppercase()).collect();
        variables.insert(format!("GLASSBOX__{}", path.join("__")), value);
    };
    set(&["rate_limits", "sessions_per_user_per_hour"], "unlimited".to_owned());
    set(&["rate_limits", "concurrent_sessions_per_user"], "unlimited".to_owned());
    set(&["server", "max_sessions"], "1000000".to_owned());
    set(&["server", "shed_above", "queue_facts"], "1000000".to_owned());
    set(&["server", "shed_above", "commit_time"], "1h".to_owned());
    set(&["telemetry", "events"], folder.join("events.jsonl").display().to_string());
    if let Some(sink) = start.sink {
        set(&["telemetry", "otlp", "endpoint"], sink.endpoint());
        set(&["telemetry", "otlp", "protocol"], "http/protobuf".to_owned());
    }
    let Faults { tool_failures, tool_latency, model_429, model_latency, seed } = start.faults;
    let (tools, models) = (start.config.tools.keys(), start.config.models.keys());
    let tools = tools.map(|name| ("tools", name, tool_failures, tool_latency, 503));
    let models = models.map(|name| ("models", name, model_429, model_latency, 429));
    for (number, (kind, name, failures, latency, status)) in (0..).zip(tools.chain(models)) {
        let mut inject = |key: &str, value: String| set(&[kind, name, "inject", key], value);
        inject("failures", failures.to_string());
        inject("latency", format!("{}ms", latency.as_millis()));
        inject("status", status.to_string());
        // Each its own draws: else all would fail at the same calls.
        inject("seed", seed.wrapping_mul(1000).wrapping_add(number).to_string());
    }
    variables.insert("GLASSBOX_DATA_DIR".to_owned(), folder.display().to_string());
    variables
}

/// Waits for the line with the address, and goes on reading so that the service never waits.
async fn listening(errors: ChildStderr) -> Result<String, Error> {
    let words = Arc::new(Mutex::new(VecDeque::new()));
    let mut lines = BufReader::new(errors).lines();
    let kept = Arc::clone(&words);
    let waiting = async {
        while let Ok(Some(line)) = lines.next_line().await {
            let address = line.split_once("listens on ").and_then(|(_, rest)| rest.split_whitespace().next());
            if let Some(address) = address {
                return Some((address.to_owned(), lines));
            }
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_back(line);
            if kept.len() > WORDS {
                kept.pop_front();
            }
        }
        None
    };
    match timeout(START, waiting).await {
        Ok(Some((address, mut lines))) => {
            spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            Ok(address)
        }
        Ok(None) | Err(_) => {
            let words = words.lock().unwrap_or_else(PoisonError::into_inner);
            let words = words.iter().map(|line| format!("\n  {line}")).collect::<String>();
            Err(Error::Server(format!("did not start; its last words:{words}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    /// The service reads the same configuration with these variables over it.
    #[test]
    fn every_model_and_tool_gets_its_faults_and_no_quota_is_met() {
        let config = Config::embedded();
        let faults = Faults {
            tool_failures: 0.1,
            tool_latency: Duration::from_millis(20),
            model_429: 0.05,
            model_latency: Duration::from_millis(100),
            seed: 3,
        };
        let start = Start { program: PathBuf::new(), config: &config, file: None, keep: None, faults, sink: None };
        let env = variables(&start, Path::new("/tmp/x"));
        let loaded = Config::load(&Sources { file: None, env }).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(loaded.rate_limits.sessions_per_user_per_hour, None);
        assert_eq!(loaded.rate_limits.concurrent_sessions_per_user, None);
        assert_eq!(loaded.server.max_sessions, 1_000_000);
        assert_eq!(loaded.server.shed_above.queue_facts, 1_000_000);
        let bank = loaded.models["bank"].inject.expect("a rule");
        assert_eq!((bank.failures, bank.status, bank.latency), (0.05, 429, Duration::from_millis(100)));
        let rules: Vec<_> = loaded.tools.values().map(|tool| tool.inject.expect("a rule")).collect();
        assert_eq!(rules.len(), 4);
        assert!(rules.iter().all(|rule| (rule.failures, rule.status) == (0.1, 503)));
        assert!(rules.iter().all(|rule| rule.seed != bank.seed), "each has draws of its own");
    }
}
