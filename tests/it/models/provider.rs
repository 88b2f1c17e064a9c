//! A provider of the test: an HTTP server that plays one answer after the other and keeps what
//! it was asked.

use std::{
    io,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Uri},
    response::Response,
};
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use tokio::sync::Notify;

/// A running provider; it ends with the runtime of its test.
pub struct Provider {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Value,
}

/// One answer.
#[derive(Clone, Debug)]
pub enum Play {
    /// Never answers.
    Silence,
    /// Answers.
    Answer(Answer),
}

#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    pieces: Vec<Vec<u8>>,
    end: End,
    /// What the last piece waits for, or the loss of the connection.
    gate: Option<Arc<Notify>>,
}

/// What follows the last piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The proper end of the body.
    Whole,
    /// The connection is lost.
    Cut,
    /// Nothing, for ever.
    Hang,
}

impl Play {
    pub fn json(status: u16, body: impl ToString) -> Self {
        Self::of(status, "application/json", body.to_string())
    }

    pub fn sse(text: impl ToString) -> Self {
        Self::of(200, "text/event-stream; charset=utf-8", text.to_string())
    }

    /// A stream of these events, each a JSON value, without names and in any order.
    pub fn events(events: &[Value]) -> Self {
        Self::sse(events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>())
    }

    pub fn of(status: u16, kind: &str, body: String) -> Self {
        let headers = vec![("content-type", kind.to_owned())];
        Self::Answer(Answer { status, headers, pieces: vec![body.into_bytes()], end: End::Whole, gate: None })
    }

    /// The same in pieces of so many bytes.
    pub fn in_pieces(self, size: usize) -> Self {
        self.with(|answer| {
            let body = answer.pieces.concat();
            answer.pieces = body.chunks(size).map(<[u8]>::to_vec).collect();
        })
    }

    /// The same, but the connection is lost at the end.
    pub fn then_cut(self) -> Self {
        self.with(|answer| answer.end = End::Cut)
    }

    /// The same, but the end never comes.
    pub fn then_hang(self) -> Self {
        self.with(|answer| answer.end = End::Hang)
    }

    /// The same, with one more event as a piece of its own.
    pub fn and(self, event: &Value) -> Self {
        self.with(|answer| answer.pieces.push(format!("data: {event}\n\n").into_bytes()))
    }

    /// The same, but what comes last comes when the test says so.
    pub fn holding_the_last(self, gate: &Arc<Notify>) -> Self {
        self.with(|answer| answer.gate = Some(gate.clone()))
    }

    pub fn header(self, name: &'static str, value: &str) -> Self {
        self.with(|answer| answer.headers.push((name, value.to_owned())))
    }

    fn with(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        match &mut self {
            Self::Answer(answer) => change(answer),
            Self::Silence => panic!("silence has no parts"),
        }
        self
    }
}

impl Provider {
    /// Answers the request of each number, from 0, as the plan says.
    pub async fn start(plan: impl Fn(usize, &Value) -> Play + Send + Sync + 'static) -> Self {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (kept, plan) = (asked.clone(), Arc::new(plan));
        let answer = move |uri: Uri, headers: HeaderMap, body: Bytes| {
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let mut kept = kept.lock().expect("no test panics here");
            let play = plan(kept.len(), &body);
            kept.push(Asked { uri: uri.to_string(), headers, body });
            drop(kept);
            async move {
                match play {
                    Play::Silence => std::future::pending().await,
                    Play::Answer(answer) => answer.into_response(),
                }
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        Self { url, asked }
    }

    /// Answers every request in this way.
    pub async fn playing(play: Play) -> Self {
        Self::start(move |_, _| play.clone()).await
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no test panics here").clone()
    }
}

impl Answer {
    fn into_response(self) -> Response {
        let lost = (self.end == End::Cut).then(|| Err(io::Error::other("lost")));
        let pieces = self.pieces.into_iter().map(|piece| Ok(Bytes::from(piece))).chain(lost);
        let pieces: Vec<_> = pieces.collect();
        let (count, gate) = (pieces.len(), self.gate);
        let pieces = stream::iter((1..).zip(pieces)).then(move |(number, piece)| {
            let gate = gate.clone().filter(|_| number == count);
            async move {
                // The server sends a piece before it is asked for the next one.
                tokio::task::yield_now().await;
                if let Some(gate) = gate {
                    gate.notified().await;
                }
                piece
            }
        });
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        let body = match self.end {
            End::Whole | End::Cut => Body::from_stream(pieces),
            End::Hang => Body::from_stream(pieces.chain(stream::pending())),
        };
        response.body(body).expect("a good answer")
    }
}
