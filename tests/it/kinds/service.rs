//! A service of the test: it answers what it is told to, and keeps every request as it came.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Method, Uri},
    response::Response,
};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// An answer: status, headers, body.
pub type Answer = (u16, Vec<(&'static str, String)>, String);

/// The service; it ends with the runtime of its test.
pub struct Service {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    pub async fn answering(answer: impl Fn(&Asked) -> Answer + Clone + Send + Sync + 'static) -> Self {
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let kept = asked.clone();
        let handler = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let (answer, kept) = (answer.clone(), kept.clone());
            async move {
                let one = Asked { method: method.to_string(), uri: uri.to_string(), headers, body: body.to_vec() };
                let (status, headers, body) = answer(&one);
                kept.lock().expect("no panic").push(one);
                let mut response = Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                response.body(Body::from(body)).expect("a good answer")
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
        Self { address, asked }
    }

    /// Always the same.
    pub async fn saying(status: u16, body: impl ToString) -> Self {
        let body = body.to_string();
        Self::answering(move |_| (status, Vec::new(), body.clone())).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("plain letters"))
    }

    /// The segments of the path, undone from their encoding.
    pub fn segments(&self) -> Vec<String> {
        let path = self.uri.split('?').next().expect("a path");
        path.split('/').skip(1).map(decoded).collect()
    }

    /// The parts of the query, undone from their encoding.
    pub fn query(&self) -> Vec<(String, String)> {
        let query = self.uri.split_once('?').map_or("", |(_, query)| query);
        pairs(query)
    }
}

/// The fields of a form, undone from their encoding.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
    };
    text.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).expect("two digits");
            bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal"));
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}
