//! What every store must do: the same checks, run over each of them.

use std::sync::Arc;

use glassbox::core::{
    BlobHash, EndReason, Entry, Fact, SessionId, SessionStatus, StreamId, Timestamp,
    circuit::CircuitState,
    fact::{ModelOutcome, SuspendCause},
    id::ProcessId,
    lease::{LeaseEpoch, LeaseGrant, Leases},
    port::{Blob, SessionFilter, Store, StoreErrorKind, Write},
};

use super::facts;

/// A store with its leases.
pub(crate) trait Kept: Store + Leases {}

impl<T: Store + Leases> Kept for T {}

macro_rules! conformance {
    ($($check:ident,)+) => {
        mod in_memory {
            $(#[test]
            fn $check() {
                super::$check(&glassbox::store::memory::Store::new());
            })+
        }

        mod on_disk {
            use glassbox::store::sqlite::{Options, Store};

            $(#[test]
            fn $check() {
                let folder = tempfile::tempdir().expect("a folder");
                let path = folder.path().join("a/b/journal.db");
                super::$check(&Store::open(&path, Options::default()).expect("an empty folder"));
            })+
        }
    };
}

conformance! {
    every_fact_comes_back_as_it_was,
    a_journal_grows_over_several_appends,
    a_taken_place_fails_alone,
    a_hole_is_refused,
    a_write_that_is_not_in_order_is_refused,
    an_unknown_stream_is_empty,
    a_system_journal_is_kept_but_not_listed,
    facts_of_processes_are_found_by_name,
    blobs_are_kept_once_under_their_hash,
    the_row_of_a_session_follows_its_facts,
    the_status_follows_the_facts,
    sessions_come_newest_first_and_in_pages,
    filters_narrow_the_list,
    a_page_has_bounds,
    a_probe_succeeds_and_leaves_the_journals_alone,
    a_session_has_one_owner,
    whoever_lost_a_session_is_refused,
    a_lease_given_back_is_lost_too,
    renewal_keeps_what_is_held_and_names_what_is_not,
    sessions_that_nobody_drives_are_found,
}

pub(crate) fn session(number: u8) -> SessionId {
    SessionId::from_bytes([number; 16])
}

pub(crate) fn process(number: u8) -> ProcessId {
    ProcessId::from_bytes([number; 16])
}

pub(crate) fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Facts of a session from a place on, recorded at 1000 and its place.
pub(crate) fn write(id: SessionId, first: u64, facts: Vec<Fact>) -> Write {
    write_to(StreamId::Session(id), first, facts)
}

fn write_to(stream: StreamId, first: u64, facts: Vec<Fact>) -> Write {
    let entry = |(seq, fact)| Arc::new(Entry { stream, seq, at: at(1000 + seq), fact });
    Write::new(stream, (first..).zip(facts).map(entry).collect(), Vec::new())
}

pub(crate) fn begin(id: SessionId) -> Write {
    write(id, 0, vec![facts::session_started(id, "C-001", "bank")])
}

pub(crate) fn suspended() -> Fact {
    Fact::SessionSuspended { cause: SuspendCause::Drain }
}

/// Appends one write that must succeed.
pub(crate) fn append(store: &dyn Kept, write: Write) {
    assert_eq!(store.append(&[write]), Ok(vec![Ok(())]));
}

/// Appends one write that must be refused; gives the kind and the text.
fn refuse(store: &dyn Kept, write: Write) -> (StoreErrorKind, String) {
    let mut results = store.append(&[write]).expect("the store works");
    let error = results.remove(0).expect_err("must be refused");
    (error.kind, error.detail)
}

fn granted(grant: LeaseGrant) -> LeaseEpoch {
    match grant {
        LeaseGrant::Granted(epoch) => epoch,
        LeaseGrant::Held { .. } => panic!("must be granted: {grant:?}"),
    }
}

fn ids(store: &dyn Kept, filter: &SessionFilter) -> Vec<SessionId> {
    store.sessions(filter).expect("readable").into_iter().map(|row| row.id).collect()
}

fn every_fact_comes_back_as_it_was(store: &dyn Kept) {
    let all = write(session(1), 0, facts::samples(session(1)));
    append(store, all.clone());
    let expected: Vec<Entry> = all.entries.iter().map(|entry| Entry::clone(entry)).collect();
    assert_eq!(store.load(all.stream), Ok(expected));
}

fn a_journal_grows_over_several_appends(store: &dyn Kept) {
    append(store, begin(session(1)));
    append(store, write(session(1), 1, vec![suspended(), suspended()]));
    append(store, write(session(1), 3, vec![suspended()]));
    let places: Vec<_> = store.load(StreamId::Session(session(1))).expect("readable").iter().map(|e| e.seq).collect();
    assert_eq!(places, [0, 1, 2, 3]);
}

