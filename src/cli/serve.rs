//! `glassbox serve`.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use clap::Args;
use tokio::{
    net::{TcpListener, TcpSocket},
    signal::unix::{Signal, SignalKind},
};
use tokio_util::sync::CancellationToken;

use super::{Global, exit};
use crate::{
    config::Config,
    http,
    runtime::{Runtime, Setup, spawn},
};

/// Connections that wait to be taken up, at the most; the system's own limit stands below it. The
/// usual 128 resets callers where hundreds come at one moment.
const BACKLOG: u32 = 4096;
/// How long connections may take to finish once sessions have settled.
const CLOSE: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Where to listen, instead of server.listen.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
}

pub(super) async fn run(global: Global, options: Options) -> anyhow::Result<u8> {
    let config = load(&global, &options)?;
    // Signals are caught before the port opens, so that no stop is missed.
    let mut terminate = tokio::signal::unix::signal(SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt())?;
    let hangup = tokio::signal::unix::signal(SignalKind::hangup())?;
    let runtime = Runtime::start(&config, Setup::serve(&global.data_dir))?;
    runtime.diagnostics().install();
    runtime.report_untested();
    for warning in config.injections().into_iter().chain(config.shown_content()) {
        tracing::warn!(target: "glassbox", "{warning}");
    }
    runtime.keep_sessions();
    let listener =
        listen(config.server.listen).with_context(|| format!("cannot listen on {}", config.server.listen))?;
    announce(listener.local_addr()?, config.auth.login.is_some());
    let closing = CancellationToken::new();
    let api = http::Options { closing: closing.clone(), ..http::Options::of(&config, runtime.clock()) };
    let mut reloads = Reloads { runtime: runtime.clone(), access: api.access.clone(), config };
    let grace_period = reloads.config.server.grace_period;
    let server = spawn(http::serve(listener, runtime.clone(), api));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = reloads.keep(hangup, || load(&global, &options)) => {}
    }
    tracing::info!(target: "glassbox", "stopping: no new sessions, waiting for step boundaries");
    runtime.begin_drain();
    // A second signal ends the grace period; what is still in the middle of a step is resumed.
    tokio::select! {
        () = runtime.settled(grace_period) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    closing.cancel();
    // A connection that does not end is cut when the process does.
    let _ = tokio::time::timeout(CLOSE, server).await;
    let cut_off = runtime.stop(Duration::ZERO).await.context("the journal could not be closed")?;
    if cut_off > 0 {
        tracing::warn!(target: "glassbox", sessions = cut_off, "the grace period ended in the middle of a step");
    }
    Ok(exit::OK)
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A port is free again at once for who comes after.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The configuration, with what the command line puts over it.
fn load(global: &Global, options: &Options) -> anyhow::Result<Config> {
    let mut config = global.load()?;
    if let Some(listen) = options.listen {
        config.listen_on(listen)?;
    }
    Ok(config)
}

/// What a configuration that is read again changes.
struct Reloads {
    runtime: Runtime,
    access: http::Access,
    /// The one that the process runs with.
    config: Config,
}

impl Reloads {
    /// Reads the configuration again at every hangup. Never ends.
    async fn keep(&mut self, mut hangup: Signal, load: impl Fn() -> anyhow::Result<Config>) {
        while hangup.recv().await.is_some() {
            match self.take_over(load()).await {
                Ok(()) => tracing::info!(target: "glassbox", "the configuration was read again and taken over"),
                Err(why) => {
                    let why = format!("{why:#}");
                    tracing::error!(target: "glassbox", why, "the configuration was read again and refused as a whole");
                    self.runtime.refuse_reload(why);
                }
            }
        }
        std::future::pending::<()>().await;
    }

    async fn take_over(&mut self, read: anyhow::Result<Config>) -> anyhow::Result<()> {
        let config = read?;
        let fixed = self.config.changes_for_a_restart(&config);
        anyhow::ensure!(fixed.is_empty(), "these changes need a restart: {}", fixed.join(", "));
        self.runtime.reload(&config).await?;
        self.access.replace(&config.auth);
        self.config = config;
        Ok(())
    }
}

/// Says where the service is, on the standard error: the standard output belongs to the events.
#[expect(clippy::print_stderr, reason = "the one line that a person who starts the service waits for")]
fn announce(address: SocketAddr, login: bool) {
    let callers = if login { "callers need a login" } else { "no login: every caller is the default principal" };
    eprintln!("glassbox listens on http://{address} ({callers})");
}
