//! What becomes durable when: a session that somebody waits for at once, the others soon after.

use std::{sync::Arc, time::Duration};

use glassbox::{
    core::{Fact, SessionId, Store as _, StreamId, Timestamp, id::ProcessId},
    journal::{Journal, Mode, OnFault, SessionLog, Writer},
    runtime::SystemClock,
    store::memory,
};

use crate::{facts, world};

/// How many facts of a session are durable.
fn durable(store: &memory::Store, session: SessionId) -> usize {
    store.load(StreamId::Session(session)).expect("a readable memory").len()
}

fn begin(journal: &Journal, number: u8) -> SessionLog {
    let id = SessionId::from_bytes([number; 16]);
    let Fact::SessionStarted(mut started) = facts::session_started(id, "C-001", "bank") else { panic!("a first fact") };
    // A conversation runs one session at a time.
    started.conversation_id = None;
    let until = journal.clock().now().plus(Duration::from_secs(3600));
    SessionLog::begin(journal, id, *started, Vec::new(), until, None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_nobody_waits_for_is_not_forgotten_beside_one_that_is_flushed_all_the_time() {
    let (store, clock) = (Arc::new(memory::Store::new()), Arc::new(SystemClock));
    let watch = Arc::new(world::Deaf);
    let writer = Writer::start(Mode::Thread, OnFault::Fail, store.clone(), Vec::new(), watch, clock.clone());
    let journal = Journal::new(writer.expect("a thread"), clock, ProcessId::from_bytes([1; 16]));
    let (quiet, loud) = (begin(&journal, 1), begin(&journal, 2));
    let beyond: Timestamp = journal.clock().now().plus(Duration::from_secs(20));
    let mut recorded = 1;
    while durable(&store, quiet.id()) == 0 {
        loud.record(Fact::CancelRequested { by: "caller".into() });
        recorded += 1;
        loud.flush().await.expect("the memory has room");
        assert_eq!(durable(&store, loud.id()), recorded, "what is flushed is durable");
        assert!(journal.clock().now() < beyond, "the other session was forgotten");
    }
    assert_eq!(durable(&store, quiet.id()), 1);
    quiet.record(Fact::CancelRequested { by: "caller".into() });
    journal.writer().stop().await.expect("the memory has room");
    assert_eq!(durable(&store, quiet.id()), 2, "the end writes everything");
}
