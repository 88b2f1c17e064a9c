//! Erasing, the same in every store; and on disk, that the bytes are gone from the files.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use glassbox::{
    core::{
        BlobHash, Entry, Fact, SessionId, SessionStatus, StreamId,
        fact::Observation,
        lease::LeaseGrant,
        port::{Blob, Store as _, StoreErrorKind, Write},
    },
    store::{
        memory,
        sqlite::{Options, Store},
    },
};

use super::{
    facts,
    store_conformance::{Kept, append, at, begin, process, session, suspended, write},
};

/// The same check over each store.
fn both(check: fn(&dyn Kept)) {
    check(&memory::Store::new());
    let folder = tempfile::tempdir().expect("a folder");
    check(&Store::open(&folder.path().join("journal.db"), Options::default()).expect("an empty folder"));
}

fn take(store: &dyn Kept, number: u8) {
    let granted = store.acquire(session(number), process(1), at(100), at(200)).expect("writable");
    assert!(matches!(granted, LeaseGrant::Granted(_)), "{granted:?}");
}

fn kept(hash: u8) -> Blob {
    Blob { hash: facts::hash(hash), bytes: Arc::from([hash; 3]) }
}

fn with_texts(id: SessionId, hashes: &[u8]) -> Write {
    let mut write = begin(id);
    write.blobs = hashes.iter().copied().map(kept).collect();
    write
}

#[test]
fn what_is_erased_is_gone_with_the_texts_that_only_it_names() {
    both(|store| {
        append(store, with_texts(session(1), &[1, 2]));
        append(store, with_texts(session(2), &[2, 3]));
        let later = Write::new(StreamId::Session(session(1)), Vec::new(), vec![kept(4), kept(3)]);
        append(store, later);
        take(store, 1);
        assert_eq!(store.erase(process(1), &[session(1)]), Ok(1));
        assert_eq!(store.scrub(), Ok(()));
        assert_eq!(store.load(StreamId::Session(session(1))), Ok(Vec::new()));
        assert_eq!(store.session(session(1)), Ok(None));
        let texts = |hashes: [u8; 4]| hashes.map(|hash| store.blob(facts::hash(hash)).expect("readable").is_some());
        assert_eq!(texts([1, 2, 3, 4]), [false, true, true, false]);
        assert_eq!(store.load(StreamId::Session(session(2))).expect("readable").len(), 1);
        // Nothing of it is in the way of a session that has the same id.
        append(store, with_texts(session(1), &[1]));
        assert_eq!(texts([1, 2, 3, 4]), [true, true, true, false]);
        take(store, 2);
        assert_eq!(store.erase(process(1), &[session(2)]), Ok(1));
        assert_eq!(texts([1, 2, 3, 4]), [true, false, false, false]);
    });
}

#[test]
fn only_what_the_eraser_holds_is_erased() {
    both(|store| {
        for number in 1..=3 {
            append(store, begin(session(number)));
        }
        take(store, 2);
        store.acquire(session(3), process(2), at(100), at(200)).expect("writable");
        let all = [session(1), session(2), session(3), session(9)];
        assert_eq!(store.erase(process(1), &all), Ok(1));
        assert!(store.session(session(1)).expect("readable").is_some(), "nobody holds it");
        assert!(store.session(session(3)).expect("readable").is_some(), "another holds it");
        assert_eq!(store.erase(process(1), &[]), Ok(0));
    });
}

#[test]
fn whoever_drove_an_erased_session_is_refused() {
    both(|store| {
        let granted = store.acquire(session(1), process(2), at(10), at(20)).expect("writable");
        let LeaseGrant::Granted(lease) = granted else { panic!("{granted:?}") };
        append(store, begin(session(1)).under(lease));
        take(store, 1);
        assert_eq!(store.erase(process(1), &[session(1)]), Ok(1));
        let late = store.append(&[write(session(1), 1, vec![suspended()]).under(lease)]).expect("the store works");
        assert_eq!(late[0].clone().expect_err("it is gone").kind, StoreErrorKind::LostLease);
        assert_eq!(store.renew(process(2), &[session(1)], at(900)), Ok(vec![session(1)]));
        assert_eq!(store.load(StreamId::Session(session(1))), Ok(Vec::new()));
    });
}

#[test]
fn sessions_that_ended_before_a_time_are_found() {
    both(|store| {
        for (number, status) in (1..).zip(SessionStatus::FINAL) {
            append(store, begin(session(number)));
            append(store, write(session(number), 1, vec![facts::session_finished(status, None)]));
        }
        append(store, begin(session(20)));
        append(store, write(session(20), 1, vec![suspended()]));
        let ended = |before, limit| {
            let mut found = store.ended(at(before), limit).expect("readable");
            found.sort_unstable();
            found
        };
        // The last fact of each was recorded at 1001.
        assert_eq!(ended(1001, 100), []);
        let all: Vec<_> = (1..).zip(SessionStatus::FINAL).map(|(number, _)| session(number)).collect();
        assert_eq!(ended(1002, 100), all);
        assert_eq!(ended(1002, 2).len(), 2);
    });
}

