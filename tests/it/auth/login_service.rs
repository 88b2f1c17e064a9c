//! A login service: it signs tokens, and shows its public keys or falls silent.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{rand::SystemRandom, rsa::KeyPair, signature::RSA_PKCS1_SHA256};
use serde_json::{Value, json};

pub const ISSUER: &str = "https://login.example.com/";
/// The public keys `rsa-1`, `ec-1` and `ed-1`.
pub const KEYS: &str = include_str!("../../data/auth/jwks.json");
/// The public key `rsa-2`.
pub const ROTATED: &str = include_str!("../../data/auth/rotated.json");

/// Seconds since 1970.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// What a good token says; `more` replaces and adds, and null takes away.
pub fn claims(more: Value) -> Value {
    let mut claims = json!({"iss": ISSUER, "aud": "glassbox", "sub": "C-001", "exp": now() + 600});
    for (name, value) in more.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().shift_remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

/// Head and claims as they are signed.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string())).join(".")
}

/// A token signed by the first key.
pub fn signed(claims: &Value) -> String {
    signed_by(include_bytes!("../../data/auth/rsa.pk8.der"), "rsa-1", claims)
}

/// A token signed by the second key.
pub fn signed_by_second(claims: &Value) -> String {
    signed_by(include_bytes!("../../data/auth/rsa2.pk8.der"), "rsa-2", claims)
}

/// A token signed by this key, which calls itself so.
pub fn signed_by(key: &[u8], kid: &str, claims: &Value) -> String {
    let text = unsigned(&json!({"alg": "RS256", "kid": kid}), claims);
    let key = KeyPair::from_pkcs8(key).unwrap();
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// A place that shows a key set.
pub struct LoginService {
    pub url: String,
    asked: Arc<AtomicUsize>,
    shows: Arc<Mutex<Option<&'static str>>>,
}

impl LoginService {
    pub fn start(shows: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        let (asked, shows) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(shows)));
        let (count, body) = (Arc::clone(&asked), Arc::clone(&shows));
        // It ends with the process of the tests.
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
                while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                count.fetch_add(1, Ordering::SeqCst);
                // A service that is down closes the connection without a word.
                if let Some(body) = *body.lock().unwrap() {
                    let length = body.len();
                    let _ = write!(
                        stream,
                        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                    );
                }
            }
        });
        Self { url, asked, shows }
    }

    /// What it shows from now on; nothing is a service that is down.
    pub fn show(&self, body: Option<&'static str>) {
        *self.shows.lock().unwrap() = body;
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}
