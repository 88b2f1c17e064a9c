//! Tests of the feed: who gets what, in which order, and what becomes of slow readers.

use super::*;
use crate::core::{
    Fact, StreamId, Timestamp,
    fact::{ModelCallEnd, ModelOutcome},
    message::Usage,
};

const CALL: SpanId = SpanId::from_bytes([7; 8]);
const OTHER: SpanId = SpanId::from_bytes([8; 8]);

const fn session(number: u8) -> SessionId {
    SessionId::from_bytes([number; 16])
}

fn entry(number: u8, seq: u64, fact: Fact) -> Arc<Entry> {
    Arc::new(Entry { stream: StreamId::Session(session(number)), seq, at: Timestamp::from_nanos(seq), fact })
}

fn fact(number: u8, seq: u64) -> Arc<Entry> {
    entry(number, seq, Fact::SessionResumed { process: "p".into() })
}

fn call_end(number: u8, seq: u64, op: SpanId) -> Arc<Entry> {
    let usage = Usage::default();
    let end = ModelCallEnd { outcome: ModelOutcome::Cancelled, reply: None, usage, error: None, attempts: 1 };
    entry(number, seq, Fact::ModelCallFinished { op, end: Box::new(end) })
}

fn feed() -> (Feed, Box<dyn Sink>, IntCounter) {
    let dropped = IntCounter::new("dropped_total", "Cut off.").expect("a name");
    let feed = Feed::new(dropped.clone());
    let sink = feed.sink();
    (feed, sink, dropped)
}

/// An item in a few letters: a fact's place, a text with its place, a mark.
fn short(item: FeedItem) -> String {
    match item {
        FeedItem::Entry(entry) => format!("#{}", entry.seq),
        FeedItem::Delta(delta) => format!("{}:{}", delta.at, delta.text),
        FeedItem::Restart { .. } => "restart".into(),
    }
}

/// All that waits, and the end.
async fn rest(reader: &mut FeedReader) -> Vec<String> {
    let mut items = Vec::new();
    loop {
        match reader.next().await {
            Ok(item) => items.push(short(item)),
            Err(end) => {
                items.push(format!("{end:?}"));
                return items;
            }
        }
    }
}

#[tokio::test]
async fn a_reader_gets_its_session_in_order() {
    let (feed, mut sink, _) = feed();
    let mut one = feed.subscribe(Some(session(1)));
    let mut all = feed.subscribe(None);
    sink.publish(&[fact(1, 0), fact(2, 0), fact(1, 1)]);
    drop(sink);
    assert_eq!(rest(&mut one).await, ["#0", "#1", "Closed"]);
    for number in [1, 2, 1] {
        let entry = all.next_fact().await.expect("published");
        assert_eq!(entry.stream, StreamId::Session(session(number)));
    }
    assert_eq!(rest(&mut feed.subscribe(None)).await, ["Closed"]);
}

#[tokio::test]
async fn a_slow_reader_is_cut_off_alone() {
    let (feed, mut sink, dropped) = feed();
    let mut slow = feed.subscribe(None);
    let mut quick = feed.subscribe(None);
    for seq in 0..LANE as u64 + 3 {
        sink.publish(&[fact(1, seq)]);
        assert_eq!(quick.next_fact().await.map(|entry| entry.seq), Ok(seq));
    }
    for seq in 0..LANE as u64 {
        assert_eq!(slow.next_fact().await.map(|entry| entry.seq), Ok(seq));
    }
    assert_eq!(slow.next_fact().await.map(|entry| entry.seq), Err(FeedEnd::Lagged));
    assert_eq!((dropped.get(), feed.reader_count()), (1, 1));
}

#[test]
fn a_reader_that_left_is_forgotten_and_not_counted() {
    let (feed, mut sink, dropped) = feed();
    let stays = feed.subscribe_with_text(Some(session(9)));
    drop(feed.subscribe_with_text(Some(session(9))));
    drop(feed.subscribe(None));
    assert_eq!((feed.reader_count(), feed.shared.text_readers.load(Ordering::Relaxed)), (1, 1));
    drop(stays);
    sink.publish(&[fact(9, 0)]);
    assert_eq!((feed.reader_count(), feed.shared.text_readers.load(Ordering::Relaxed)), (0, 0));
    assert!(feed.read().of_session.is_empty());
    assert_eq!(dropped.get(), 0);
}

