//! The live feed: a session's facts as server-sent events, those that are kept first and then
//! each as it becomes durable; in between the text of models while it comes.
//!
//! A reader has one place, the fact that comes next for it. Whatever comes by the live lane or
//! from the store, facts before that place are left out and facts behind it are fetched, so there
//! is no gap and no double. It must never hold up a session: who leaves or is slow only loses
//! its lane.

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    sync::Arc,
};

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::{Interval, interval};

use super::{
    Api,
    auth::Caller,
    problem::Problem,
    sessions::{JournalEntry, read},
};
use crate::{
    core::{Entry, Fact, SessionId, SpanId, StreamId},
    signal::feed::{FeedEnd, FeedItem, FeedReader},
};

/// Facts that are read from the store at a time.
const PAGE: usize = 256;

/// The header with the place of the last fact that a reader had.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a stream of events is called in headers.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// The session's facts as server-sent events
///
/// Those that are kept, then each as it becomes durable, until the last fact of the session. An
/// event's `id` is the fact's `seq`, its name that of the fact, its data what
/// `/v1/sessions/{id}/journal` shows of it. Who comes back with `Last-Event-ID` gets what follows
/// that, each fact once. In between, without an id: `delta`, a piece of the text of a model call
/// while it comes, and `restart`, which makes the text of a call void; the fact that ends the call
/// replaces all text of it. Comments keep the connection alive. A reader that is too slow is cut
/// off and can come back.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events", tag = "sessions", operation_id = "read_session_events",
    params(
        ("id" = String, Path, description = "The session", example = "sess_00112233445566778899aabbccddeeff"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The seq of the last fact that the reader had"),
    ),
    responses(
        (status = 200, description = "Facts, until the session's last", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The session has ended and the reader had its last fact: nothing more will come"),
        (status = 404, description = "There is no such session"),
    )
)]
pub(super) async fn events(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    let next = last_event_id(&headers)?.map_or(0, |last| last.saturating_add(1));
    // Before the store is read: what becomes durable meanwhile waits in the lane.
    let reader = api.runtime.feed().subscribe_with_text(Some(session));
    let row = read(&api, move |store| store.session(session)).await?;
    let row = row.filter(|row| caller.may_see(&row.principal)).ok_or_else(|| Problem::no_session(&id))?;
    if row.status.is_final() && next >= row.facts {
        // With any other status a browser would ask again for ever.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    // A place that the session has not come to yet is none.
    Ok(answer(Reading::new(api, session, reader, next.min(row.facts))))
}

/// The stream of a session that was just begun.
pub(super) fn follow(api: Api, session: SessionId) -> Response {
    let reader = api.runtime.feed().subscribe_with_text(Some(session));
    answer(Reading::new(api, session, reader, 0))
}

/// Whether the caller asks for a stream.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let named = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM));
        named && !parts.any(|part| matches!(part.to_ascii_lowercase().as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(given) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else { return Ok(None) };
    let place = given.to_str().ok().and_then(|text| text.parse().ok());
    let detail = "last-event-id must be the id of an event of this stream, a whole number";
    place.map(Some).ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, detail))
}

