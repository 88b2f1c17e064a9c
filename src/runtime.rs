//! The only place that names concrete parts together: it builds them from the configuration,
//! begins sessions, and stops everything in the right order.
//!
//! It must never hold a rule of the loop, of a tool or of a signal; those stand to its left.

mod again;
mod agents;
mod check_tools;
mod checks;
mod clock;
mod contents;
mod conversations;
mod decide;
mod diagnostics;
mod exports;
mod handovers;
mod lines;
mod lineup;
mod live;
mod mcp;
mod open;
mod orphans;
mod policy;
mod quota;
mod refused;
mod reload;
mod resume;
mod retention;
mod setup;
mod signals;
mod spawn;
mod tools;
mod toolsets;
mod try_tool;
mod turns;
mod waiting;
mod webhooks;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

pub use self::{
    agents::build_models,
    check_tools::{ToolCheck, ToolsReport},
    checks::{ModelCheck, Untested},
    clock::{SystemClock, SystemEntropy},
    decide::{NotDecided, Settled},
    diagnostics::Diagnostics,
    handovers::NotHandled,
    live::SessionHandle,
    open::{Opened, Task},
    quota::{Hour, Quota},
    refused::Refused,
    resume::NotResumed,
    retention::{Eraser, Erasure, Held},
    setup::{Own, OwnTool, Setup},
    spawn::spawn,
    try_tool::{NotTried, Trial, Tried},
};
use self::{
    live::Live, quota::Refusals, reload::Rules, signals::Signals, turns::Turns, waiting::Watched, webhooks::Webhooks,
};
use crate::{
    config::{self, Config},
    core::{
        Fact, SessionId, Store,
        id::{ProcessId, hex},
        port::{Entropy, StoreError},
    },
    journal::{Journal, SystemLog, Writer},
    policy::{Circuits, Primaries},
    session::Agent,
    signal::{Feed, Metrics},
    store,
};

