//! The public keys of a login service: read when first needed, kept, and read again where they are
//! old or a token names one that is not among them, but never more often than the pause allows. A
//! place that cannot be read keeps the keys that there are.

use std::{
    fmt::Display,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, Jwk, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;

use super::refusal::Refusal;
use crate::{
    config::{Jwks, Jwt},
    core::{Clock, Timestamp},
    runtime::spawn,
    web,
};

/// The longest time that one reading may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a key set at the most.
const MAX_SET: usize = 256 << 10;
/// Keys of a set that are looked at.
const MAX_KEYS: usize = 100;

const UNREAD: Refusal =
    Refusal::Unavailable("the keys of the login service cannot be read now, so no token can be checked");

/// The keys of one login service.
pub(super) struct KeySet {
    source: Jwks,
    client: Option<reqwest::Client>,
    refresh: Duration,
    pause: Duration,
    clock: Arc<dyn Clock>,
    known: RwLock<Known>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Default)]
struct Known {
    keys: Option<Arc<[Key]>>,
    /// When they were read.
    read: Timestamp,
    /// When that was last tried.
    tried: Option<Timestamp>,
}

struct Key {
    id: Option<String>,
    algorithm: Option<String>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

impl KeySet {
    pub(super) fn of(rules: &Jwt, clock: Arc<dyn Clock>) -> Self {
        Self {
            client: matches!(rules.jwks, Jwks::Url(_)).then(client).flatten(),
            source: rules.jwks.clone(),
            refresh: rules.jwks_refresh,
            pause: rules.jwks_pause,
            clock,
            known: RwLock::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The keys that may have signed a token with this key id and algorithm; perhaps none.
    pub(super) async fn find(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Vec<DecodingKey>, Refusal> {
        let known = self.known();
        if known.keys.is_none() {
            self.renew().await;
        } else if self.clock.now().since(known.read) >= self.refresh {
            // Nobody waits for a place that may be dead: this request has the keys that there are.
            let set = Arc::clone(self);
            drop(spawn(async move { set.renew().await }));
        }
        let found = fitting(&self.known(), id, algorithm)?;
        if !found.is_empty() {
            return Ok(found);
        }
        self.renew().await;
        fitting(&self.known(), id, algorithm)
    }

    /// Reads the keys again, unless that was tried within the pause. One at a time: whoever comes
    /// second finds what the first brought.
    async fn renew(&self) {
        let _turn = self.turn.lock().await;
        let now = self.clock.now();
        if self.known().tried.is_some_and(|tried| now.since(tried) < self.pause) {
            return;
        }
        let read = self.read().await;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.tried = Some(now);
        match read {
            Ok(keys) => (known.keys, known.read) = (Some(keys.into()), now),
            Err(why) => tracing::warn!(target: "glassbox", %why, "the keys of the login service were not read"),
        }
    }

    fn known(&self) -> Known {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn read(&self) -> Result<Vec<Key>, String> {
        let bytes = match (&self.source, &self.client) {
            (Jwks::File(path), _) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
                read.map_err(|_| "the reading panicked".to_owned())?.map_err(told)?
            }
            (Jwks::Url(url), Some(client)) => fetch(client, url).await?,
            (Jwks::Url(_), None) => return Err("there is no HTTP client".to_owned()),
        };
        parse(&bytes)
    }
}

fn fitting(known: &Known, id: Option<&str>, algorithm: Algorithm) -> Result<Vec<DecodingKey>, Refusal> {
    let keys = known.keys.as_ref().ok_or(UNREAD)?;
    let name = format!("{algorithm:?}");
    let fits = |key: &&Key| {
        let named = id.is_none() || key.id.is_none() || key.id.as_deref() == id;
        named && key.key.family() == algorithm.family() && key.algorithm.as_ref().is_none_or(|own| *own == name)
    };
    Ok(keys.iter().filter(fits).map(|key| key.key.clone()).collect())
}

/// The public keys of a set. What cannot sign a token, or is no public key, is left out: a set may
/// hold keys for other ends.
fn parse(bytes: &[u8]) -> Result<Vec<Key>, String> {
    let set: Set = serde_json::from_slice(bytes).map_err(|_| "this is no JSON Web Key Set".to_owned())?;
    let keys: Vec<_> = set.keys.into_iter().take(MAX_KEYS).filter_map(key).collect();
    if keys.is_empty() { Err("no key of the set can sign a token".to_owned()) } else { Ok(keys) }
}

fn key(value: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let is_public = matches!(
        jwk.algorithm,
        AlgorithmParameters::RSA(_) | AlgorithmParameters::EllipticCurve(_) | AlgorithmParameters::OctetKeyPair(_)
    );
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|word| *word == PublicKeyUse::Signature);
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| is_public && signs)?;
    let algorithm = jwk.common.key_algorithm.map(|algorithm| algorithm.to_string());
    Some(Key { id: jwk.common.key_id, algorithm, key })
}

async fn fetch(client: &reqwest::Client, url: &str) -> Result<Vec<u8>, String> {
    let mut response = client.get(url).send().await.map_err(told)?.error_for_status().map_err(told)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(told)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_SET {
            return Err("the key set is larger than any can be".to_owned());
        }
    }
    Ok(bytes)
}

/// A client of its own: no redirect may lead to another's keys, and nothing takes long.
fn client() -> Option<reqwest::Client> {
    // Without certificates of the system it still speaks to the loopback.
    web::build_or_plain(|| web::builder().timeout(TIMEOUT)).ok().map(|(client, _)| client)
}

fn told(error: impl Display) -> String {
    error.to_string()
}
