//! The memory of a session whose model speaks, with somebody who reads along.
//!
//! It is measured in a process of its own, whose heap holds nothing yet that could be used again.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use glassbox::{
    Config, Runtime, Setup,
    runtime::{SessionHandle, spawn},
    signal::{FeedItem, FeedReader},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use super::{resident_kib, world};

/// Two sockets each, which must be fewer than a process may usually have open.
const SESSIONS: usize = 400;
/// Pieces of text that each has been given.
const PIECES: usize = 20;
const PIECE: &str = "one more piece ";

const CONFIG: &str = "
agents:
  bench: {system_prompt: You are measured., model: m}
models:
  m: {provider: openai, model: m-1, base_url: URL, timeout: 10m}
store: {kind: memory}
rate_limits: {sessions_per_user_per_hour: unlimited}
";

/// The argument that makes the benchmark measure this alone.
pub(crate) const ALONE: &str = "--streaming-alone";

/// What such a process measures.
pub(crate) fn alone() -> f64 {
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program).args(["--bench", ALONE]).output().expect("a process");
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().unwrap_or_else(|_| panic!("no figure: {output:?}"))
}

/// Measures, and says nothing but the figure.
pub(crate) async fn measure() {
    let folder = tempfile::tempdir_in(".").expect("a folder on the disk of the project");
    println!("{}", memory(folder.path()).await);
}

/// Resident memory of one among many sessions that stream over HTTP, in KiB. The endpoint's side
/// of its connection, in this process too, is a small part of it.
async fn memory(folder: &Path) -> f64 {
    let ready = Arc::new(Semaphore::new(0));
    let yaml = CONFIG.replace("URL", &endpoint(ready.clone()).await);
    let config = Config::from_text("bench.yaml", yaml.as_bytes(), Path::new(""), &BTreeMap::new())
        .unwrap_or_else(|report| panic!("{report}"));
    let runtime = Runtime::start(&config, Setup::run(folder)).expect("a runtime");
    // The first brings in what all share.
    let first = begin(&runtime, &config, &ready).await;
    let before = resident_kib();
    let mut sessions = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        sessions.push(begin(&runtime, &config, &ready).await);
    }
    let grown = resident_kib() - before;
    sessions.push(first);
    for (handle, _) in &sessions {
        handle.cancel();
    }
    world::stop(runtime).await;
    grown / SESSIONS as f64
}

/// Begins a session, and waits until all that its model says has reached its reader.
async fn begin(runtime: &Runtime, config: &Config, ready: &Semaphore) -> (SessionHandle, FeedReader) {
    let handle = runtime.open(world::task(config)).await.expect("begun");
    let mut reader = runtime.feed().subscribe_with_text(Some(handle.id()));
    ready.add_permits(1);
    let mut missing = PIECES * PIECE.len();
    while missing > 0 {
        if let FeedItem::Delta(delta) = reader.next().await.expect("a reader that keeps up") {
            missing -= delta.text.len();
        }
    }
    (handle, reader)
}

/// Gives every request its pieces, once somebody reads, and no end; gives the address.
async fn endpoint(ready: Arc<Semaphore>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let ready = Arc::clone(&ready);
            spawn(async move {
                // The connection ends with its session.
                let _ = speak(stream, &ready).await;
            });
        }
    });
    format!("http://{address}")
}

async fn speak(stream: TcpStream, ready: &Semaphore) -> std::io::Result<()> {
    let mut reader = BufReader::with_capacity(1024, stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).await? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let body = tokio::io::copy(&mut (&mut reader).take(length), &mut tokio::io::sink()).await?;
    assert_eq!(body, length, "the whole request");
    let mut stream = reader.into_inner();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").await?;
    ready.acquire().await.expect("nobody closes it").forget();
    for _ in 0..PIECES {
        let event = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{PIECE}\"}}}}]}}\n\n");
        stream.write_all(event.as_bytes()).await?;
    }
    // Nothing more comes from the other side; it closes when its session is stopped.
    stream.read_u8().await.map(drop)
}
