//! What the store on disk promises beyond the common suite: it outlives its process, is shared,
//! and says what is wrong with a file.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Barrier,
    thread,
};

use glassbox::{
    core::{
        SessionStatus, StreamId, Timestamp,
        fact::HandoverCause,
        handover::{HandoverFilter, HandoverStatus, Handovers as _},
        lease::{LeaseGrant, Leases},
        mark::Marks as _,
        notice::{Hook, Notices as _},
        port::{Blob, SessionFilter, Store as _, StoreError, StoreErrorKind},
    },
    store::sqlite::{Options, Store, Synchronous},
};
use tempfile::TempDir;

use super::{
    facts,
    store_conformance::{append, at, begin, process, session, suspended, write},
};

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    (folder, path)
}

fn open(path: &Path) -> Store {
    Store::open(path, Options::default()).expect("a good file")
}

fn refused(path: &Path) -> StoreError {
    Store::open(path, Options::default()).expect_err("must be refused")
}

/// Changes the file behind the store's back.
fn meddle(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).expect("a good file").execute_batch(sql).expect("good SQL");
}

#[test]
fn what_is_written_is_there_for_the_next_process() {
    let (_folder, path) = folder();
    let store = open(&path);
    let mut all = write(session(1), 0, facts::samples(session(1)));
    all.blobs.push(Blob { hash: facts::hash(1), bytes: b"prompt"[..].into() });
    append(&store, all.clone());
    store.acquire(session(2), process(1), at(100), at(200)).expect("writable");

    // A second one beside the first, then a third after both are gone.
    for closing in [None, Some(store)] {
        drop(closing);
        let next = open(&path);
        let entries = next.load(all.stream).expect("readable");
        assert!(entries.iter().eq(all.entries.iter().map(|entry| &**entry)));
        assert_eq!(next.blob(facts::hash(1)), Ok(Some(b"prompt"[..].into())));
        assert_eq!(next.sessions(&SessionFilter::default()).expect("readable").len(), 1);
        let held = LeaseGrant::Held { owner: process(1), until: at(200) };
        assert_eq!(next.acquire(session(2), process(2), at(150), at(300)), Ok(held));
    }
}

#[test]
fn two_processes_write_side_by_side() {
    const SESSIONS: u8 = 4;
    const ROUNDS: u64 = 25;
    let (_folder, path) = folder();
    let options = || Options { synchronous: Synchronous::Normal, ..Options::default() };
    let stores = [(); 2].map(|()| Store::open(&path, options()).expect("a good file"));
    thread::scope(|scope| {
        for (number, store) in (0..SESSIONS).zip(stores.iter().cycle()) {
            scope.spawn(move || {
                append(store, begin(session(number)));
                for seq in 1..ROUNDS {
                    append(store, write(session(number), seq, vec![suspended()]));
                    assert_eq!(store.load(StreamId::Session(session(number))).map(|all| all.len() as u64), Ok(seq + 1));
                }
            });
        }
    });
    for row in stores[0].sessions(&SessionFilter::default()).expect("readable") {
        assert_eq!(row.facts, ROUNDS, "{}", row.id);
    }
}

#[test]
fn a_new_file_may_be_opened_by_many_at_once() {
    for _ in 0..5 {
        let (_folder, path) = folder();
        let start = Barrier::new(6);
        thread::scope(|scope| {
            for number in 0..6 {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    start.wait();
                    append(&open(path), begin(session(number)));
                });
            }
        });
        assert_eq!(open(&path).sessions(&SessionFilter::default()).expect("readable").len(), 6);
    }
}

