//! Who is told: a loopback server that answers as it is told to, and the check of a signature as a
//! receiver writes it, from the specification and with another library than the service has.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Sender},
    thread,
    time::SystemTime,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::process::PATIENCE;

/// A server that hears notices.
pub(super) struct Receiver {
    pub(super) port: u16,
    heard: mpsc::Receiver<Notice>,
}

/// A request as it came.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// A port that nobody listens on.
pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Receiver {
    /// Answers with these statuses, one after the other, then with 204.
    pub(super) fn on(port: u16, statuses: &[u16]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (sender, heard) = mpsc::channel();
        let mut statuses = VecDeque::from(statuses.to_vec());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let status = statuses.front().copied().unwrap_or(204);
                // A service that was killed leaves half a request behind.
                if answer(stream.unwrap(), status, &sender).is_some() {
                    statuses.pop_front();
                }
            }
        });
        Self { port, heard }
    }

    /// The next notice.
    pub(super) fn next(&self) -> Notice {
        self.heard.recv_timeout(PATIENCE).expect("a notice comes")
    }
}

impl Notice {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Three headers, a time within five minutes of now, and one signature of version 1 that is
    /// the HMAC-SHA256 of name, time and body as they came.
    pub(super) fn check_signature(&self, secret: &[u8]) {
        let [id, time, signature] =
            ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| self.header(name).expect(name));
        let sent: u64 = time.parse().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a receiver has a clock of its own")]
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(sent) < 300, "sent at {sent}, heard at {now}");
        let encoded = signature.strip_prefix("v1,").expect("version 1");
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let signed = [id.as_bytes(), b".", time.as_bytes(), b".", self.body.as_bytes()].concat();
        ring::hmac::verify(&key, &signed, &STANDARD.decode(encoded).unwrap()).expect("the signature is right");
        let other = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"another key");
        ring::hmac::verify(&other, &signed, &STANDARD.decode(encoded).unwrap()).expect_err("only under its key");
    }
}

fn answer(stream: TcpStream, status: u16, sender: &Sender<Notice>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut notice = Notice { path, headers, body: String::new() };
    let mut body = vec![0; notice.header("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    notice.body = String::from_utf8(body).ok()?;
    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    reader.get_mut().write_all(answer.as_bytes()).ok()?;
    // The test may be over.
    let _ = sender.send(notice);
    Some(())
}
