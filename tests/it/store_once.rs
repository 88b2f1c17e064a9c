//! What one session has alone, in every store: its idempotency key, taken with its first fact or
//! not at all, and its conversation while it runs.

use std::sync::Arc;

use glassbox::{
    core::{
        BlobHash, Fact, SessionStatus,
        lease::Taking,
        once::{BegunOnce, Once},
        port::{Blob, SessionFilter, StoreErrorKind, Write},
    },
    store::{
        memory,
        sqlite::{self, Options},
    },
};

use crate::{
    facts,
    store_conformance::{Kept, append, at, process, session, write},
};

const KEY: BlobHash = BlobHash::from_bytes([1; 32]);
const BODY: BlobHash = BlobHash::from_bytes([2; 32]);

fn in_every_store(check: impl Fn(&dyn Kept)) {
    check(&memory::Store::new());
    let folder = tempfile::tempdir().expect("a folder");
    check(&sqlite::Store::open(&folder.path().join("journal.db"), Options::default()).expect("an empty folder"));
}

/// A session that begins at 1000 under the key, which is kept until then.
fn keyed(number: u8, key: BlobHash, until: u64) -> Write {
    let once = Some(Once { key, body: BODY, until: at(until) });
    saying(number, "C-001", None).taking(Taking { owner: process(number), until: at(9000), once })
}

/// A session of a principal that begins in a conversation.
fn saying(number: u8, principal: &str, conversation: Option<&str>) -> Write {
    let Fact::SessionStarted(mut started) = facts::session_started(session(number), principal, "bank") else {
        panic!("a session begins with its start");
    };
    started.conversation_id = conversation.map(str::to_owned);
    write(session(number), 0, vec![Fact::SessionStarted(started)])
}

fn begun(number: u8) -> Option<BegunOnce> {
    Some(BegunOnce { session: session(number), body: BODY })
}

#[test]
fn a_key_begins_one_session_and_the_others_leave_nothing() {
    in_every_store(|store| {
        assert_eq!(store.begun_once(KEY, at(1)), Ok(None));
        let mut second = keyed(2, KEY, 5000);
        second.blobs.push(Blob { hash: BODY, bytes: Arc::from([7; 3]) });
        let other_key = keyed(3, BODY, 5000);
        let results = store.append(&[keyed(1, KEY, 5000), second, other_key]).expect("the store works");
        let kinds: Vec<_> = results.into_iter().map(|result| result.map_err(|error| error.kind)).collect();
        assert_eq!(kinds, [Ok(()), Err(StoreErrorKind::Claimed), Ok(())]);
        assert_eq!(store.begun_once(KEY, at(2000)), Ok(begun(1)));
        assert_eq!(store.session(session(2)), Ok(None));
        assert_eq!(store.blob(BODY), Ok(None));
        let left = store.acquire(session(2), process(9), at(1), at(2)).expect("writable");
        assert_eq!(left, glassbox::core::lease::LeaseGrant::Granted(glassbox::core::lease::LeaseEpoch::FIRST));
    });
}

#[test]
fn a_key_whose_time_is_over_is_as_none() {
    in_every_store(|store| {
        append(store, keyed(1, KEY, 1000));
        assert_eq!(store.begun_once(KEY, at(999)), Ok(begun(1)));
        assert_eq!(store.begun_once(KEY, at(1000)), Ok(None));
        append(store, keyed(2, KEY, 3000));
        assert_eq!(store.begun_once(KEY, at(1000)), Ok(begun(2)));
        append(store, keyed(3, BODY, 2000));
        assert_eq!(store.forget_keys(at(1999), 10), Ok(0));
        assert_eq!(store.forget_keys(at(3000), 1), Ok(1));
        assert_eq!(store.forget_keys(at(3000), 10), Ok(1));
        assert_eq!((store.begun_once(KEY, at(1)), store.begun_once(BODY, at(1))), (Ok(None), Ok(None)));
    });
}

#[test]
fn a_key_goes_with_its_session() {
    in_every_store(|store| {
        append(store, keyed(1, KEY, 5000));
        append(store, keyed(2, BODY, 5000));
        assert_eq!(store.erase(process(1), &[session(1)]), Ok(1));
        assert_eq!(store.begun_once(KEY, at(1)), Ok(None));
        assert_eq!(store.begun_once(BODY, at(1)), Ok(begun(2)));
    });
}

#[test]
fn a_conversation_has_one_owner_and_runs_one_session() {
    in_every_store(|store| {
        let begins = |number: u8, principal: &str, conversation: &str| {
            let take = Taking { owner: process(number), until: at(9000), once: None };
            let mut results =
                store.append(&[saying(number, principal, Some(conversation)).taking(take)]).expect("works");
            results.remove(0).map_err(|error| error.kind)
        };
        assert_eq!(begins(1, "C-001", "c-1"), Ok(()));
        assert_eq!(begins(2, "C-001", "c-1"), Err(StoreErrorKind::Claimed), "one runs");
        assert_eq!(begins(3, "C-001", "c-2"), Ok(()), "another conversation");
        append(store, write(session(1), 1, vec![facts::session_finished(SessionStatus::Done, None)]));
        assert_eq!(begins(4, "C-002", "c-1"), Err(StoreErrorKind::Claimed), "another owner");
        assert_eq!(begins(5, "C-001", "c-1"), Ok(()));
        let filter = SessionFilter { conversation: Some("c-1".into()), ..SessionFilter::default() };
        let rows = store.sessions(&filter).expect("readable");
        let ids: Vec<_> = rows.iter().map(|row| (row.id, row.conversation.as_deref())).collect();
        assert_eq!(ids, [(session(5), Some("c-1")), (session(1), Some("c-1"))]);
    });
}
