//! The connections of many sessions: none waits for another's, and they are used again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, serve::ListenerExt as _};
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::Barrier;

use super::{Wire, ask};

/// A thousand requests, or as many as both ends may have files for.
fn many() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let files = line.split_whitespace().nth(3).and_then(|files| files.parse::<usize>().ok());
    files.map_or(1000, |files| (files.saturating_sub(300) / 2).min(1000))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_are_under_way_at_once_and_leave_their_connections_to_the_next() {
    let many = many();
    assert!(many >= 100, "the limit of open files is too low to test anything");
    // Nobody is answered before all have asked.
    let gate = Arc::new(Barrier::new(many));
    let answer = move || async move {
        gate.wait().await;
        Json(json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}))
    };
    let connections = Arc::new(AtomicUsize::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let counted = connections.clone();
    let listener = listener.tap_io(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });

    let model = Wire::OpenAi.model(&url, false);
    for _ in 0..2 {
        let round = join_all((0..many).map(|_| ask(&*model)));
        let replies = tokio::time::timeout(Duration::from_secs(60), round).await.expect("none waits for another");
        assert!(replies.iter().all(|reply| reply.as_ref().is_ok_and(|reply| reply.text == "Hi")), "{:?}", replies[0]);
    }
    assert_eq!(connections.load(Ordering::SeqCst), many, "the second round used the connections of the first");
}