#[tokio::test]
async fn text_reaches_those_who_asked_for_it_between_the_facts() {
    let (feed, mut sink, _) = feed();
    let mut text = feed.subscribe_with_text(Some(session(1)));
    let mut all = feed.subscribe_with_text(None);
    let mut facts = feed.subscribe(Some(session(1)));
    sink.publish(&[fact(1, 0)]);
    feed.delta(session(1), CALL, 0, "Так");
    assert_eq!(short(text.next().await.expect("a fact")), "#0");
    assert_eq!(short(text.next().await.expect("a text")), "0:Так");
    feed.delta(session(1), CALL, 6, "си ");
    feed.delta(session(1), CALL, 11, "в");
    feed.delta(session(2), CALL, 0, "other");
    feed.restart(session(1), CALL);
    feed.delta(session(1), CALL, 0, "Taxi");
    sink.publish(&[call_end(1, 1, CALL)]);
    drop(sink);
    // What was not read yet when the restart came need not be read any more.
    assert_eq!(rest(&mut text).await, ["restart", "0:Taxi", "#1", "Closed"]);
    assert_eq!(rest(&mut all).await, ["#0", "0:other", "restart", "0:Taxi", "#1", "Closed"]);
    assert_eq!(rest(&mut facts).await, ["#0", "#1", "Closed"]);
}

#[tokio::test]
async fn pieces_that_wait_together_become_one_and_two_texts_do_not_mix() {
    let (feed, sink, _) = feed();
    let mut reader = feed.subscribe_with_text(None);
    for (number, call, at, text) in [
        (1, CALL, 0, "a"),
        (1, CALL, 1, "b"),
        (1, OTHER, 0, "c"),
        (1, CALL, 2, "d"),
        (2, CALL, 0, "e"),
        (2, CALL, 1, "f"),
    ] {
        feed.delta(session(number), call, at, text);
    }
    drop(sink);
    assert_eq!(rest(&mut reader).await, ["0:ab", "0:c", "2:d", "0:ef", "Closed"]);
}

#[tokio::test]
async fn who_is_too_slow_for_a_text_loses_that_text_and_no_fact() {
    let (feed, mut sink, dropped) = feed();
    let mut slow = feed.subscribe_with_text(None);
    let half = "x".repeat(TEXT / 2);
    sink.publish(&[fact(1, 0)]);
    feed.delta(session(1), CALL, 0, &half);
    feed.delta(session(2), CALL, 0, "short");
    feed.delta(session(1), CALL, half.len() as u64, &half);
    feed.delta(session(1), CALL, TEXT as u64, "late");
    sink.publish(&[call_end(1, 1, CALL)]);
    feed.delta(session(1), OTHER, 0, "next call");
    drop(sink);
    assert_eq!(rest(&mut slow).await, ["#0", "0:short", "restart", "#1", "0:next call", "Closed"]);
    assert_eq!(dropped.get(), 1);
}

#[tokio::test]
async fn a_text_that_was_given_up_comes_again_after_its_restart() {
    let (feed, sink, dropped) = feed();
    let mut slow = feed.subscribe_with_text(Some(session(1)));
    feed.delta(session(1), CALL, 0, &"x".repeat(TEXT));
    feed.delta(session(1), CALL, TEXT as u64, "lost");
    feed.restart(session(1), CALL);
    feed.delta(session(1), CALL, 0, "second try");
    drop(sink);
    assert_eq!(rest(&mut slow).await, ["restart", "0:second try", "Closed"]);
    assert_eq!(dropped.get(), 1);
}

#[tokio::test]
async fn thousands_of_texts_that_nobody_reads_stay_within_the_bound() {
    let (feed, _sink, dropped) = feed();
    let reader = feed.subscribe_with_text(None);
    for number in 0..5000_u32 {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        feed.delta(SessionId::from_bytes(bytes), CALL, 0, "x");
    }
    // Each takes one byte and its share; the others became marks that hold no text.
    let fit = TEXT as u64 / 65;
    assert_eq!(dropped.get(), 5000 - fit);
    drop(reader);
}