fn a_taken_place_fails_alone(store: &dyn Kept) {
    append(store, begin(session(1)));
    let mut taken = write(session(1), 0, vec![suspended()]);
    taken.blobs.push(Blob { hash: BlobHash::from_bytes([7; 32]), bytes: Arc::from(*b"never") });
    let results = store.append(&[begin(session(2)), taken, begin(session(3))]).expect("the store works");

    assert_eq!((&results[0], &results[2]), (&Ok(()), &Ok(())));
    let error = results[1].clone().expect_err("the place is taken");
    assert_eq!(error.kind, StoreErrorKind::Conflict);
    assert_eq!(error.detail, format!("place 0 of {} is taken: the next one is 1", session(1)));
    assert_eq!(store.blob(BlobHash::from_bytes([7; 32])), Ok(None));
    assert_eq!(store.load(StreamId::Session(session(1))).expect("readable").len(), 1);
    assert_eq!(store.load(StreamId::Session(session(3))).expect("readable").len(), 1);
    // Two writes of one append that want the same place: the first has it.
    let results = store.append(&[write(session(2), 1, vec![suspended()]), write(session(2), 1, vec![suspended()])]);
    let kinds: Vec<_> = results.expect("the store works").into_iter().map(|r| r.map_err(|e| e.kind)).collect();
    assert_eq!(kinds, [Ok(()), Err(StoreErrorKind::Conflict)]);
}

fn a_hole_is_refused(store: &dyn Kept) {
    append(store, begin(session(1)));
    let (kind, text) = refuse(store, write(session(1), 2, vec![suspended()]));
    assert_eq!(kind, StoreErrorKind::Conflict);
    assert_eq!(text, format!("place 2 of {} would leave a hole: the next one is 1", session(1)));
    assert_eq!(refuse(store, write(session(2), 1, vec![suspended()])).0, StoreErrorKind::Conflict);
    let system = StreamId::System(process(1));
    let stopped = vec![Fact::ProcessStopped { suspended: 0 }];
    assert_eq!(refuse(store, write_to(system, 1, stopped)).0, StoreErrorKind::Conflict);
}

fn a_write_that_is_not_in_order_is_refused(store: &dyn Kept) {
    let mut holed = write(session(1), 0, vec![facts::session_started(session(1), "C-001", "bank"), suspended()]);
    holed.entries[1] = write(session(1), 2, vec![suspended()]).entries.remove(0);
    assert_eq!(refuse(store, holed).0, StoreErrorKind::Conflict);
    let mut strange = begin(session(1));
    strange.entries.push(write(session(2), 1, vec![suspended()]).entries.remove(0));
    assert_eq!(refuse(store, strange).0, StoreErrorKind::Conflict);
    assert_eq!(store.load(StreamId::Session(session(1))), Ok(Vec::new()));
    assert_eq!(store.session(session(1)), Ok(None));
}

fn an_unknown_stream_is_empty(store: &dyn Kept) {
    assert_eq!(store.load(StreamId::Session(session(1))), Ok(Vec::new()));
    assert_eq!(store.session(session(1)), Ok(None));
    assert_eq!(store.sessions(&SessionFilter::default()), Ok(Vec::new()));
}

fn a_system_journal_is_kept_but_not_listed(store: &dyn Kept) {
    let stream = StreamId::System(process(1));
    let started = Fact::ProcessStarted { version: "0.1.0".to_owned(), surface: "run".to_owned() };
    append(store, write_to(stream, 0, vec![started.clone()]));
    append(store, write_to(stream, 1, vec![Fact::ProcessStopped { suspended: 0 }]));
    let loaded = store.load(stream).expect("readable");
    assert_eq!((loaded.len(), &loaded[0].fact), (2, &started));
    assert_eq!(store.sessions(&SessionFilter::default()), Ok(Vec::new()));
}