/// Why a runtime could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data folder.
    #[error("the data folder {path} cannot be made: {source}")]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The store.
    #[error("the journal cannot be opened: {0}")]
    Store(StoreError),
    /// An agent's parts.
    #[error(transparent)]
    Agents(#[from] agents::Error),
    /// The signals.
    #[error(transparent)]
    Signals(#[from] signals::Error),
    /// The client of the webhooks.
    #[error("the webhooks cannot be set up: {0}")]
    Webhooks(#[from] reqwest::Error),
    /// The journal's thread.
    #[error("the journal's thread cannot be started")]
    Thread(#[source] std::io::Error),
}

/// Everything that runs. Clones share it.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    agents: lineup::Agents,
    servers: mcp::Servers,
    /// Which models were tried with which tool definitions.
    checked: checks::Checked,
    circuits: Circuits,
    primaries: Primaries,
    journal: Journal,
    system: SystemLog,
    store: Arc<dyn Store>,
    signals: Signals,
    entropy: Arc<dyn Entropy>,
    live: Live,
    turns: Turns,
    watched: Watched,
    webhooks: Webhooks,
    draining: CancellationToken,
    stopped: CancellationToken,
    lease: Duration,
    refusals: Refusals,
    rules: RwLock<Rules>,
    /// What parts are built with when the configuration is read again.
    setup: Setup,
}

impl Runtime {
    /// Builds every part and opens the journal. Called inside a tokio runtime, which carries the
    /// heartbeat of the leases.
    ///
    /// # Errors
    /// What could not be set up, and where.
    pub fn start(config: &Config, setup: Setup) -> Result<Self, Error> {
        make_private_folder(&setup.data_dir)
            .map_err(|source| Error::DataDir { path: setup.data_dir.clone(), source })?;
        let store = match &setup.store {
            Some(store) => store.clone(),
            None => open_store(&config.store, &setup.data_dir).map_err(Error::Store)?,
        };
        let signals = Signals::start(config, &setup, &store)?;
        let webhooks = Webhooks::new(config)?;
        let sinks = signals.sinks().into_iter().chain(webhooks.sink()).collect();
        let watch = Arc::new(signals.metrics().clone());
        let writer = Writer::start(setup.mode, setup.on_fault, store.clone(), sinks, watch, setup.clock.clone())
            .map_err(Error::Thread)?;
        let process = ProcessId::from_bytes(random(&*setup.entropy));
        let journal = Journal::new(writer, setup.clock.clone(), process);
        let system = SystemLog::begin(&journal);
        let policy = Arc::new(policy::build(config, &setup, &system, Arc::new(signals.feed().clone())));
        let servers = mcp::Servers::new(config, &system, &*store).map_err(Error::Store)?;
        let agents = lineup::Agents::new(agents::build(config, &setup, &policy, &servers)?);
        system.record(Fact::ProcessStarted {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            surface: setup.surface.to_owned(),
        });
        policy::restore(&policy.circuits, &*store).map_err(Error::Store)?;
        let checked = checks::Checked::read(&agents, &*store).map_err(Error::Store)?;
        let live = Live::new(usize::try_from(config.server.max_sessions).unwrap_or(usize::MAX));
        let inner = Inner {
            agents,
            servers,
            checked,
            circuits: policy.circuits.clone(),
            primaries: policy.primaries.clone(),
            journal,
            system,
            store,
            signals,
            entropy: setup.entropy.clone(),
            live,
            turns: Turns::default(),
            watched: Watched::default(),
            webhooks,
            draining: CancellationToken::new(),
            stopped: CancellationToken::new(),
            lease: config.server.lease,
            refusals: Refusals::default(),
            rules: RwLock::new(Rules::of(config, policy)),
            setup,
        };
        let runtime = Self { inner: Arc::new(inner) };
        runtime.keep_leases();
        runtime.keep_circuits();
        runtime.keep_servers();
        Ok(runtime)
    }

    /// A name for an HTTP request.
    pub fn new_request_id(&self) -> String {
        hex(&random::<8>(&*self.inner.entropy))
    }

    /// Random bytes that nobody can guess.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        random(&*self.inner.entropy)
    }

    /// Asks a session that runs here to stop. False if none of this id does.
    pub fn cancel(&self, id: SessionId) -> bool {
        self.inner.live.cancel(id)
    }

    /// The handle of a session that runs here.
    pub fn find(&self, id: SessionId) -> Option<SessionHandle> {
        self.inner.live.find(id)
    }

    /// Whether a session of this process goes no further because the journal cannot write.
    pub fn is_held_up(&self, id: SessionId) -> bool {
        self.inner.journal.writer().fault().is_some() && self.inner.live.find(id).is_some()
    }

    /// The store, to be read. Its calls block.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The metrics of this process.
    pub fn metrics(&self) -> &Metrics {
        self.inner.signals.metrics()
    }

    /// The facts of this process as they become durable.
    pub fn feed(&self) -> &Feed {
        self.inner.signals.feed()
    }

    /// What diagnostics are made with: the filter and the layer that exports foreign spans.
    pub fn diagnostics(&self) -> Diagnostics {
        self.inner.signals.diagnostics()
    }

    /// The agents by name, as sessions that begin now have them.
    pub fn agents(&self) -> Arc<BTreeMap<String, Arc<Agent>>> {
        self.inner.agents.current()
    }

    /// Whether new sessions can be taken and made durable.
    ///
    /// # Errors
    /// One phrase on why not.
    pub async fn ready(&self) -> Result<(), String> {
        if self.inner.draining.is_cancelled() {
            return Err("stopping".to_owned());
        }
        if let Some(fault) = self.inner.journal.writer().fault() {
            return Err(format!("the journal cannot write: {fault}"));
        }
        let store = self.inner.store.clone();
        let probe = tokio::task::spawn_blocking(move || store.probe()).await;
        match probe {
            Ok(result) => result.map_err(|error| format!("the journal cannot write: {error}")),
            Err(_) => Err("the check of the journal panicked".to_owned()),
        }
    }

    /// Takes no new sessions from now on; those that run are suspended at their next step
    /// boundary. Readiness goes red first.
    pub fn begin_drain(&self) {
        self.inner.draining.cancel();
    }

    /// Waits until every session has ended or is suspended, for `grace` at the most.
    pub async fn settled(&self, grace: Duration) {
        self.inner.live.settle(grace).await;
    }

    /// Stops in order: intake, sessions, journal, sinks, export. Returns how many sessions were
    /// still in the middle of a step when the grace period ended.
    ///
    /// # Errors
    /// What the journal could not make durable.
    pub async fn stop(&self, grace: Duration) -> Result<usize, StoreError> {
        self.begin_drain();
        let (suspended, cut_off) = self.inner.live.settle(grace).await;
        let left = self.inner.live.left();
        self.inner.servers.stop().await;
        self.write_refusals(true);
        self.inner.system.record(Fact::ProcessStopped { suspended: suspended as u64 });
        let written = self.inner.journal.writer().stop().await;
        // Before the sessions are given back: whoever takes them up finds how far their lines are.
        self.inner.signals.stop_lines().await;
        self.save_marks().await;
        for id in left {
            self.release(id).await;
        }
        self.inner.stopped.cancel();
        self.inner.signals.stop_spans().await;
        self.note_delivered().await;
        written.map(|()| cut_off)
    }
}

/// Random bytes for an id.
fn random<const N: usize>(entropy: &dyn Entropy) -> [u8; N] {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes);
    bytes
}

/// Makes a folder that is its owner's alone: journals hold what people said.
fn make_private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens the configured store; a path that is not absolute begins at the data folder.
///
/// # Errors
/// Why it cannot be opened, with its path.
pub fn open_store(config: &config::Store, data_dir: &Path) -> Result<Arc<dyn Store>, StoreError> {
    match config {
        config::Store::Memory => Ok(Arc::new(store::memory::Store::new())),
        config::Store::Sqlite { path, synchronous } => {
            let synchronous = match synchronous {
                config::Synchronous::Full => store::sqlite::Synchronous::Full,
                config::Synchronous::Normal => store::sqlite::Synchronous::Normal,
            };
            let options = store::sqlite::Options { synchronous, ..store::sqlite::Options::default() };
            Ok(Arc::new(store::sqlite::Store::open(&data_dir.join(path), options)?))
        }
    }
}
