//! Visits and sign-ins: a cookie is a random value, and what it means is known here alone.
//!
//! A visit that signed in is found by a keyed hash of its value, so that memory holds no cookie;
//! the token of its forms is another. Neither outlives the process. It must never see an API key.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::{core::Timestamp, http::auth::Caller};

/// Sign-ins that are kept; beyond that the one that ends first makes room.
const MOST: usize = 10_000;

/// The value of a visitor's cookie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Visit([u8; 32]);

/// Those who signed in.
pub(super) struct Signed {
    secret: [u8; 32],
    good_for: Duration,
    open: Mutex<HashMap<[u8; 32], SignIn>>,
    /// The reading of the keys that they signed in by.
    reading: AtomicU64,
}

struct SignIn {
    caller: Caller,
    until: Timestamp,
}

impl Visit {
    pub(super) const fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// The visit of a cookie; nothing where that is none of ours.
    pub(super) fn read(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// As it stands in the cookie.
    pub(super) fn write(self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0)
    }
}

impl Signed {
    /// Nobody yet. `good_for` is how long a sign-in lasts.
    pub(super) fn new(secret: [u8; 32], good_for: Duration) -> Self {
        Self { secret, good_for, open: Mutex::default(), reading: AtomicU64::new(0) }
    }

    /// Signs a visit in.
    pub(super) fn enter(&self, visit: Visit, caller: Caller, now: Timestamp) {
        let mut open = self.lock();
        open.retain(|_, sign_in| sign_in.until > now);
        if open.len() >= MOST {
            let first = open.iter().min_by_key(|(_, sign_in)| sign_in.until).map(|(name, _)| *name);
            first.map(|first| open.remove(&first));
        }
        open.insert(self.name(visit), SignIn { caller, until: now.plus(self.good_for) });
    }

    /// Who signed in with this visit, as long as that is good.
    pub(super) fn find(&self, visit: Visit, now: Timestamp) -> Option<Caller> {
        let open = self.lock();
        open.get(&self.name(visit)).filter(|sign_in| sign_in.until > now).map(|sign_in| sign_in.caller.clone())
    }

    /// Signs everybody out where the keys were read again.
    pub(super) fn hold_to(&self, reading: u64) {
        if self.reading.swap(reading, Ordering::AcqRel) != reading {
            self.lock().clear();
        }
    }

    /// Signs a visit out.
    pub(super) fn leave(&self, visit: Visit) {
        self.lock().remove(&self.name(visit));
    }

    /// What forms that are shown to this visit carry.
    pub(super) fn token(&self, visit: Visit) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.mac(b"form", visit).finalize().into_bytes())
    }

    /// Whether a form was shown to this visit.
    pub(super) fn is_token(&self, visit: Visit, token: &str) -> bool {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        self.mac(b"form", visit).verify_slice(&bytes).is_ok()
    }

    fn name(&self, visit: Visit) -> [u8; 32] {
        self.mac(b"sign-in", visit).finalize().into_bytes().into()
    }

    fn mac(&self, purpose: &[u8], visit: Visit) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes a key of any length");
        mac.update(purpose);
        mac.update(&visit.0);
        mac
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], SignIn>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::core::Principal;

    const HOUR: Duration = Duration::from_secs(3600);

    fn caller(id: &str) -> Caller {
        let principal = Principal { id: id.into(), scopes: vec![], roles: vec![], attributes: BTreeMap::new() };
        Caller::new(Arc::new(principal))
    }

    fn at(hours: u32) -> Timestamp {
        Timestamp::from_nanos(1).plus(HOUR * hours)
    }

    #[test]
    fn a_sign_in_is_good_until_its_time_is_over_or_it_is_left() {
        let signed = Signed::new([7; 32], HOUR * 8);
        let (one, other) = (Visit::new([1; 32]), Visit::new([2; 32]));
        signed.enter(one, caller("C-1"), at(0));
        signed.enter(other, caller("C-2"), at(1));
        let who = |visit, now| signed.find(visit, now).map(|caller| caller.id().to_owned());
        assert_eq!((who(one, at(7)), who(one, at(8))), (Some("C-1".into()), None));
        assert_eq!((who(other, at(8)), who(Visit::new([3; 32]), at(1))), (Some("C-2".into()), None));
        signed.leave(other);
        assert_eq!(who(other, at(1)), None);
        signed.hold_to(0);
        assert!(who(one, at(7)).is_some());
        signed.hold_to(1);
        assert_eq!(who(one, at(7)), None, "the keys were read again");
    }

    #[test]
    fn one_too_many_takes_the_place_of_the_one_that_ends_first() {
        let signed = Signed::new([7; 32], HOUR);
        let visit = |number: usize| {
            let mut random = [0; 32];
            random[..8].copy_from_slice(&number.to_le_bytes());
            Visit::new(random)
        };
        for number in 0..=MOST {
            let now = Timestamp::from_nanos(number as u64);
            signed.enter(visit(number), caller("C-1"), now);
        }
        let now = Timestamp::from_nanos(MOST as u64);
        assert!(signed.find(visit(0), now).is_none());
        assert!(signed.find(visit(1), now).is_some() && signed.find(visit(MOST), now).is_some());
    }

    #[test]
    fn a_token_is_good_for_one_visit_of_one_process() {
        let (signed, restarted) = (Signed::new([7; 32], HOUR), Signed::new([8; 32], HOUR));
        let (one, other) = (Visit::new([1; 32]), Visit::new([2; 32]));
        let token = signed.token(one);
        assert!(signed.is_token(one, &token));
        assert!(!signed.is_token(other, &token) && !restarted.is_token(one, &token));
        assert!(!signed.is_token(one, "") && !signed.is_token(one, &one.write()));
        assert!(!signed.is_token(one, &token[..token.len() - 2]));
        assert!(Visit::read(&one.write()) == Some(one) && Visit::read("short").is_none());
    }
}
