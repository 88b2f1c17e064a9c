//! What a follow-up takes over, read from every store, and what it needs of that later.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use glassbox::{
    core::{
        Arguments, EndReason, Fact, Limits, Message, SessionStatus, StreamId, ToolOutcome,
        fact::{CarriedPair, Follows, Observation, SessionEnd, SpanLink, ToolCallBegin, ToolCallEnd},
        id::ProcessId,
        port::SessionFilter,
    },
    machine::follow::Pair,
    session::{Followed, beginning, follow, own_prompt},
    store::{
        memory,
        sqlite::{self, Options},
    },
};
use sha2::{Digest as _, Sha256};

use crate::{
    facts,
    store_conformance::{Kept, append, at, session, write},
    world,
};

fn in_every_store(check: impl Fn(&dyn Kept)) {
    check(&memory::Store::new());
    let folder = tempfile::tempdir().unwrap();
    check(&sqlite::Store::open(&folder.path().join("journal.db"), Options::default()).unwrap());
}

/// A session of the conversation with this task, that ends so after these facts.
fn kept(store: &dyn Kept, number: u8, task: &str, between: Vec<Fact>, status: SessionStatus, text: &str) {
    let id = session(number);
    let Fact::SessionStarted(mut started) = facts::session_started(id, "C-001", "bank") else { panic!("a start") };
    (started.task, started.follows) = (task.into(), None);
    let done = status == SessionStatus::Done;
    let reason = (status == SessionStatus::Error).then_some(EndReason::ModelUnavailable);
    let Fact::SessionFinished(end) = facts::session_finished(status, reason) else { panic!("an end") };
    let text = Some(text).filter(|text| !text.is_empty());
    let (answer, partial) = (text.filter(|_| done).map(Into::into), text.filter(|_| !done).map(Into::into));
    let end = SessionEnd { answer, partial, ..*end };
    let mut facts = vec![Fact::SessionStarted(started)];
    facts.extend(between);
    facts.push(Fact::SessionFinished(Box::new(end)));
    let begins = 1000 + u64::from(number) * 100;
    let mut write = write(id, 0, facts);
    for entry in &mut write.entries {
        std::sync::Arc::make_mut(entry).at = at(begins + entry.seq);
    }
    append(store, write);
}

/// What follows those sessions now.
fn follows(store: &dyn Kept, limits: &Limits, window: u64) -> Followed {
    let filter = SessionFilter { conversation: Some("conversation-7".into()), ..SessionFilter::default() };
    let rows = store.sessions(&filter).unwrap();
    follow(store, &rows, limits, window).unwrap()
}

fn pair(task: &str, answer: &str) -> Pair {
    [Message::User { content: task.into() }, Message::Assistant { content: answer.into(), calls: Vec::new() }]
}

/// A call of the tool `pay` of which nobody knows whether it happened.
fn doubt() -> Vec<Fact> {
    let op = glassbox::core::SpanId::from_bytes([5; 8]);
    let call = ToolCallBegin {
        step: 1,
        call_id: "call_1_1".into(),
        tool: "pay".into(),
        known: true,
        arguments: Arguments::empty(),
    };
    let end = ToolCallEnd {
        call_id: "call_1_1".into(),
        outcome: ToolOutcome::UnknownOutcome,
        observation: Observation { content: "unknown".into(), is_error: true, tokens: 2, whole: None },
        arguments_valid: Some(true),
        error: None,
        attempts: 1,
        cached: false,
    };
    vec![Fact::ToolCallStarted { op, call: Box::new(call) }, Fact::ToolCallFinished { op, end: Box::new(end) }]
}

#[test]
fn tasks_and_answers_come_in_their_order_with_the_root_and_the_doubts_of_the_last() {
    in_every_store(|store| {
        assert!(follows(store, &Limits::default(), 8000).follows.is_none(), "the first follows nobody");
        kept(store, 1, "first", Vec::new(), SessionStatus::Done, "one");
        kept(store, 2, "second", Vec::new(), SessionStatus::Error, "");
        kept(store, 3, "third", doubt(), SessionStatus::Cancelled, "three so far");
        let followed = follows(store, &Limits::default(), 8000);
        let second = "[this session ended as error (model_unavailable): there is no answer]";
        let third = "three so far\n[this session ended as cancelled: what stands above is partial]";
        let expected = [pair("first", "one"), pair("second", second), pair("third", third)];
        assert_eq!(&followed.pairs[..], &expected[..]);
        let hash = |text: &str| glassbox::core::BlobHash::from_bytes(Sha256::digest(text).into());
        let carried = |number, task: &str, answer: &str, tokens| CarriedPair {
            session: session(number),
            task: hash(task),
            answer: hash(answer),
            tokens,
        };
        // A quarter of the bytes and four a message.
        let last = session(3);
        let root = SpanLink { trace_id: last.trace_id(), span_id: glassbox::core::SpanId::of_fact(last, 0) };
        let carried =
            vec![carried(1, "first", "one", 11), carried(2, "second", second, 28), carried(3, "third", third, 29)];
        let expected = Follows { session: last, root, carried, left_out: 0, doubtful: vec!["pay".into()] };
        assert_eq!(followed.follows.as_deref(), Some(&expected));
        assert_eq!(followed.blobs.len(), 6);
    });
}

