//! How far the event lines are out, as every store keeps it: made with the fact, moved on, gone
//! with the last line or with the session.

use std::sync::Arc;

use glassbox::{
    core::{
        Entry, Fact, SessionStatus, StreamId, Timestamp,
        lease::LeaseGrant,
        mark::{Mark, Marks as _},
        port::{StoreErrorKind, Write},
    },
    store::{
        memory,
        sqlite::{self, Options},
    },
};

use crate::{
    facts,
    store_conformance::{Kept, append, at, begin, process, session, suspended, write},
};

const EVER: Timestamp = Timestamp::from_nanos(u64::MAX / 2);

fn in_every_store(check: impl Fn(&dyn Kept)) {
    check(&memory::Store::new());
    let folder = tempfile::tempdir().expect("a folder");
    check(&sqlite::Store::open(&folder.path().join("journal.db"), Options::default()).expect("an empty folder"));
}

fn stream(number: u8) -> StreamId {
    StreamId::Session(session(number))
}

fn mark(number: u8, next: u64) -> Mark {
    Mark { stream: stream(number), next }
}

/// The end of a session, at this place.
fn end(number: u8, seq: u64) -> Write {
    write(session(number), seq, vec![facts::session_finished(SessionStatus::Done, None)])
}

/// What one process records outside of sessions, at 1500 and its place.
fn of_process(first: u64, count: u64) -> Write {
    let stream = StreamId::System(process(1));
    let entry = |seq| Arc::new(Entry { stream, seq, at: at(1500 + seq), fact: Fact::ProcessStopped { suspended: 0 } });
    Write::new(stream, (first..first + count).map(entry).collect(), Vec::new())
}

/// What is owed by anybody, whenever it was recorded.
fn owing(store: &dyn Kept) -> Vec<Mark> {
    store.owing(EVER, at(0), EVER).expect("readable")
}

#[test]
fn a_mark_is_made_with_the_fact_once_and_never_moves_back() {
    in_every_store(|store| {
        assert_eq!(store.mark(stream(1)), Ok(None));
        append(store, begin(session(1)).owing_from(0));
        assert_eq!((store.mark(stream(1)), owing(store)), (Ok(Some(0)), vec![mark(1, 0)]));
        store.move_marks(&[mark(1, 1)]).expect("writable");
        append(store, write(session(1), 1, vec![suspended(), suspended()]).owing_from(0));
        assert_eq!(store.mark(stream(1)), Ok(Some(1)), "it has one");
        store.move_marks(&[mark(1, 3), mark(1, 2)]).expect("writable");
        assert_eq!((store.mark(stream(1)), owing(store)), (Ok(Some(3)), vec![]));
    });
}

#[test]
fn nothing_is_owed_where_no_mark_was_asked_for() {
    in_every_store(|store| {
        append(store, begin(session(1)));
        store.move_marks(&[mark(1, 1)]).expect("writable");
        assert_eq!((store.mark(stream(1)), owing(store)), (Ok(None), vec![]));
    });
}

#[test]
fn a_write_that_is_refused_leaves_no_mark() {
    in_every_store(|store| {
        append(store, begin(session(1)));
        let refused = store.append(&[write(session(1), 5, vec![suspended()]).owing_from(0)]).expect("the store works");
        assert_eq!(refused[0].clone().expect_err("a hole").kind, StoreErrorKind::Conflict);
        assert_eq!(store.mark(stream(1)), Ok(None));
    });
}

#[test]
fn the_mark_of_an_ended_session_goes_with_its_last_line_and_not_before() {
    in_every_store(|store| {
        append(store, begin(session(1)).owing_from(0));
        store.move_marks(&[mark(1, 1)]).expect("writable");
        assert_eq!(store.mark(stream(1)), Ok(Some(1)), "it goes on");
        append(store, end(1, 1));
        store.move_marks(&[mark(1, 1)]).expect("writable");
        assert_eq!((store.mark(stream(1)), owing(store)), (Ok(Some(1)), vec![mark(1, 1)]));
        store.move_marks(&[mark(1, 2)]).expect("writable");
        assert_eq!((store.mark(stream(1)), owing(store)), (Ok(None), vec![]));
    });
}

