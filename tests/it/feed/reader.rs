//! A reader of server-sent events over a plain socket, which takes one event at a time and sees
//! whether a stream ended in order.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use serde_json::Value;

use crate::process::{Client, PATIENCE};

/// What a stream says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// An event with its place: a fact.
    Fact { seq: u64, name: String, data: Value },
    /// An event without a place.
    Text { name: String, data: Value },
    /// A comment.
    Comment(String),
}

/// One open stream.
pub(crate) struct Reader {
    socket: BufReader<TcpStream>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// Bytes of the body that are not read yet.
    body: Vec<u8>,
}

impl Reader {
    /// The events of a session, from behind the one with the id `last`.
    pub(crate) fn of(client: &Client, session: &str, last: Option<u64>) -> Self {
        let last = last.map(|last| format!("last-event-id: {last}\r\n")).unwrap_or_default();
        Self::open(client, "GET", &format!("/v1/sessions/{session}/events"), &last, "")
    }

    /// Begins a session and follows it.
    pub(crate) fn begin(client: &Client, body: &Value) -> Self {
        let headers = "accept: text/event-stream\r\ncontent-type: application/json\r\n";
        Self::open(client, "POST", "/v1/sessions", headers, &body.to_string())
    }

    fn open(client: &Client, method: &str, path: &str, headers: &str, body: &str) -> Self {
        let address = client.address();
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: {length}\r\n\r\n{body}");
        socket.write_all(request.as_bytes()).unwrap();
        let mut socket = BufReader::new(socket);
        let mut line = || {
            let mut line = String::new();
            socket.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).unwrap().parse().unwrap();
        let head = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()));
        let split = |line: String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let headers = head.filter_map(split).collect();
        Self { socket, status, headers, body: Vec::new() }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// The session of a stream that began one.
    pub(crate) fn session(&self) -> String {
        self.header("location").rsplit('/').next().unwrap().to_owned()
    }

    /// What is said next; nothing once the stream has ended in order.
    pub(crate) fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(end) = self.body.windows(2).position(|window| window == b"\n\n") {
                let block: Vec<u8> = self.body.drain(..end + 2).collect();
                return Some(parse(std::str::from_utf8(&block).unwrap()));
            }
            let chunk = self.chunk();
            if chunk.is_empty() {
                assert!(self.body.is_empty(), "the stream ended within an event: {:?}", self.body);
                return None;
            }
            self.body.extend(chunk);
        }
    }

    /// The next chunk; an empty one is the end.
    fn chunk(&mut self) -> Vec<u8> {
        let mut size = String::new();
        self.socket.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap_or_else(|_| panic!("cut off: {size:?}"));
        let mut chunk = vec![0; size + 2];
        self.socket.read_exact(&mut chunk).unwrap();
        chunk.truncate(size);
        chunk
    }

    /// Facts until this one, whatever stands between them.
    pub(crate) fn facts_until(&mut self, last: u64) -> Vec<(u64, String)> {
        let mut facts = Vec::new();
        while facts.last().is_none_or(|(seq, _)| *seq != last) {
            match self.next() {
                Some(Said::Fact { seq, name, .. }) => facts.push((seq, name)),
                Some(_) => {}
                None => panic!("the stream ended after {facts:?}"),
            }
        }
        facts
    }

    /// Everything until the end.
    pub(crate) fn rest(mut self) -> Vec<Said> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// The places of the facts among what was said.
pub(crate) fn places(said: &[Said]) -> Vec<u64> {
    said.iter().filter_map(|said| if let Said::Fact { seq, .. } = said { Some(*seq) } else { None }).collect()
}

fn parse(block: &str) -> Said {
    let mut fields = std::collections::BTreeMap::<&str, Vec<&str>>::new();
    for line in block.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        fields.entry(name).or_default().push(value.strip_prefix(' ').unwrap_or(value));
    }
    let only = |name: &str| fields.get(name).map(|values| values.join("\n"));
    if let Some(comment) = only("") {
        assert_eq!(fields.len(), 1, "a comment stands alone: {block:?}");
        return Said::Comment(comment);
    }
    let (name, data) = (only("event").unwrap(), serde_json::from_str(&only("data").unwrap()).unwrap());
    match only("id") {
        Some(id) => Said::Fact { seq: id.parse().unwrap(), name, data },
        None => Said::Text { name, data },
    }
}