#[test]
fn the_oldest_are_left_out_where_there_is_no_room_for_all() {
    in_every_store(|store| {
        kept(store, 1, "tiny", Vec::new(), SessionStatus::Done, "1");
        kept(store, 2, "much", Vec::new(), SessionStatus::Done, &"x".repeat(400));
        kept(store, 3, "last", Vec::new(), SessionStatus::Done, "3");
        // The last takes 10 tokens, the one before it 109, the first 10.
        let shown = |limits: &Limits, window| {
            let follows = follows(store, limits, window).follows.unwrap();
            let ids: Vec<_> = follows.carried.iter().map(|pair| pair.session).collect();
            (ids, follows.left_out, follows.session)
        };
        let last = session(3);
        assert_eq!(shown(&Limits::default(), 258), (vec![session(1), session(2), last], 0, last));
        assert_eq!(shown(&Limits::default(), 256), (vec![session(2), last], 1, last));
        assert_eq!(shown(&Limits::default(), 236), (vec![last], 2, last), "nothing older behind a gap");
        assert_eq!(shown(&Limits::default(), 18), (vec![], 3, last));
        let poor = Limits { token_budget: 4 * 119, ..Limits::default() };
        assert_eq!(shown(&poor, 8000), (vec![session(2), last], 1, last));
    });
}

#[tokio::test(start_paused = true)]
async fn a_follow_up_needs_no_journal_but_its_own() {
    for disk in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store: std::sync::Arc<dyn Kept> = if disk {
            std::sync::Arc::new(sqlite::Store::open(&folder.path().join("journal.db"), Options::default()).unwrap())
        } else {
            std::sync::Arc::new(memory::Store::new())
        };
        kept(&*store, 1, "first", Vec::new(), SessionStatus::Done, "one");
        let followed = follows(&*store, &Limits::default(), 8000);
        let started = begun(store.clone(), followed).await;
        let prompt = || own_prompt(&*store, &started).map(|prompt| prompt.carried.to_vec());
        assert_eq!(prompt().unwrap(), [pair("first", "one")]);

        let owner = ProcessId::from_bytes([6; 16]);
        store.acquire(session(1), owner, at(9000), at(10_000)).unwrap();
        assert_eq!(store.erase(owner, &[session(1)]), Ok(1));
        assert_eq!(prompt().unwrap(), [pair("first", "one")], "its texts are its own");
        let texts: Vec<_> = started.follows.iter().flat_map(|follows| &follows.carried).collect();
        let texts: Vec<_> = texts.into_iter().flat_map(|pair| [pair.task, pair.answer]).collect();
        assert!(texts.iter().all(|hash| store.blob(*hash).unwrap().is_some()));

        let own = world::session_id();
        let taken = store.acquire(own, owner, at(4_000_000_000_000_000_000), at(5_000_000_000_000_000_000)).unwrap();
        assert!(matches!(taken, glassbox::core::lease::LeaseGrant::Granted(_)), "{taken:?}");
        assert_eq!(store.erase(owner, &[own]), Ok(1));
        assert!(texts.iter().all(|hash| store.blob(*hash).unwrap().is_none()), "the last takes them along");
    }
}

/// A session that begins after others; gives what its journal then says.
async fn begun(store: std::sync::Arc<dyn Kept>, follows: Followed) -> glassbox::core::fact::SessionStarted {
    let script = "{name: mute, rules: [{text: nothing}]}";
    let language = glassbox::core::fact::Language::En;
    let agent = world::agent(script, world::model_info(), Limits::default(), language, Vec::new());
    let journal = world::journal(store.clone(), Vec::new());
    let log = world::begin_following(&agent, &journal, "second", std::time::Duration::ZERO, follows);
    log.flush().await.unwrap();
    let entries = store.load(StreamId::Session(world::session_id())).unwrap();
    beginning(&entries).unwrap().clone()
}