#[test]
fn a_journal_is_read_in_pages() {
    both(|store| {
        append(store, begin(session(1)));
        append(store, write(session(1), 1, vec![suspended(), suspended(), suspended()]));
        let stream = StreamId::Session(session(1));
        let page = |from, limit| -> Vec<u64> {
            store.page(stream, from, limit).expect("readable").iter().map(|entry: &Entry| entry.seq).collect()
        };
        assert_eq!(page(0, 3), [0, 1, 2]);
        assert_eq!(page(3, 3), [3]);
        assert_eq!(page(4, 3), Vec::<u64>::new());
        assert_eq!(page(1, usize::MAX), [1, 2, 3]);
    });
}

/// A journal of many facts, long ones among them, in which this text stands in every place that
/// a person's text can stand in.
fn planted(number: u8, text: &str) -> Vec<Write> {
    let mut samples = facts::samples(session(number));
    for fact in &mut samples {
        match fact {
            Fact::SessionStarted(started) => {
                started.task = format!("task {text}").into();
                started.principal.id = format!("id {text}");
                started.conversation_id = Some(format!("conversation {text}"));
                started.metadata.insert("note".into(), text.into());
            }
            Fact::ToolCallFinished { end, .. } => {
                let content = text.repeat(1000);
                end.observation = Observation { content, ..end.observation.clone() };
            }
            Fact::HandedOver { detail, .. } => *detail = text.into(),
            Fact::SessionFinished(end) => end.answer = Some(text.into()),
            _ => {}
        }
    }
    let mut writes: Vec<_> = (0..).zip(samples).map(|(seq, fact)| write(session(number), seq, vec![fact])).collect();
    let (small, large) = (format!("prompt {text}"), text.repeat(5000));
    for (hash, bytes) in [(number, small), (number + 100, large)] {
        let blob = Blob { hash: BlobHash::from_bytes([hash; 32]), bytes: Arc::from(bytes.into_bytes()) };
        writes[0].blobs.push(blob);
    }
    writes
}

fn files_with(path: &Path, text: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(path.parent().expect("a folder")).expect("readable");
    let holds = |path: &PathBuf| {
        let bytes = fs::read(path).expect("readable");
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    files.map(|file| file.expect("readable").path()).filter(holds).collect()
}

#[test]
fn the_bytes_of_an_erased_session_are_in_no_file() {
    const SESSIONS: u8 = 40;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let store = Store::open(&path, Options::default()).expect("an empty folder");
    // Odd ones are to go, even ones to stay, fact by fact side by side, so that they share pages
    // and pages are split.
    let text = |number: u8| if number % 2 == 1 { "Kaskelen-forgotten" } else { "Almaty-remembered" };
    let journals: Vec<_> = (1..=SESSIONS).map(|number| planted(number, text(number))).collect();
    for seq in 0..journals[0].len() {
        for journal in &journals {
            append(&store, journal[seq].clone());
        }
    }
    assert!(!files_with(&path, text(1)).is_empty(), "the search finds what is there");

    let odd: Vec<_> = (1..=SESSIONS).step_by(2).collect();
    odd.iter().for_each(|number| take(&store, *number));
    let ids: Vec<_> = odd.iter().map(|number| session(*number)).collect();
    assert_eq!(store.erase(process(1), &ids), Ok(u64::from(SESSIONS) / 2));
    assert_eq!(store.scrub(), Ok(()));

    assert_eq!(files_with(&path, text(1)), Vec::<PathBuf>::new());
    assert!(!files_with(&path, text(2)).is_empty(), "the others are still there");
    for number in (2..=SESSIONS).step_by(2) {
        let facts = facts::samples(session(number)).len();
        assert_eq!(store.load(StreamId::Session(session(number))).expect("readable").len(), facts);
    }
}

#[test]
fn a_log_that_others_read_is_emptied_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let options = Options { busy_timeout: std::time::Duration::ZERO, ..Options::default() };
    let store = Store::open(&path, options).expect("an empty folder");
    append(&store, begin(session(1)));
    let reader = rusqlite::Connection::open(&path).expect("the same file");
    reader.execute_batch("BEGIN; SELECT count(*) FROM fact;").expect("a reader");
    take(&store, 1);
    assert_eq!(store.erase(process(1), &[session(1)]), Ok(1));
    assert_eq!(store.scrub().expect_err("it is read").kind, StoreErrorKind::Busy);
    reader.execute_batch("COMMIT").expect("the reader is done");
    assert_eq!(store.scrub(), Ok(()));
}
