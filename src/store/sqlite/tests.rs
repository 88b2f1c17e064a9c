//! What only the inside can bring about: a full disk, a read-only file, a file in use.

use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::core::{
    Fact,
    fact::{HandoverCause, SuspendCause},
    port::{Store as _, StoreErrorKind},
};

fn open(options: Options) -> (TempDir, Store) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("journal.db"), options).expect("an empty folder");
    (folder, store)
}

fn stream(number: u8) -> StreamId {
    StreamId::Session(SessionId::from_bytes([number; 16]))
}

fn write(stream: StreamId, seq: u64, fact: Fact) -> Write {
    let entry = Entry { stream, seq, at: Timestamp::from_nanos(seq), fact };
    Write::new(stream, vec![Arc::new(entry)], Vec::new())
}

fn short(stream: StreamId, seq: u64) -> Write {
    write(stream, seq, Fact::SessionSuspended { cause: SuspendCause::Drain })
}

/// A fact of some two hundred kilobytes.
fn long(stream: StreamId, seq: u64) -> Write {
    write(
        stream,
        seq,
        Fact::HandedOver { cause: HandoverCause::SessionEnded, detail: "x".repeat(200_000).into(), tool: None },
    )
}

fn pages(store: &Store) -> i64 {
    let writer = store.writer.lock().expect("no panic");
    writer.conn().pragma_query_value(None, "page_count", |row| row.get(0)).expect("a number")
}

fn allow_pages(store: &Store, pages: i64) {
    let writer = store.writer.lock().expect("no panic");
    writer.conn().pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).expect("a number");
}

#[test]
fn a_full_disk_fails_the_whole_append_and_room_again_mends_it() {
    let (_folder, store) = open(Options::default());
    allow_pages(&store, pages(&store) + 2);

    let error = store.append(&[short(stream(1), 0), long(stream(2), 0)]).expect_err("no room");
    assert_eq!(error.kind, StoreErrorKind::Full);
    assert_eq!(error.detail, format!("cannot write to {}: no room on the disk", store.path().display()));
    assert_eq!(store.load(stream(1)), Ok(Vec::new()));
    assert_eq!(store.probe().expect_err("no room").kind, StoreErrorKind::Full);

    allow_pages(&store, 1_000_000);
    assert_eq!(store.probe(), Ok(()));
    assert_eq!(store.append(&[short(stream(1), 0), long(stream(2), 0)]), Ok(vec![Ok(()), Ok(())]));
    assert_eq!(store.load(stream(2)).expect("readable").len(), 1);
}

#[test]
fn the_probe_leaves_nothing_that_grows() {
    let (_folder, store) = open(Options::default());
    store.probe().expect("an ordinary disk");
    let once = pages(&store);
    for _ in 0..10 {
        store.probe().expect("an ordinary disk");
    }
    assert_eq!(pages(&store), once);
}

#[test]
fn a_file_that_turned_read_only_says_so() {
    let (_folder, store) = open(Options::default());
    let set = |on: bool| {
        let writer = store.writer.lock().expect("no panic");
        writer.conn().pragma_update(None, "query_only", on).expect("a switch");
    };
    set(true);
    let error = store.append(&[short(stream(1), 0)]).expect_err("read-only");
    assert_eq!(error.kind, StoreErrorKind::ReadOnly);
    assert_eq!(error.detail, format!("cannot write to {}: it cannot be written", store.path().display()));
    assert_eq!(store.probe().expect_err("read-only").kind, StoreErrorKind::ReadOnly);
    set(false);
    assert_eq!(store.append(&[short(stream(1), 0)]), Ok(vec![Ok(())]));
}

#[test]
fn a_file_in_use_is_busy_until_it_is_free() {
    let (_folder, store) = open(Options { busy_timeout: Duration::ZERO, ..Options::default() });
    let other = Connection::open(store.path()).expect("the same file");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody writes");
    assert_eq!(store.append(&[short(stream(1), 0)]).expect_err("in use").kind, StoreErrorKind::Busy);
    other.execute_batch("COMMIT").expect("nothing to write");
    assert_eq!(store.append(&[short(stream(1), 0)]), Ok(vec![Ok(())]));
}

#[test]
fn a_panic_in_the_middle_of_a_transaction_is_rolled_back() {
    let (_folder, store) = open(Options::default());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.write(|writer| {
            writer.transaction::<()>(|writer| {
                writer.run("INSERT INTO meta (key, value) VALUES ('half', 'done')", [])?;
                panic!("in the middle");
            })
        })
    }));
    panicked.expect_err("it panicked");
    assert_eq!(store.append(&[short(stream(1), 0)]), Ok(vec![Ok(())]));
    let half: i64 = store
        .read(|conn| Ok(conn.query_row("SELECT count(*) FROM meta WHERE key = 'half'", [], |row| row.get(0))?))
        .expect("readable");
    assert_eq!(half, 0);
}

#[test]
fn commits_wait_for_the_disk_and_the_log_is_a_wal() {
    for (synchronous, number) in [(Synchronous::Full, 2), (Synchronous::Normal, 1)] {
        let (_folder, store) = open(Options { synchronous, ..Options::default() });
        let writer = store.writer.lock().expect("no panic");
        let set: i64 = writer.conn().pragma_query_value(None, "synchronous", |row| row.get(0)).expect("a number");
        let mode: String = writer.conn().pragma_query_value(None, "journal_mode", |row| row.get(0)).expect("a word");
        assert_eq!((set, mode.as_str()), (number, "wal"));
    }
}
