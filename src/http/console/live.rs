//! Tells an open page of a session that there is something new, so that it loads itself again.
//!
//! The events carry a number and no text: what a page shows is decided where it is made. A reader
//! that is too slow, or a stop of the service, ends the stream; the browser comes back by itself.

use std::convert::Infallible;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use futures_util::stream;
use tokio::time::{Interval, interval};

use crate::{
    core::{Fact, SessionId},
    http::{Api, auth::Caller, problem::Problem, sessions::read},
    signal::feed::{FeedItem, FeedReader},
};

pub(super) async fn follow(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session: SessionId = id.parse().map_err(|_| Problem::no_session(&id))?;
    // Before the store is read: what becomes durable meanwhile waits in the lane.
    let lane = api.runtime.feed().subscribe(Some(session));
    let row = read(&api, move |store| store.session(session)).await?;
    let row = row.filter(|row| caller.may_see(&row.principal)).ok_or_else(|| Problem::no_session(&id))?;
    if row.status.is_final() {
        // With any other status a browser would ask again for ever.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut heartbeat = interval(api.options.heartbeat);
    heartbeat.reset();
    let watch = Watch { api, session, lane, heartbeat, facts: row.facts, over: false };
    let events = stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    let mut response = Sse::new(events).into_response();
    // Proxies that gather answers would keep events back.
    response.headers_mut().insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    Ok(response)
}

/// One open page.
struct Watch {
    api: Api,
    session: SessionId,
    lane: FeedReader,
    heartbeat: Interval,
    /// Facts that the page has been told of.
    facts: u64,
    over: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        tokio::select! {
            item = self.lane.next() => match item.ok()? {
                FeedItem::Entry(entry) => {
                    self.over = matches!(entry.fact, Fact::SessionFinished(_));
                    Some(self.tell(entry.seq + 1))
                }
                FeedItem::Delta(_) | FeedItem::Restart { .. } => Some(Event::default().comment("text")),
            },
            () = self.api.options.closing.cancelled() => None,
            _ = self.heartbeat.tick() => Some(self.look().await),
        }
    }

    /// A session that another process drives is heard of by the store alone.
    async fn look(&mut self) -> Event {
        let session = self.session;
        match read(&self.api, move |store| store.session(session)).await {
            Ok(Some(row)) if row.facts != self.facts => {
                self.over = row.status.is_final();
                self.tell(row.facts)
            }
            Ok(_) | Err(_) => Event::default().comment("alive"),
        }
    }

    fn tell(&mut self, facts: u64) -> Event {
        self.facts = facts;
        let name = if self.over { "ended" } else { "changed" };
        Event::default().event(name).data(facts.to_string())
    }
}