fn facts_of_processes_are_found_by_name(store: &dyn Kept) {
    assert_eq!(store.system_facts("circuit_changed"), Ok(Vec::new()));
    let open = |tool| facts::circuit_changed(tool, CircuitState::Open, None);
    let stopped = || Fact::ProcessStopped { suspended: 0 };
    append(store, begin(session(1)));
    append(store, write(session(1), 1, vec![open("in a session")]));
    append(store, write_to(StreamId::System(process(9)), 0, vec![stopped(), open("a"), stopped(), open("b")]));
    append(store, write_to(StreamId::System(process(3)), 0, vec![open("c"), stopped(), stopped()]));
    let found = store.system_facts("circuit_changed").expect("readable");
    // By time; each entry of `write_to` is recorded at 1000 and its place.
    let places: Vec<_> = found.iter().map(|entry| (entry.stream, entry.seq, entry.at)).collect();
    let [third, ninth] = [3, 9].map(|number| StreamId::System(process(number)));
    assert_eq!(places, [(third, 0, at(1000)), (ninth, 1, at(1001)), (ninth, 3, at(1003))]);
    assert_eq!(found[2].fact, open("b"));
    assert_eq!(store.system_facts("process_stopped").map(|found| found.len()), Ok(4));
    assert_eq!(store.system_facts("session_started"), Ok(Vec::new()));
}

fn blobs_are_kept_once_under_their_hash(store: &dyn Kept) {
    let (one, two) = (BlobHash::from_bytes([1; 32]), BlobHash::from_bytes([2; 32]));
    let bytes: Arc<[u8]> = Arc::from([0, 255, b'x']);
    let mut first = begin(session(1));
    first.blobs.push(Blob { hash: one, bytes: Arc::clone(&bytes) });
    append(store, first.clone());
    first = begin(session(2));
    first.blobs.push(Blob { hash: one, bytes: Arc::clone(&bytes) });
    append(store, first);
    // A write may hold blobs alone.
    append(store, Write::new(StreamId::Session(session(1)), Vec::new(), vec![Blob { hash: two, bytes: [].into() }]));
    assert_eq!(store.blob(one), Ok(Some(bytes)));
    assert_eq!(store.blob(two), Ok(Some([].into())));
    assert_eq!(store.blob(BlobHash::from_bytes([3; 32])), Ok(None));
}

fn the_row_of_a_session_follows_its_facts(store: &dyn Kept) {
    let id = session(1);
    append(store, write(id, 0, vec![facts::session_started(id, "C-002", "bank"), facts::model_call_started(1)]));
    let row = store.session(id).expect("readable").expect("it is listed");
    assert_eq!((row.id, row.agent.as_str(), row.task_type.as_str()), (id, "bank", "question"));
    assert_eq!((row.principal.as_str(), row.status, row.reason), ("C-002", SessionStatus::Running, None));
    assert_eq!(
        (row.started, row.updated, row.facts, row.steps),
        (at(1000), at(1001), 2, 0),
        "a step counts once it has its reply"
    );

    let ends = [ModelOutcome::Ok, ModelOutcome::Lost].map(facts::model_call_finished);
    append(store, write(id, 2, Vec::from(ends)));
    let steps = || store.session(id).expect("readable").expect("it is listed").steps;
    assert_eq!(steps(), 1, "a lost call is no step");
    let more = vec![facts::model_call_finished(ModelOutcome::Ok), facts::model_call_finished(ModelOutcome::Ok)];
    append(store, write(id, 4, more));
    assert_eq!(steps(), 3);
    append(store, write(id, 6, vec![facts::session_finished(SessionStatus::Error, Some(EndReason::NoProgress))]));
    let row = store.session(id).expect("readable").expect("it is listed");
    assert_eq!((row.status, row.reason), (SessionStatus::Error, Some(EndReason::NoProgress)));
    assert_eq!((row.started, row.updated, row.facts, row.steps), (at(1000), at(1006), 7, 2), "as the end says");
    assert_eq!(store.sessions(&SessionFilter::default()), Ok(vec![row]));
}

fn the_status_follows_the_facts(store: &dyn Kept) {
    let status = || store.session(session(1)).expect("readable").expect("it is listed").status;
    append(store, begin(session(1)));
    assert_eq!(status(), SessionStatus::Running);
    append(store, write(session(1), 1, vec![suspended()]));
    assert_eq!(status(), SessionStatus::Suspended);
    append(store, write(session(1), 2, vec![facts::model_call_started(1)]));
    assert_eq!(status(), SessionStatus::Suspended);
    append(store, write(session(1), 3, vec![Fact::SessionResumed { process: "proc_1".to_owned() }]));
    assert_eq!(status(), SessionStatus::Running);
    append(store, write(session(1), 4, vec![facts::session_finished(SessionStatus::Done, None)]));
    assert_eq!(status(), SessionStatus::Done);
    for (number, end) in (2..).zip(SessionStatus::FINAL) {
        let id = session(number);
        let facts = vec![facts::session_started(id, "C-001", "bank"), facts::session_finished(end, None)];
        append(store, write(id, 0, facts));
        assert_eq!(store.session(id).expect("readable").expect("it is listed").status, end);
    }
}

