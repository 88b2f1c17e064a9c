//! Telling somebody outside over HTTP, signed as Standard Webhooks 1.0 says it, so that whoever is
//! told can use any library for it.
//!
//! It must never know what is told or when it is told again, and a redirect is not followed: a
//! notice goes to the address that was configured and nowhere else.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::Notify;

use crate::{
    core::{Entry, Fact, Sensitive, Sink, Timestamp, fact::SuspendCause},
    web,
};

/// Bytes of an answer that are read, so that its connection can be used again.
const ANSWER: usize = 64 * 1024;

/// Where notices of one kind go.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The address.
    pub url: String,
    /// The key of the signatures.
    pub secret: Sensitive<Vec<u8>>,
    /// The time of one attempt.
    pub timeout: Duration,
}

/// What is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its name: the same however often it is told.
    pub id: String,
    /// What happened, as `handover.opened`.
    pub kind: &'static str,
    /// When it happened.
    pub at: Timestamp,
    /// What there is to know, with nothing that a person, a model or a tool said.
    pub data: Value,
}

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It did not get there, or no answer came.
    #[error("it could not be reached: {0}")]
    Unreachable(String),
    /// The answer was not one of success.
    #[error("it answered {0}")]
    Answer(u16),
}

/// The way to one endpoint. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Webhook {
    client: reqwest::Client,
    endpoint: Arc<Endpoint>,
}

/// Wakes whoever tells, once there is something new to be told. It holds nothing that could be lost.
pub struct Wake(Arc<Notify>);

impl Webhook {
    /// A way to this endpoint.
    ///
    /// # Errors
    /// Where no client can be made, as without the system's certificates.
    pub fn new(endpoint: Endpoint) -> Result<Self, reqwest::Error> {
        let client = web::builder().http1_only().timeout(endpoint.timeout).build()?;
        Ok(Self { client, endpoint: Arc::new(endpoint) })
    }

    /// Tells it once. What counts is the status: 2xx is taken.
    ///
    /// # Errors
    /// Why it was not taken.
    pub async fn post(&self, message: &Message, now: Timestamp) -> Result<(), Refusal> {
        let (body, seconds) = (message.body(), now.as_nanos() / 1_000_000_000);
        let signature = sign(self.endpoint.secret.expose(), &message.id, seconds, &body);
        let sent = self
            .client
            .post(&self.endpoint.url)
            .header("content-type", "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", signature)
            .body(body)
            .send();
        // Without the address, which may carry a token of its own.
        let mut answer = sent.await.map_err(|error| Refusal::Unreachable(cause(&error.without_url())))?;
        let status = answer.status();
        let mut read = 0;
        while let Ok(Some(piece)) = answer.chunk().await {
            read += piece.len();
            if read > ANSWER {
                break;
            }
        }
        if status.is_success() { Ok(()) } else { Err(Refusal::Answer(status.as_u16())) }
    }
}

impl Message {
    fn body(&self) -> String {
        json!({ "type": self.kind, "timestamp": self.at.to_string(), "data": self.data }).to_string()
    }
}

impl Wake {
    /// Wakes whoever waits for this.
    pub const fn new(notify: Arc<Notify>) -> Self {
        Self(notify)
    }
}

impl Sink for Wake {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn publish(&mut self, entries: &[Arc<Entry>]) {
        let told = |fact: &Fact| {
            matches!(fact, Fact::HandedOver { .. } | Fact::SessionSuspended { cause: SuspendCause::Confirmation })
        };
        if entries.iter().any(|entry| told(&entry.fact)) {
            self.0.notify_one();
        }
    }
}

/// The signature of a body under a name and a time.
fn sign(secret: &[u8], id: &str, seconds: u64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// The last cause of an error says most.
fn cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_as_the_example_of_the_specification() {
        // Key, name, time, body and signature of the examples of the Standard Webhooks libraries.
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("base64");
        let signature = sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_body_says_what_happened_and_when() {
        let message = Message {
            id: "hand_1".into(),
            kind: "handover.opened",
            at: Timestamp::from_nanos(1_771_410_225_000_000_000),
            data: json!({"cause": "session_ended"}),
        };
        let expected =
            r#"{"type":"handover.opened","timestamp":"2026-02-18T10:23:45.000Z","data":{"cause":"session_ended"}}"#;
        assert_eq!(message.body(), expected);
    }
}
