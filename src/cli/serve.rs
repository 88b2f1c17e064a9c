//! `glassbox serve`.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use clap::Args;
use tokio::{net::TcpListener, signal::unix::SignalKind};
use tokio_util::sync::CancellationToken;

use super::{Global, exit};
use crate::{
    http,
    runtime::{Runtime, Setup, spawn},
};

/// How long connections may take to finish once sessions have settled.
const CLOSE: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Where to listen, instead of server.listen.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
}

pub(super) async fn run(global: Global, options: Options) -> anyhow::Result<u8> {
    let mut config = global.load()?;
    if let Some(listen) = options.listen {
        config.listen_on(listen)?;
    }
    // Signals are caught before the port opens, so that no stop is missed.
    let mut terminate = tokio::signal::unix::signal(SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt())?;
    let runtime = Runtime::start(&config, Setup::serve(&global.data_dir))?;
    runtime.diagnostics().install();
    runtime.report_untested();
    for injection in config.injections() {
        tracing::warn!(target: "glassbox", "{injection}");
    }
    runtime.keep_sessions();
    let listener = TcpListener::bind(config.server.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.server.listen))?;
    announce(listener.local_addr()?, config.auth.login.is_some());
    let closing = CancellationToken::new();
    let options = http::Options { closing: closing.clone(), ..http::Options::of(&config) };
    let server = spawn(http::serve(listener, runtime.clone(), options));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!(target: "glassbox", "stopping: no new sessions, waiting for step boundaries");
    runtime.begin_drain();
    // A second signal ends the grace period; what is still in the middle of a step is resumed.
    tokio::select! {
        () = runtime.settled(config.server.grace_period) => {}
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

/// Says where the service is, on the standard error: the standard output belongs to the events.
#[expect(clippy::print_stderr, reason = "the one line that a person who starts the service waits for")]
fn announce(address: SocketAddr, login: bool) {
    let callers = if login { "callers need a login" } else { "no login: every caller is the default principal" };
    eprintln!("glassbox listens on http://{address} ({callers})");
}