/// Sessions 1 to 6: 1 began first, 2, 3 and 4 at one time, then 5, then 6. Even ones are C-002's,
/// the fourth and later ones of the agent `clerk`, 5 and 6 of the kind `cards`, 2 and 5 suspended.
fn six_sessions(store: &dyn Kept) {
    for (number, started) in [(3, 20), (1, 10), (6, 40), (4, 20), (2, 20), (5, 30)] {
        let id = session(number);
        let principal = if number % 2 == 0 { "C-002" } else { "C-001" };
        let mut begun = facts::session_started(id, principal, if number < 4 { "bank" } else { "clerk" });
        if let Fact::SessionStarted(started) = &mut begun
            && number > 4
        {
            started.task_type = "cards".to_owned();
        }
        let mut facts = vec![begun];
        if number == 2 || number == 5 {
            facts.push(suspended());
        }
        let mut write = write(id, 0, facts);
        for entry in &mut write.entries {
            Arc::make_mut(entry).at = at(started + entry.seq);
        }
        append(store, write);
    }
}

fn sessions_come_newest_first_and_in_pages(store: &dyn Kept) {
    six_sessions(store);
    let page = |before: Option<SessionId>| ids(store, &SessionFilter { before, limit: 2, ..SessionFilter::default() });
    assert_eq!(page(None), [session(6), session(5)]);
    // Of sessions that began at one time the greater id comes first.
    assert_eq!(page(Some(session(5))), [session(4), session(3)]);
    assert_eq!(page(Some(session(3))), [session(2), session(1)]);
    assert_eq!(page(Some(session(1))), []);
    assert_eq!(page(Some(session(9))), [], "nothing began before a session that is not there");
}

fn filters_narrow_the_list(store: &dyn Kept) {
    six_sessions(store);
    let principal = Some("C-002".to_owned());
    let agent = Some("clerk".to_owned());
    let status = Some(SessionStatus::Suspended);
    let all = SessionFilter::default;
    assert_eq!(
        ids(store, &SessionFilter { principal: principal.clone(), ..all() }),
        [session(6), session(4), session(2)]
    );
    assert_eq!(ids(store, &SessionFilter { agent: agent.clone(), ..all() }), [session(6), session(5), session(4)]);
    assert_eq!(ids(store, &SessionFilter { status, ..all() }), [session(5), session(2)]);
    let kind = |kind: &str| ids(store, &SessionFilter { task_type: Some(kind.to_owned()), ..all() });
    assert_eq!(kind("question"), [session(4), session(3), session(2), session(1)]);
    assert_eq!(kind("cards"), [session(6), session(5)]);
    assert_eq!(kind("card"), []);
    assert_eq!(
        ids(store, &SessionFilter { principal: principal.clone(), agent: agent.clone(), ..all() }),
        [session(6), session(4)]
    );
    assert_eq!(ids(store, &SessionFilter { status, before: Some(session(3)), ..all() }), [session(2)]);
    assert_eq!(ids(store, &SessionFilter { principal, agent, status, ..all() }), []);
    assert_eq!(ids(store, &SessionFilter { principal: Some("' OR 1 = 1 --".to_owned()), ..all() }), []);
}

fn a_page_has_bounds(store: &dyn Kept) {
    let begin_wide = |number: u16| {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        begin(SessionId::from_bytes(bytes))
    };
    let writes: Vec<_> = (0..1001).map(begin_wide).collect();
    assert!(store.append(&writes).expect("the store works").iter().all(Result::is_ok));
    let length = |limit| ids(store, &SessionFilter { limit, ..SessionFilter::default() }).len();
    assert_eq!([length(0), length(1), length(999), length(5000)], [100, 1, 999, 1000]);
}

fn a_probe_succeeds_and_leaves_the_journals_alone(store: &dyn Kept) {
    append(store, begin(session(1)));
    assert_eq!(store.probe(), Ok(()));
    assert_eq!(store.load(StreamId::Session(session(1))).expect("readable").len(), 1);
    assert_eq!(ids(store, &SessionFilter::default()), [session(1)]);
}

fn a_session_has_one_owner(store: &dyn Kept) {
    let first = granted(store.acquire(session(1), process(1), at(100), at(200)).expect("writable"));
    assert_eq!(first.number(), 1);
    let held = LeaseGrant::Held { owner: process(1), until: at(200) };
    assert_eq!(store.acquire(session(1), process(2), at(150), at(250)), Ok(held));
    assert_eq!(store.acquire(session(1), process(1), at(199), at(299)), Ok(held), "not even the owner twice");
    let second = granted(store.acquire(session(1), process(2), at(200), at(300)).expect("writable"));
    assert_eq!(second.number(), 2);
    assert_eq!(granted(store.acquire(session(2), process(1), at(200), at(300)).expect("writable")).number(), 1);
}

