//! The MCP servers of this process: started, kept, and the agents told when their tools change.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Runtime, spawn};
use crate::{
    config::Config,
    core::{Entry, Store, fact, port::StoreError},
    journal::SystemLog,
    signal::redact,
    tool::{
        bank::service,
        mcp::{Reach, Server, Settings},
    },
};

/// How long the servers may take to stop, all together.
const STOPPING: Duration = Duration::from_secs(8);

/// The servers by name.
#[derive(Default)]
pub(super) struct Servers {
    by_name: BTreeMap<String, Arc<Server>>,
    stop: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Servers {
    /// The configured servers, none of them started; the store tells what was seen of their tools.
    pub(super) fn new(config: &Config, system: &SystemLog, store: &dyn Store) -> Result<Self, StoreError> {
        if config.mcp_servers.is_empty() {
            return Ok(Self::default());
        }
        let earlier: Vec<Entry> = store.system_facts(fact::TOOL_DEFINITION_CHANGED)?;
        let clean = |text: &str| redact(text).into_owned();
        let server = |(name, settings): (&String, &Settings)| {
            (name.clone(), Server::new(name, in_reach(settings), system.clone(), clean, &earlier))
        };
        Ok(Self { by_name: config.mcp_servers.iter().map(server).collect(), ..Self::default() })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.by_name.values()
    }

    /// Starts all of them, in tasks that belong to no session.
    fn start(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.extend(self.iter().map(|server| spawn(Arc::clone(server).keep(self.stop.clone()))));
    }

    /// Stops all of them side by side, with all that they started.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async {
            for task in tasks {
                // A task that panicked has stopped too.
                let _ = task.await;
            }
        };
        if tokio::time::timeout(STOPPING, all).await.is_err() {
            tracing::warn!(target: "glassbox", "an MCP server does not stop");
        }
    }
}

impl Runtime {
    /// Starts the MCP servers, and follows what they list for as long as the process lives.
    pub(super) fn keep_servers(&self) {
        self.refresh_tools();
        self.show_untested();
        self.inner.servers.start();
        for server in self.inner.servers.iter() {
            let (runtime, mut listing, stop) = (self.clone(), server.listing(), self.inner.servers.stop.clone());
            spawn(async move {
                loop {
                    tokio::select! {
                        () = stop.cancelled() => return,
                        changed = listing.changed() => if changed.is_err() { return },
                    }
                    runtime.refresh_tools();
                    runtime.show_untested();
                }
            });
        }
    }

    /// Whether every server that an agent has tools of was asked for them.
    pub(super) fn is_settled(&self, agent: &str) -> bool {
        let mut servers = self.inner.servers.iter();
        servers
            .all(|server| server.listing().borrow().tried || !self.inner.agents.uses(agent, &server.settings().prefix))
    }

    /// Gives the agents the tools that their servers list now, and these their series and breakers.
    pub(super) fn refresh_tools(&self) {
        let inner = &self.inner;
        inner.agents.refresh(&inner.servers, |tools, circuits| {
            inner.signals.metrics().declare_tools(&tools, &circuits);
            inner.circuits.declare(circuits);
        });
    }

    /// Waits until the servers that an agent has tools of have been asked for them once. A server
    /// that is down does not hold it up for longer than its start may take.
    pub(super) async fn tools_settled(&self, agent: &str) {
        for server in self.inner.servers.iter() {
            if self.inner.agents.uses(agent, &server.settings().prefix) {
                // An error says that the server is gone with the process.
                let _ = server.listing().wait_for(|listing| listing.tried).await;
            }
        }
        self.refresh_tools();
    }
}

/// The demo bank's own service is reached where this process started it; where it cannot be, the
/// server is down as any other.
fn in_reach(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    if let Reach::Http { url, .. } = &mut settings.reach {
        match service::reachable(url) {
            Ok(reachable) => *url = reachable.into_owned(),
            Err(error) => tracing::warn!(target: "glassbox", %error, "the demo bank's service cannot listen"),
        }
    }
    settings
}
