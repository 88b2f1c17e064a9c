//! Sessions whose time is over: which ones go, when, and what is recorded of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use glassbox::{
    Config, Runtime, Setup, Task,
    core::{
        Clock, Fact, SessionId, SessionStatus, Store, Timestamp,
        fact::EraseCause,
        id::ProcessId,
        lease::{LeaseGrant, Leases as _},
        port::SessionFilter,
    },
    journal::Mode,
    runtime::{Eraser, Held, SystemClock},
    store::memory,
};

use crate::{
    facts,
    store_conformance::{append, at, begin, process, session, suspended, write},
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The system's clock, moved forward by days.
#[derive(Default)]
struct MovedClock(AtomicU64);

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(DAY * u32::try_from(self.0.load(Ordering::SeqCst)).expect("some days"))
    }
}

fn start(folder: &std::path::Path, kept: Option<Duration>) -> (Runtime, Arc<MovedClock>) {
    let clock = Arc::new(MovedClock::default());
    let mut config = Config::embedded();
    config.retention.sessions = kept;
    let setup = Setup { clock: clock.clone(), ..Setup::run(folder) };
    (Runtime::start(&config, setup).expect("a runtime"), clock)
}

async fn answer(runtime: &Runtime) -> SessionId {
    let principal = Config::embedded().auth.default_principal;
    let mut handle = runtime.open(Task::new("Сколько я потратил на такси?", principal)).await.expect("begun");
    handle.ended().await.expect("durable");
    handle.id()
}

fn listed(runtime: &Runtime) -> Vec<SessionId> {
    runtime.store().sessions(&SessionFilter::default()).expect("a list").iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn what_ended_long_enough_ago_is_erased_recorded_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (runtime, clock) = start(folder.path(), Some(90 * DAY));
    let old = answer(&runtime).await;
    clock.0.store(10, Ordering::SeqCst);
    let young = answer(&runtime).await;
    clock.0.store(89, Ordering::SeqCst);
    assert_eq!(runtime.erase_outdated().await, Ok(0));
    assert_eq!(listed(&runtime), [young, old]);

    clock.0.store(91, Ordering::SeqCst);
    assert_eq!(runtime.erase_outdated().await, Ok(1));
    assert_eq!(listed(&runtime), [young]);
    assert_eq!(runtime.erase_outdated().await, Ok(0));
    let text = runtime.metrics().render();
    assert!(text.contains("glassbox_sessions_erased_total{cause=\"retention\"} 1\n"), "{text}");
    runtime.stop(Duration::from_secs(5)).await.expect("closed");

    let file = rusqlite::Connection::open(folder.path().join("glassbox.db")).expect("the journal");
    let facts: Vec<(String, String)> = file
        .prepare("SELECT stream, body FROM fact WHERE name = 'sessions_erased'")
        .and_then(|mut found| found.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .expect("readable");
    let [(stream, body)] = facts.as_slice() else { panic!("{facts:?}") };
    assert!(stream.parse::<ProcessId>().is_ok(), "it stands in the system journal: {stream}");
    let fact: Fact = serde_json::from_str(body).expect("a fact");
    assert_eq!(fact, Fact::SessionsErased { count: 1, cause: EraseCause::Retention });
}

#[tokio::test]
async fn without_a_time_sessions_are_kept_for_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    let (runtime, clock) = start(folder.path(), None);
    let id = answer(&runtime).await;
    clock.0.store(100_000, Ordering::SeqCst);
    assert_eq!(runtime.erase_outdated().await, Ok(0));
    assert_eq!(listed(&runtime), [id]);
    runtime.stop(Duration::from_secs(5)).await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_round_is_bounded_and_the_next_one_goes_on() {
    let store = Arc::new(memory::Store::new());
    for number in 0..1100_u16 {
        let mut bytes = [7; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        let id = SessionId::from_bytes(bytes);
        let end = facts::session_finished(SessionStatus::Done, None);
        append(&*store, write(id, 0, vec![facts::session_started(id, "C-001", "bank"), end]));
    }
    append(&*store, begin(session(1)));
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config::embedded();
    config.retention.sessions = Some(DAY);
    let setup = Setup { mode: Mode::Inline, ..Setup::run(folder.path()) }.with_store(store.clone());
    let runtime = Runtime::start(&config, setup).expect("a runtime");
    assert_eq!(runtime.erase_outdated().await, Ok(1000));
    assert_eq!(runtime.erase_outdated().await, Ok(100));
    assert_eq!(runtime.erase_outdated().await, Ok(0));
    assert_eq!(listed(&runtime), [session(1)], "what has not ended stays");
    let text = runtime.metrics().render();
    assert!(text.contains("glassbox_sessions_erased_total{cause=\"retention\"} 1100\n"), "{text}");
    runtime.stop(Duration::from_secs(5)).await.expect("closed");
}

#[tokio::test]
async fn a_service_erases_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let (runtime, clock) = start(folder.path(), Some(90 * DAY));
    answer(&runtime).await;
    clock.0.store(91, Ordering::SeqCst);
    runtime.keep_sessions();
    let gone = async {
        while !listed(&runtime).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the first round comes at once");
    runtime.stop(Duration::from_secs(5)).await.expect("closed");
}

#[test]
fn what_somebody_holds_stays_and_leaves_no_lease_behind_where_there_is_nothing() {
    let store = memory::Store::new();
    append(&store, begin(session(1)));
    append(&store, write(session(1), 1, vec![facts::session_finished(SessionStatus::Done, None)]));
    append(&store, begin(session(2)));
    append(&store, write(session(2), 1, vec![suspended()]));
    append(&store, begin(session(3)));
    store.acquire(session(3), process(7), at(100), at(900)).expect("writable");
    let eraser = Eraser { owner: process(1), now: at(500), lease: Duration::from_secs(15) };
    let all = [1, 2, 3, 4].map(session);
    let erasure = eraser.erase(&store, &all).expect("writable");
    assert_eq!(erasure.erased, 2);
    assert_eq!(erasure.held, [Held { session: session(3), owner: process(7), until: at(900) }]);
    assert!(store.session(session(3)).expect("readable").is_some());
    let free = store.acquire(session(4), process(2), at(500), at(600)).expect("writable");
    assert!(matches!(free, LeaseGrant::Granted(epoch) if epoch.number() == 1), "{free:?}");
}