fn whoever_lost_a_session_is_refused(store: &dyn Kept) {
    let first = granted(store.acquire(session(1), process(1), at(100), at(200)).expect("writable"));
    append(store, begin(session(1)).under(first));
    // Past its time, but nobody took it.
    append(store, write(session(1), 1, vec![suspended()]).under(first));

    let second = granted(store.acquire(session(1), process(2), at(500), at(600)).expect("writable"));
    let late = write(session(1), 2, vec![suspended()]).under(first);
    let results = store.append(&[late, begin(session(2))]).expect("the store works");
    let error = results[0].clone().expect_err("it changed hands");
    assert_eq!(error.kind, StoreErrorKind::LostLease);
    assert_eq!(error.detail, format!("lease 1 of {} is lost: lease 2 stands", session(1)));
    assert_eq!(results[1], Ok(()));
    append(store, write(session(1), 2, vec![suspended()]).under(second));
    // Whoever relies on no lease is held to the places alone.
    append(store, write(session(1), 3, vec![suspended()]));
}

fn a_lease_given_back_is_lost_too(store: &dyn Kept) {
    let first = granted(store.acquire(session(1), process(1), at(100), at(900)).expect("writable"));
    assert_eq!(store.release(session(1), process(2)), Ok(()), "not its own: nothing happens");
    append(store, begin(session(1)).under(first));
    assert_eq!(store.release(session(1), process(1)), Ok(()));
    let (kind, text) = refuse(store, write(session(1), 1, vec![suspended()]).under(first));
    assert_eq!(kind, StoreErrorKind::LostLease);
    assert_eq!(text, format!("lease 1 of {} is lost: nobody holds it", session(1)));
    let second = granted(store.acquire(session(1), process(1), at(101), at(900)).expect("writable"));
    assert_eq!(second.number(), 2);
    assert_eq!(store.release(session(9), process(1)), Ok(()), "never taken: nothing happens");
}

fn renewal_keeps_what_is_held_and_names_what_is_not(store: &dyn Kept) {
    for number in [1, 2] {
        granted(store.acquire(session(number), process(1), at(100), at(200)).expect("writable"));
    }
    granted(store.acquire(session(2), process(2), at(200), at(300)).expect("writable"));
    let mine = [session(1), session(2), session(3)];
    assert_eq!(store.renew(process(1), &mine, at(400)), Ok(vec![session(2), session(3)]));
    let held = LeaseGrant::Held { owner: process(1), until: at(400) };
    assert_eq!(store.acquire(session(1), process(2), at(399), at(500)), Ok(held));
    let held = LeaseGrant::Held { owner: process(2), until: at(300) };
    assert_eq!(store.acquire(session(2), process(1), at(299), at(500)), Ok(held));
    assert_eq!(store.renew(process(1), &[], at(500)), Ok(Vec::new()));
}

fn sessions_that_nobody_drives_are_found(store: &dyn Kept) {
    six_sessions(store);
    let end = |number, seq| {
        append(store, write(session(number), seq, vec![facts::session_finished(SessionStatus::Done, None)]));
    };
    end(4, 1);
    end(5, 2);
    granted(store.acquire(session(1), process(1), at(100), at(200)).expect("writable"));
    granted(store.acquire(session(3), process(1), at(100), at(300)).expect("writable"));
    granted(store.acquire(session(5), process(1), at(100), at(200)).expect("writable"));
    assert_eq!(store.expired(at(199)), Ok(vec![session(2), session(6)]));
    assert_eq!(store.expired(at(200)), Ok(vec![session(1), session(2), session(6)]));
    store.release(session(3), process(1)).expect("writable");
    assert_eq!(store.expired(at(200)), Ok(vec![session(1), session(2), session(3), session(6)]));
    // One that waits for a person does not go on by itself; it does once that is decided.
    let waits = Fact::SessionSuspended { cause: SuspendCause::Confirmation };
    append(store, write(session(6), 1, vec![facts::confirmation_requested("call_1", at(5000)), waits]));
    assert_eq!(store.expired(at(200)), Ok(vec![session(1), session(2), session(3)]));
    let waiting = SessionFilter { status: Some(SessionStatus::AwaitingConfirmation), ..SessionFilter::default() };
    assert_eq!(ids(store, &waiting), [session(6)]);
    append(store, write(session(6), 3, vec![Fact::SessionResumed { process: "proc_1".to_owned() }]));
    assert_eq!(store.expired(at(200)), Ok(vec![session(1), session(2), session(3), session(6)]));
}
