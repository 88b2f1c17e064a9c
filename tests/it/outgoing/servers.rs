//! Servers as small as they can be, on threads: a provider over http or https, and a proxy.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::{ANSWER, data};

/// What a provider does with a request.
#[derive(Clone, Debug)]
pub(super) enum Play {
    /// Answers it.
    Answer,
    /// Sends these bytes and closes.
    Bytes(String),
    /// Closes.
    Drop,
    /// Says nothing until the client goes.
    Silence,
}

/// A provider; its threads end with the process of the test.
pub(super) struct Server {
    port: u16,
    keys: Arc<Mutex<Vec<String>>>,
}

/// A proxy, which passes on to the provider whatever is asked without encryption.
pub(super) struct Proxy {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A request as far as it matters.
struct Request {
    line: String,
    key: Option<String>,
}

impl Play {
    /// What goes wrong, repeating the credential where a provider might.
    pub(super) fn troubles(key: &str) -> Vec<Self> {
        let text = format!("the key {key} (Bearer {key}) is known");
        let json = format!(r#"{{"type":"error","error":{{"type":"x_{key}","code":"{key}","message":"{text}"}}}}"#);
        let of = |status: u16, more: &str, body: &str| {
            let length = body.len();
            Self::Bytes(format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            ))
        };
        let mut plays: Vec<_> =
            [400, 401, 403, 404, 413, 429, 500, 503, 529].map(|status| of(status, "", &json)).into();
        plays.push(of(302, &format!("location: http://127.0.0.1:1/{key}\r\n"), ""));
        plays.push(of(200, "", &json));
        plays.push(of(200, "", &text));
        plays.push(of(
            200,
            "",
            &format!(r#"{{"choices":[{{"message":{{"content":5,"x":"{key}"}}}}],"content":"{key}"}}"#),
        ));
        // Cut off after the first word, and no HTTP at all.
        plays.push(Self::Bytes(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{{\"x\":\"{key}"
        )));
        plays.push(Self::Bytes(format!("SSH-2.0 {key}\r\n\r\n")));
        plays.extend([Self::Drop, Self::Silence]);
        plays
    }
}

impl Server {
    pub(super) fn http(play: Play) -> Self {
        Self::start(play, None)
    }

    pub(super) fn https(play: Play) -> Self {
        // An error means that a provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let chain = CertificateDer::pem_file_iter(data("localhost.pem")).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(data("localhost.key")).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        Self::start(play, Some(Arc::new(config)))
    }

    fn start(play: Play, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let keys: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = keys.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (play, tls, kept) = (play.clone(), tls.clone(), kept.clone());
                thread::spawn(move || match tls {
                    None => serve(stream, &play, &kept),
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        serve(StreamOwned::new(connection, stream), &play, &kept)
                    }
                });
            }
        });
        Self { port, keys }
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// The credentials that requests came with.
    pub(super) fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

/// One request of a connection; nothing where none came.
fn serve(stream: impl Read + Write, play: &Play, keys: &Mutex<Vec<String>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let request = read(&mut stream)?;
    keys.lock().unwrap().extend(request.key);
    match play {
        Play::Answer => {
            let body = format!(r#"{{"choices":[{{"message":{{"content":"{ANSWER}"}},"finish_reason":"stop"}}]}}"#);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.get_mut().write_all((head + &body).as_bytes()).ok()?;
        }
        Play::Bytes(bytes) => stream.get_mut().write_all(bytes.as_bytes()).ok()?,
        Play::Drop => {}
        Play::Silence => {
            stream.read_to_end(&mut Vec::new()).ok()?;
        }
    }
    stream.get_mut().flush().ok()
}

/// Reads a whole request.
fn read(stream: &mut impl std::io::BufRead) -> Option<Request> {
    let (mut request, mut length) = (Request { line: String::new(), key: None }, 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        match line.split_once(": ") {
            _ if request.line.is_empty() => request.line = line.to_owned(),
            Some((name, value)) if ["authorization", "x-api-key"].contains(&name) => {
                request.key = Some(value.to_owned());
            }
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(_) | None => {}
        }
        if line.is_empty() {
            stream.take(length).read_to_end(&mut Vec::new()).ok()?;
            return Some(request);
        }
    }
}

impl Proxy {
    pub(super) fn start(plain: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (kept, plain, keys) = (asked.clone(), Play::Answer, plain.keys.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, plain, keys) = (kept.clone(), plain.clone(), keys.clone());
                thread::spawn(move || pass(stream, &kept, &plain, &keys));
            }
        });
        Self { port, asked }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The first lines of what it was asked.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn pass(mut stream: TcpStream, asked: &Mutex<Vec<String>>, play: &Play, keys: &Mutex<Vec<String>>) -> Option<()> {
    let mut first = String::new();
    // Looks without taking, so that a plain request is still there for the provider's part.
    let mut peeked = [0; 2048];
    let count = stream.peek(&mut peeked).ok()?;
    BufReader::new(&peeked[..count]).read_line(&mut first).ok()?;
    let first = first.trim_end().to_owned();
    asked.lock().unwrap().push(first.clone());
    let Some(target) = first.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else {
        return serve(stream, play, keys);
    };
    read(&mut BufReader::with_capacity(1, &stream))?;
    let mut far = TcpStream::connect(target.replace("localhost", "127.0.0.1")).ok()?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let (mut far_in, mut near_out) = (far.try_clone().ok()?, stream.try_clone().ok()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut far_in, &mut near_out);
        let _ = near_out.shutdown(Shutdown::Write);
    });
    std::io::copy(&mut stream, &mut far).ok()?;
    far.shutdown(Shutdown::Write).ok()
}
