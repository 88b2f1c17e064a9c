//! API keys: made here, kept as hashes, found again without telling by the time it takes which
//! part of a hash was right.
//!
//! It must never keep a key.

use std::{hint::black_box, sync::Arc};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::refusal::Refusal;
use crate::{
    config,
    core::{BlobHash, Principal, Sensitive, port::Entropy},
};

/// What every key begins with, so that people and scanners know one when they see it.
pub(super) const PREFIX: &str = "gbx_";
/// Random bytes of a key. So many cannot be tried through, and a plain hash keeps them safe.
const RANDOM: usize = 32;

/// The keys of a configuration.
pub(super) struct ApiKeys(Vec<(BlobHash, Arc<Principal>)>);

/// A new key and its hash. The key is shown once and kept by whoever will use it.
pub fn new_api_key(entropy: &dyn Entropy) -> (Sensitive<String>, BlobHash) {
    let mut random = [0; RANDOM];
    entropy.fill(&mut random);
    let key = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random));
    let hash = hash_of(&key);
    (key.into(), hash)
}

impl ApiKeys {
    pub(super) fn of<'a>(keys: impl Iterator<Item = &'a config::ApiKey>) -> Self {
        Self(keys.map(|key| (key.hash, Arc::new(key.principal.clone()))).collect())
    }

    /// Whose key this is. Every hash is looked at to its end, whichever fits.
    pub(super) fn find(&self, key: &str) -> Result<Arc<Principal>, Refusal> {
        let hash = hash_of(key).to_bytes();
        let mut found = None;
        for (known, principal) in &self.0 {
            if is_same(&known.to_bytes(), &hash) {
                found = Some(principal);
            }
        }
        let found = found.filter(|_| is_shaped(key));
        found.cloned().ok_or(Refusal::Invalid("this API key is not known"))
    }
}

/// A weak key whose hash somebody wrote down by hand opens nothing.
fn is_shaped(key: &str) -> bool {
    let random = key.strip_prefix(PREFIX).and_then(|rest| BASE64_URL_SAFE_NO_PAD.decode(rest).ok());
    random.is_some_and(|bytes| bytes.len() == RANDOM)
}

fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differing = one.iter().zip(other).fold(0, |differing, (one, other)| differing | black_box(one ^ other));
    black_box(differing) == 0
}

fn hash_of(key: &str) -> BlobHash {
    BlobHash::from_bytes(Sha256::digest(key).into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    struct Count;

    impl Entropy for Count {
        fn fill(&self, bytes: &mut [u8]) {
            (0..).zip(bytes).for_each(|(number, byte)| *byte = number);
        }
    }

    fn known(hash: &str) -> ApiKeys {
        let principal = Principal { id: "C-1".into(), scopes: vec![], roles: vec![], attributes: BTreeMap::new() };
        ApiKeys::of([config::ApiKey { hash: hash.parse().expect("a hash"), principal }].iter())
    }

    #[test]
    fn a_key_is_32_random_bytes_and_its_hash_is_that_of_sha256sum() {
        let (key, hash) = new_api_key(&Count);
        // printf gbx_; printf '\x00\x01...\x1f' | basenc --base64url, and sha256sum of both.
        assert_eq!(key.expose(), "gbx_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
        assert_eq!(hash.to_string(), "sha256:0f0d87bf4de63bedd045f5c4d5dd7dc4ee7b38312a944fe03e327a93971add60");
        assert_eq!(known(&hash.to_string()).find(key.expose()).expect("known").id, "C-1");
        let other = key.expose().replace("AAEC", "AAED");
        assert!(known(&hash.to_string()).find(&other).is_err());
    }

    #[test]
    fn a_weak_key_opens_nothing_even_where_its_hash_is_known() {
        // printf gbx_secret | sha256sum
        assert!(
            known("sha256:1c25cfc4824ba7813cd803bf061930f9a598af0116c2a9209f29cf85efb2e9d5")
                .find("gbx_secret")
                .is_err()
        );
    }
}