#[test]
fn the_mark_of_a_process_goes_once_nothing_is_behind_it_and_comes_back() {
    in_every_store(|store| {
        let stream = StreamId::System(process(1));
        append(store, of_process(0, 1));
        append(store, of_process(1, 2).owing_from(1));
        store.move_marks(&[Mark { stream, next: 2 }]).expect("writable");
        assert_eq!(store.mark(stream), Ok(Some(2)), "a fact is behind it");
        store.move_marks(&[Mark { stream, next: 3 }]).expect("writable");
        assert_eq!(store.mark(stream), Ok(None));
        append(store, of_process(3, 1).owing_from(3));
        assert_eq!(owing(store), [Mark { stream, next: 3 }]);
    });
}

#[test]
fn what_is_owed_comes_in_the_order_of_its_age_without_what_somebody_holds() {
    in_every_store(|store| {
        // Sessions 2 and 1, recorded at 1000 and 1001; 1 owes its second fact only.
        for number in [2, 1] {
            append(store, begin(session(number)).owing_from(0));
            append(store, write(session(number), 1, vec![suspended()]));
        }
        append(store, of_process(0, 1).owing_from(0));
        store.move_marks(&[mark(1, 1)]).expect("writable");
        let of_process = Mark { stream: StreamId::System(process(1)), next: 0 };
        assert_eq!(owing(store), [mark(2, 0), mark(1, 1), of_process]);

        let granted = store.acquire(session(2), process(9), at(10), at(20)).expect("writable");
        assert!(matches!(granted, LeaseGrant::Granted(_)));
        assert_eq!(store.owing(at(19), at(0), EVER), Ok(vec![mark(1, 1), of_process]), "its holder writes it");
        assert_eq!(store.owing(at(20), at(0), EVER).expect("readable").len(), 3, "nobody holds it any more");
        store.release(session(2), process(9)).expect("writable");
        assert_eq!(store.owing(at(19), at(0), EVER).expect("readable").len(), 3, "nor was it kept");
    });
}

#[test]
fn what_is_owed_was_recorded_between_two_times() {
    in_every_store(|store| {
        append(store, begin(session(1)).owing_from(0));
        append(store, write(session(1), 1, vec![suspended()]));
        let owed = |since, before| store.owing(EVER, at(since), at(before)).expect("readable").len();
        assert_eq!([owed(0, 1000), owed(0, 1001), owed(1001, 1002), owed(1002, 2000)], [0, 1, 1, 0]);
    });
}

#[test]
fn what_is_too_old_is_given_up_but_of_sessions_that_go_on() {
    in_every_store(|store| {
        append(store, begin(session(1)).owing_from(0));
        append(store, begin(session(2)).owing_from(0));
        append(store, end(2, 1));
        append(store, of_process(0, 1).owing_from(0));
        assert_eq!(store.give_up_marks(at(1001)), Ok(0));
        assert_eq!(store.give_up_marks(at(1002)), Ok(1), "session 2 ended at 1001");
        assert_eq!((store.mark(stream(1)), store.mark(stream(2))), (Ok(Some(0)), Ok(None)));
        assert_eq!(store.give_up_marks(at(1501)), Ok(1), "the process said its last at 1500");
        assert_eq!(owing(store), [mark(1, 0)]);
    });
}

#[test]
fn a_mark_goes_with_its_session() {
    in_every_store(|store| {
        append(store, begin(session(1)).owing_from(0));
        assert!(matches!(store.acquire(session(1), process(1), at(10), at(20)), Ok(LeaseGrant::Granted(_))));
        assert_eq!(store.erase(process(1), &[session(1)]), Ok(1));
        store.move_marks(&[mark(1, 1)]).expect("writable");
        assert_eq!((store.mark(stream(1)), owing(store)), (Ok(None), vec![]));
    });
}

#[test]
fn a_store_that_cannot_be_written_moves_no_mark() {
    let store = memory::Store::new();
    append(&store, begin(session(1)).owing_from(0));
    store.fail_with(Some(StoreErrorKind::Full));
    assert_eq!(store.move_marks(&[mark(1, 1)]).expect_err("full").kind, StoreErrorKind::Full);
    assert_eq!(store.mark(stream(1)), Ok(Some(0)));
}
