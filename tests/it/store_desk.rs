//! What lies on the desks of people, in every store: hand-overs, which outlive their sessions, and
//! notices of them, which wait until somebody took them.

use std::{sync::Barrier, thread};

use glassbox::{
    core::{
        Fact,
        fact::HandoverCause,
        handover::{
            Handling, Handover, HandoverAction, HandoverFilter, HandoverId, HandoverObjection, HandoverStatus,
            OperatorWord, Unclaimed,
        },
        lease::LeaseGrant,
        notice::{Hook, Notice},
        port::Write,
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

fn in_every_store(check: impl Fn(&dyn Kept)) {
    check(&memory::Store::new());
    let folder = tempfile::tempdir().expect("a folder");
    check(&sqlite::Store::open(&folder.path().join("journal.db"), Options::default()).expect("an empty folder"));
}

fn handed_over(tool: Option<&str>) -> Fact {
    let cause = if tool.is_some() { HandoverCause::UnknownOutcome } else { HandoverCause::SessionEnded };
    Fact::HandedOver { cause, detail: "Айгерим ждёт".into(), tool: tool.map(str::to_owned) }
}

/// A session whose facts 1 and 2, recorded at 1001 and 1002, are hand-overs.
fn handing_over(number: u8) -> Write {
    let begin = facts::session_started(session(number), "C-001", "bank");
    write(session(number), 0, vec![begin, handed_over(Some("pay")), handed_over(None)])
}

fn hand(number: u8, seq: u64) -> HandoverId {
    HandoverId { session: session(number), seq }
}

fn word(by: &str, when: u64) -> OperatorWord {
    OperatorWord { by: by.into(), at: at(when), comment: Some("позвоню".into()) }
}

fn ids(store: &dyn Kept, filter: &HandoverFilter) -> Vec<HandoverId> {
    store.handovers(filter).expect("readable").iter().map(|record| record.id).collect()
}

fn with_status(status: HandoverStatus) -> HandoverFilter {
    HandoverFilter { status: Some(status), ..HandoverFilter::default() }
}

fn done(handling: Handling) -> Handover {
    match handling {
        Handling::Done(handover) => handover,
        other => panic!("{other:?}"),
    }
}

fn erase(store: &dyn Kept, number: u8) {
    let granted = store.acquire(session(number), process(9), at(1), at(2)).expect("writable");
    assert!(matches!(granted, LeaseGrant::Granted(_)));
    assert_eq!(store.erase(process(9), &[session(number)]), Ok(1));
}

#[test]
fn a_fact_opens_a_record_with_what_its_session_says() {
    in_every_store(|store| {
        append(store, handing_over(1));
        let expected = Handover {
            id: hand(1, 1),
            agent: "bank".into(),
            task_type: "question".into(),
            principal: Some("C-001".into()),
            cause: HandoverCause::UnknownOutcome,
            tool: Some("pay".into()),
            detail: Some("Айгерим ждёт".into()),
            opened: at(1001),
            claimed: None,
            closed: None,
            erased: false,
        };
        assert_eq!(store.handover(hand(1, 1)), Ok(Some(expected)));
        assert_eq!(store.handover(hand(1, 0)), Ok(None));
        assert_eq!(store.unclaimed(), Ok(Unclaimed { count: 2, oldest: Some(at(1001)) }));
    });
}

#[test]
fn they_come_newest_first_in_pages_and_by_status() {
    in_every_store(|store| {
        append(store, handing_over(1));
        append(store, handing_over(2));
        let all = [hand(2, 2), hand(1, 2), hand(2, 1), hand(1, 1)];
        assert_eq!(ids(store, &HandoverFilter::default()), all);
        let page = |before| HandoverFilter { before, limit: 2, ..HandoverFilter::default() };
        assert_eq!(ids(store, &page(None)), all[..2]);
        assert_eq!(ids(store, &page(Some(all[1]))), all[2..]);
        assert_eq!(ids(store, &page(Some(hand(3, 1)))), [], "nothing comes after one that is not there");
        done(store.handle(hand(1, 1), HandoverAction::Claim, &word("A", 5000)).expect("writable"));
        done(store.handle(hand(2, 1), HandoverAction::Close, &word("A", 5000)).expect("writable"));
        assert_eq!(ids(store, &with_status(HandoverStatus::Open)), [hand(2, 2), hand(1, 2)]);
        assert_eq!(ids(store, &with_status(HandoverStatus::Claimed)), [hand(1, 1)]);
        assert_eq!(ids(store, &with_status(HandoverStatus::Closed)), [hand(2, 1)]);
        assert_eq!(store.unclaimed(), Ok(Unclaimed { count: 2, oldest: Some(at(1002)) }));
    });
}

#[test]
fn who_claims_has_it_and_what_is_said_is_kept() {
    in_every_store(|store| {
        append(store, handing_over(1));
        let (id, claim) = (hand(1, 1), HandoverAction::Claim);
        let claimed = done(store.handle(id, claim, &word("A", 5000)).expect("writable"));
        assert_eq!(claimed.claimed, Some(word("A", 5000)));
        assert_eq!(store.handle(id, claim, &word("A", 6000)), Ok(Handling::Before(claimed)));
        let objection = HandoverObjection::Claimed { id, at: at(5000) };
        assert_eq!(store.handle(id, claim, &word("B", 6000)), Ok(Handling::Objected(objection)));
        let closed = done(store.handle(id, HandoverAction::Close, &word("A", 7000)).expect("writable"));
        assert_eq!((&closed.claimed, &closed.closed), (&Some(word("A", 5000)), &Some(word("A", 7000))));
        assert_eq!(store.handover(id), Ok(Some(closed)));
        assert_eq!(store.handle(hand(7, 7), claim, &word("A", 1)), Ok(Handling::Unknown));
    });
}

#[test]
fn of_many_who_claim_at_once_one_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    // Each with a file of its own opening, as processes have.
    let stores: Vec<_> =
        (0..4).map(|_| sqlite::Store::open(&path, Options::default()).expect("the same file")).collect();
    append(&stores[0], handing_over(1));
    let start = Barrier::new(stores.len());
    let won: Vec<bool> = thread::scope(|scope| {
        let claim = |(number, store): (usize, &'_ sqlite::Store)| {
            start.wait();
            let handling = glassbox::core::handover::Handovers::handle(
                store,
                hand(1, 1),
                HandoverAction::Claim,
                &word(&format!("op-{number}"), 5000),
            );
            matches!(handling, Ok(Handling::Done(_)))
        };
        let threads: Vec<_> = stores.iter().enumerate().map(|pair| scope.spawn(move || claim(pair))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
}

#[test]
fn what_is_open_outlives_its_session_without_texts_and_what_is_closed_goes() {
    in_every_store(|store| {
        append(store, handing_over(1));
        append(store, handing_over(2));
        done(store.handle(hand(1, 1), HandoverAction::Claim, &word("A", 5000)).expect("writable"));
        done(store.handle(hand(1, 2), HandoverAction::Close, &word("A", 5000)).expect("writable"));
        erase(store, 1);
        assert_eq!(store.handover(hand(1, 2)), Ok(None), "what is closed goes with its session");
        let left = store.handover(hand(1, 1)).expect("readable").expect("what is not stays");
        assert_eq!((left.erased, left.principal, left.detail), (true, None, None));
        assert_eq!(left.claimed, Some(OperatorWord { comment: None, ..word("A", 5000) }));
        assert_eq!(left.tool.as_deref(), Some("pay"));
        done(store.handle(hand(1, 1), HandoverAction::Close, &word("B", 6000)).expect("it can still be closed"));
        let other = store.handover(hand(2, 1)).expect("readable").expect("another session's");
        assert_eq!((other.erased, other.principal.as_deref()), (false, Some("C-001")));
    });
}

#[test]
fn a_notice_waits_until_it_was_taken() {
    in_every_store(|store| {
        append(store, handing_over(1));
        append(store, write(session(1), 3, vec![facts::confirmation_requested("call_1", at(9000))]));
        let notice = |hook, seq, recorded| Notice { hook, session: session(1), seq, at: at(recorded), attempts: 0 };
        let (first, second) = (notice(Hook::Handovers, 1, 1001), notice(Hook::Handovers, 2, 1002));
        let third = notice(Hook::Confirmations, 3, 1003);
        let due = |hooks: &[Hook], now| store.due_notices(hooks, at(now), 10).expect("readable");
        assert_eq!(due(&Hook::ALL, 1000), []);
        assert_eq!(due(&Hook::ALL, 1003), [first, second, third]);
        assert_eq!(due(&[Hook::Confirmations], 1003), [third]);
        assert_eq!(store.due_notices(&Hook::ALL, at(1003), 2), Ok(vec![first, second]));
        assert_eq!(store.settle_notice(&second), Ok(()));
        assert_eq!(store.postpone_notice(&first, at(2000)), Ok(()));
        assert_eq!(due(&Hook::ALL, 1999), [third]);
        let again = Notice { attempts: 1, ..first };
        assert_eq!(due(&Hook::ALL, 2000), [third, again]);
        assert_eq!(store.forget_notices(Hook::Handovers, at(1001)), Ok(0));
        assert_eq!(store.forget_notices(Hook::Handovers, at(1002)), Ok(1));
        assert_eq!(due(&Hook::ALL, 9000), [third]);
        erase(store, 1);
        assert_eq!(due(&Hook::ALL, 9000), [], "nobody need decide any more");
    });
}

#[test]
fn a_write_that_is_refused_leaves_neither_record_nor_notice() {
    in_every_store(|store| {
        append(store, handing_over(1));
        let again = write(session(1), 2, vec![handed_over(None)]);
        store.append(&[again]).expect("the store works").remove(0).expect_err("the place is taken");
        assert_eq!(store.unclaimed().expect("readable").count, 2);
        assert_eq!(store.due_notices(&Hook::ALL, at(9000), 10).expect("readable").len(), 2);
    });
}