#[test]
fn of_many_that_ask_for_a_session_one_has_it() {
    let (_folder, path) = folder();
    let stores = [(); 4].map(|()| open(&path));
    let start = Barrier::new(stores.len());
    let grants = thread::scope(|scope| {
        let start = &start;
        let handles: Vec<_> = (0..)
            .zip(&stores)
            .map(|(number, store)| {
                scope.spawn(move || {
                    start.wait();
                    store.acquire(session(1), process(number), at(100), at(200)).expect("writable")
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert_eq!(grants.iter().filter(|grant| matches!(grant, LeaseGrant::Granted(_))).count(), 1);
}

#[test]
fn the_file_is_its_owners_alone() {
    let (folder, _) = folder();
    let path = folder.path().join("data/journal.db");
    let store = open(&path);
    append(&store, begin(session(1)));
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_extension("db-wal")), 0o600);
    assert_eq!(mode(&folder.path().join("data")), 0o700);
}

#[test]
fn a_file_that_is_no_database_is_named() {
    let (_folder, path) = folder();
    fs::write(&path, "this is a letter, not a database, and long enough to have a header. ".repeat(20)).expect("room");
    let error = refused(&path);
    assert_eq!(error.kind, StoreErrorKind::Io);
    assert_eq!(error.detail, format!("cannot open {}: it is no SQLite database", path.display()));
}

#[test]
fn a_damaged_file_is_named() {
    let (_folder, path) = folder();
    drop(open(&path));
    let mut bytes = fs::read(&path).expect("readable");
    let header = 100;
    bytes[header..].fill(0xa5);
    fs::write(&path, bytes).expect("room");
    let error = refused(&path);
    assert_eq!(error.kind, StoreErrorKind::Io);
    assert_eq!(error.detail, format!("cannot open {}: it is damaged", path.display()));
}

#[test]
fn a_folder_is_no_file() {
    let (folder, _) = folder();
    let error = refused(folder.path());
    assert_eq!(error.kind, StoreErrorKind::Io);
    assert_eq!(error.detail, format!("{} is a folder: name a file in it", folder.path().display()));
}

#[test]
fn a_newer_file_is_refused_and_left_alone() {
    let (_folder, path) = folder();
    drop(open(&path));
    meddle(&path, "UPDATE meta SET value = '7' WHERE key = 'journal_version'");
    let error = refused(&path);
    assert_eq!(error.kind, StoreErrorKind::Version);
    assert_eq!(
        error.detail,
        format!(
            "{} has format 6.7, and this version of glassbox reads up to format 6.1: use the newer glassbox",
            path.display()
        )
    );
}

#[test]
fn a_fact_of_a_newer_version_is_named_by_its_place() {
    let (_folder, path) = folder();
    let store = open(&path);
    append(&store, begin(session(1)));
    append(&store, write(session(1), 1, vec![suspended()]));
    meddle(&path, "UPDATE fact SET name = 'moon_landed', body = '{\"moon_landed\":{\"by\":\"Ann\"}}' WHERE seq = 1");
    let error = store.load(StreamId::Session(session(1))).expect_err("unknown");
    assert_eq!(error.kind, StoreErrorKind::Version);
    assert_eq!(
        error.detail,
        format!(
            "fact 1 of {} (moon_landed) is none that this version knows: use the glassbox that wrote it",
            session(1)
        )
    );
}

#[test]
fn a_journal_with_a_hole_or_broken_text_is_damaged() {
    let (_folder, path) = folder();
    let store = open(&path);
    append(&store, write(session(1), 0, facts::samples(session(1))));
    meddle(&path, "UPDATE fact SET body = '{\"session_' WHERE seq = 5");
    let error = store.load(StreamId::Session(session(1))).expect_err("broken");
    assert_eq!(error.kind, StoreErrorKind::Io);
    assert!(error.detail.starts_with(&format!("fact 5 of {} (", session(1))), "{}", error.detail);
    meddle(&path, "DELETE FROM fact WHERE seq = 3");
    let error = store.load(StreamId::Session(session(1))).expect_err("a hole");
    assert_eq!(error.kind, StoreErrorKind::Io);
    assert_eq!(error.detail, format!("the journal of {} is damaged: fact 4 stands where fact 3 belongs", session(1)));
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_read_only() {
    // A folder of the kernel's, in which not even root makes files.
    let error = refused(Path::new("/sys/glassbox/journal.db"));
    assert_eq!(error.kind, StoreErrorKind::ReadOnly);
    assert!(error.detail.starts_with("cannot create the folder /sys/glassbox: "), "{}", error.detail);
}

#[test]
fn journals_of_older_versions_are_brought_up_and_read() {
    for version in ["1.1", "2.1", "3.1", "4.1", "5.1"] {
        let (_folder, path) = folder();
        let old = format!("{}/tests/data/journals/version-{version}.db", env!("CARGO_MANIFEST_DIR"));
        fs::copy(old, &path).expect("a copy");
        let store = Store::open(&path, Options::default()).expect("an older file");
        let filter = SessionFilter { conversation: Some("c-1".into()), ..SessionFilter::default() };
        let of_conversation = store.sessions(&filter).expect("a list").len();
        assert_eq!(of_conversation, usize::from(matches!(version, "3.1" | "4.1")), "{version}");
        let handovers = store.handovers(&HandoverFilter::default()).expect("a list");
        let told: Vec<_> =
            handovers.iter().map(|record| (record.status(), record.cause, record.agent.as_str())).collect();
        let open = (HandoverStatus::Open, HandoverCause::UnknownOutcome, "bank");
        assert_eq!(told, if version == "4.1" { vec![open] } else { Vec::new() }, "{version}");
        let due = store.due_notices(&Hook::ALL, Timestamp::from_nanos(u64::MAX / 2), 10);
        assert_eq!(due, Ok(Vec::new()), "nobody is told of what is long ago");
        let ever = at(u64::MAX / 2);
        assert_eq!(store.owing(ever, at(0), ever), Ok(Vec::new()), "nor is a line of it written again");
        read_and_erase(&store, &path);
    }
}

/// No version before kept how far the lines of a session are out.
#[test]
fn lines_of_an_open_session_of_an_older_version_are_owed_from_where_it_stands() {
    for status in ["running", "suspended", "awaiting_confirmation"] {
        let (_folder, path) = folder();
        let old = format!("{}/tests/data/journals/version-5.1.db", env!("CARGO_MANIFEST_DIR"));
        fs::copy(old, &path).expect("a copy");
        meddle(&path, &format!("UPDATE session SET status = '{status}'"));
        let store = Store::open(&path, Options::default()).expect("an older file");
        let row = store.sessions(&SessionFilter::default()).expect("a list").remove(0);
        assert_eq!(store.mark(StreamId::Session(row.id)), Ok(Some(row.facts)), "{status}");
    }
}

fn read_and_erase(store: &Store, path: &Path) {
    let rows = store.sessions(&SessionFilter::default()).expect("a list");
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].status, rows[0].steps), (SessionStatus::Done, 2));
    let entries = store.load(StreamId::Session(rows[0].id)).expect("a journal");
    assert_eq!(entries.len() as u64, rows[0].facts);
    // What the newer version adds is there: nothing says that its spans arrived.
    let (from, to) = (Timestamp::from_nanos(0), Timestamp::from_nanos(u64::MAX / 2));
    assert_eq!(store.unexported(from, to).expect("a list"), [rows[0].id]);
    store.mark_exported(&[rows[0].id]).expect("a mark");
    assert_eq!(store.unexported(from, to).expect("a list"), []);
    // The texts that its facts name go with it.
    let count = |table: &str| -> i64 {
        let file = rusqlite::Connection::open(path).expect("a good file");
        file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a number")
    };
    assert_eq!((count("blob"), count("blob_ref")), (3, 3));
    let granted = store.acquire(rows[0].id, process(1), at(100), at(200)).expect("writable");
    assert!(matches!(granted, LeaseGrant::Granted(_)), "{granted:?}");
    assert_eq!(store.erase(process(1), &[rows[0].id]), Ok(1));
    assert_eq!((count("blob"), count("blob_ref"), count("session"), count("lease")), (0, 0, 0, 0));
}