fn answer(reading: Reading) -> Response {
    let events = stream::unfold(reading, |mut reading| async move {
        let event = reading.next().await?;
        Some((Ok::<_, Infallible>(event), reading))
    });
    let mut response = Sse::new(events).into_response();
    // Proxies that gather answers would keep events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// One reader of one session.
struct Reading {
    api: Api,
    session: SessionId,
    lane: FeedReader,
    /// The place of the fact that comes next.
    next: u64,
    /// Read from the store, still to be told.
    kept: VecDeque<Entry>,
    /// Whether the store may hold more than was read.
    behind: bool,
    /// Calls whose end came from the store: text of theirs that still waits in the lane is old.
    ended: HashSet<SpanId>,
    heartbeat: Interval,
    /// What is said last, once everything that is kept has been told.
    last_words: Option<&'static str>,
    over: bool,
}

impl Reading {
    fn new(api: Api, session: SessionId, lane: FeedReader, next: u64) -> Self {
        let mut heartbeat = interval(api.options.heartbeat);
        heartbeat.reset();
        Self {
            api,
            session,
            lane,
            next,
            kept: VecDeque::new(),
            behind: true,
            ended: HashSet::new(),
            heartbeat,
            last_words: None,
            over: false,
        }
    }

    /// What comes next; nothing at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.over {
                return None;
            }
            if let Some(entry) = self.kept.pop_front() {
                if let Fact::ModelCallFinished { op, .. } = &entry.fact {
                    self.ended.insert(*op);
                }
                return Some(self.tell(entry));
            }
            if self.behind {
                self.catch_up().await;
            } else if let Some(words) = self.last_words {
                self.over = true;
                return Some(Event::default().comment(words));
            } else if let Some(event) = self.hear().await {
                return Some(event);
            }
        }
    }

    /// Waits for what is new: a fact, a text, the time for a sign of life, the stop.
    async fn hear(&mut self) -> Option<Event> {
        tokio::select! {
            biased;
            item = self.lane.next() => match item {
                Ok(FeedItem::Entry(entry)) => self.take(&entry),
                Ok(FeedItem::Delta(delta)) if !self.ended.contains(&delta.call) => {
                    let data = json!({"call": delta.call, "at": delta.at, "text": delta.text});
                    Some(text_event("delta", &data))
                }
                Ok(FeedItem::Restart { call, .. }) if !self.ended.contains(&call) => {
                    Some(text_event("restart", &json!({"call": call})))
                }
                Ok(FeedItem::Delta(_) | FeedItem::Restart { .. }) => None,
                Err(FeedEnd::Lagged) => {
                    self.last_words = Some("too slow: come back with the last id");
                    None
                }
                Err(FeedEnd::Closed) => self.stop(),
            },
            () = self.api.options.closing.cancelled() => self.stop(),
            _ = self.heartbeat.tick() => {
                // A session that another process drives is heard of by the store alone.
                self.behind = true;
                Some(Event::default().comment("alive"))
            }
        }
    }

    /// A fact by the lane: told, or left out where it was, or a sign that the store has more.
    fn take(&mut self, entry: &Arc<Entry>) -> Option<Event> {
        if entry.seq == self.next {
            return Some(self.tell(Entry::clone(entry)));
        }
        if entry.seq > self.next {
            self.behind = true;
            return None;
        }
        if let Fact::ModelCallFinished { op, .. } = &entry.fact {
            self.ended.remove(op);
        }
        None
    }

    fn tell(&mut self, entry: Entry) -> Event {
        self.next = entry.seq + 1;
        self.over = matches!(entry.fact, Fact::SessionFinished(_));
        let (id, name) = (entry.seq.to_string(), entry.fact.name());
        let data = json!(JournalEntry::from(entry)).to_string();
        Event::default().id(id).event(name).data(data)
    }

    /// Reads on in the store. Ends the stream where nothing more can come.
    async fn catch_up(&mut self) {
        let (session, next) = (self.session, self.next);
        let found = read(&self.api, move |store| {
            let row = store.session(session)?;
            Ok((row, store.page(StreamId::Session(session), next, PAGE)?))
        });
        let Ok((row, page)) = found.await else {
            (self.behind, self.last_words) = (false, Some("the journal cannot be read: come back with the last id"));
            return;
        };
        self.behind = page.len() == PAGE;
        self.over = page.is_empty() && row.is_none_or(|row| row.status.is_final());
        self.kept = page.into();
    }

    /// What became durable is told, then it is over.
    fn stop(&mut self) -> Option<Event> {
        (self.behind, self.last_words) = (true, Some("stopping: come back with the last id"));
        None
    }
}

/// An event that is no fact and has no place.
fn text_event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().expect("a header value"))])
    }

    #[test]
    fn a_stream_is_sent_to_whoever_names_it() {
        for accept in [
            "text/event-stream",
            "Text/Event-Stream;q=0.5",
            "application/json, text/event-stream",
            "text/event-stream; charset=utf-8",
        ] {
            assert!(is_wanted(&headers(header::ACCEPT, accept)), "{accept}");
        }
        for accept in ["*/*", "text/*", "application/json", "text/event-stream;q=0", "text/event-streams", ""] {
            assert!(!is_wanted(&headers(header::ACCEPT, accept)), "{accept}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }

    #[test]
    fn a_place_is_a_whole_number() {
        let place = |text| last_event_id(&headers(LAST_EVENT_ID, text)).ok();
        assert_eq!(place("7"), Some(Some(7)));
        assert_eq!(place("18446744073709551615"), Some(Some(u64::MAX)));
        assert_eq!(place(""), Some(None), "as a browser that had none");
        for wrong in ["-1", "7.5", "seven", "18446744073709551616"] {
            assert_eq!(place(wrong), None, "{wrong}");
        }
    }
}
