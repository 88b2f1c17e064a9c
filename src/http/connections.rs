//! Connections: accepted, each under its bounds in time, and closed in order.
//!
//! It must never know what is asked on a connection.

use std::{io::ErrorKind, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::stall::Stalling;
use crate::runtime::spawn;

/// A rest where the machine has no more files to give.
const BREATH: Duration = Duration::from_millis(200);

/// Takes connections until `closing`; then waits until each has given the answer that it was at.
/// One on which nothing moves for `idle` is closed: before its first request, within the head
/// of one, between two, and where the other side takes nothing of an answer.
pub(super) async fn serve(listener: TcpListener, app: Router, idle: Duration, closing: CancellationToken) {
    let connections = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => keep(&connections, stream, app.clone(), idle),
            Err(error) if is_of_the_other_side(error.kind()) => {}
            Err(error) => {
                tracing::warn!(target: "glassbox", %error, "no connection can be accepted");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

fn keep(connections: &GracefulShutdown, stream: TcpStream, app: Router, idle: Duration) {
    // Events are small and come one by one; where it cannot be set they only come later.
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(Stalling::new(stream, idle));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .serve_connection(stream, TowerToHyperService::new(app));
    let connection = connections.watch(connection);
    spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(target: "glassbox", %error, "a connection broke");
        }
    });
}

fn is_of_the_other_side(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused)
}
