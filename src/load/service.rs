//! The service as its callers know it: HTTP and nothing else.
//!
//! A session is asked for as a stream of its facts. One request then tells both times that count:
//! the head of the answer comes when the session is kept (as 202 would), the last event when it
//! has ended. Waiting for the answer (`?wait`) would hide the first time, and asking a list again
//! and again would round the second and be a load of its own. A stream that breaks is taken up
//! again by `Last-Event-ID`, so a restart of the service costs time and no session.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use reqwest::{
    RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
};
use serde_json::{Value, json};
use sse_stream::{Sse, SseByteStream};

use super::{
    Error,
    target::{End, Seen, Target},
};
use crate::{
    core::{Sensitive, SessionId, SessionStatus, SpanId},
    web::{
        self,
        loopback::{is_in_the_clear, is_near},
    },
};

/// What a request for something small may take.
const ASKING: Duration = Duration::from_secs(10);
/// Between two tries to take a stream up again.
const PAUSE: Duration = Duration::from_millis(250);
/// Facts that open an operation, and with it a span.
const OPENING: [&str; 4] = ["session_started", "model_call_started", "tool_call_started", "confirmation_requested"];

/// Where the service is, and who asks.
#[derive(Clone, Debug)]
pub struct Access {
    /// Such as `http://127.0.0.1:8080`.
    pub url: String,
    /// The credential of a caller.
    pub key: Option<Sensitive<String>>,
    /// The agent that is asked; the only one, if none is named.
    pub agent: Option<String>,
    /// What a caller waits for the end of a session.
    pub patience: Duration,
    /// Sessions at once, and so connections.
    pub concurrency: usize,
}

/// The service.
#[derive(Clone, Debug)]
pub struct Service {
    client: reqwest::Client,
    access: Access,
}

/// How far the stream of a session was read.
enum Read {
    /// To its end, or to where it waits for a person.
    Over(End),
    /// To where it broke off.
    Broken,
}

impl Service {
    /// The way to a service; nothing is asked yet.
    ///
    /// # Errors
    /// An address that is none, a key that would go over the network in the clear, and where no
    /// client can be built.
    pub fn new(access: Access) -> Result<Self, Error> {
        let address = Url::parse(&access.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let address = address.ok_or_else(|| Error::Address { url: access.url.clone() })?;
        let host = address.host_str().unwrap_or_default();
        if access.key.is_some() && is_in_the_clear(address.scheme(), host) {
            return Err(Error::InTheClear { url: access.url });
        }
        let builder = web::builder()
            .user_agent(concat!("glassbox-load/", env!("CARGO_PKG_VERSION")))
            .http1_only()
            .pool_max_idle_per_host(access.concurrency)
            .connect_timeout(ASKING)
            .tcp_nodelay(true);
        // Certificates may not even be there.
        let builder = if is_near(address.scheme(), host) { builder.no_proxy().tls_certs_only([]) } else { builder };
        let client = builder.build().map_err(|error| Error::Client(describe(&error)))?;
        Ok(Self { client, access: Access { url: access.url.trim_end_matches('/').to_owned(), ..access } })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.access.url
    }

    /// Whether it is there and takes the key.
    ///
    /// # Errors
    /// One that says what would be right.
    pub async fn check(&self) -> Result<(), Error> {
        let url = || self.access.url.clone();
        let answer = self.get("/v1/agents").timeout(ASKING).send().await;
        let answer = answer.map_err(|error| Error::Unreachable { url: url(), why: describe(&error) })?;
        match (answer.status(), &self.access.key) {
            (StatusCode::UNAUTHORIZED, None) => return Err(Error::KeyMissing { url: url() }),
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(_)) => {
                return Err(Error::KeyRefused { url: url() });
            }
            (status, _) if status.is_success() => {}
            (status, _) => return Err(Error::Stranger { url: url(), status: status.as_u16() }),
        }
        let names = json_of(answer).await.ok_or_else(|| Error::Stranger { url: url(), status: 200 })?;
        let names = names["agents"].as_array().into_iter().flatten().filter_map(|agent| agent["name"].as_str());
        let names: Vec<&str> = names.collect();
        match &self.access.agent {
            Some(agent) if !names.contains(&agent.as_str()) => {
                Err(Error::Agent { agent: agent.clone(), declared: names.join(", ") })
            }
            None if names.len() > 1 => Err(Error::Agent { agent: String::new(), declared: names.join(", ") }),
            _ => Ok(()),
        }
    }

    /// What `/metrics` says.
    pub(super) async fn metrics(&self) -> Result<String, String> {
        let answer = self.get("/metrics").timeout(ASKING).send().await.map_err(|error| describe(&error))?;
        match answer.status() {
            StatusCode::OK => answer.text().await.map_err(|error| describe(&error)),
            status => Err(format!("/metrics answers with status {}", status.as_u16())),
        }
    }

    /// A page of the caller's sessions, newest first, and how they stand.
    pub(super) async fn page(&self, before: Option<SessionId>) -> Option<Vec<(SessionId, SessionStatus)>> {
        let before = before.map(|id| format!("&before={id}")).unwrap_or_default();
        let page = self.json(&format!("/v1/sessions?limit=1000{before}")).await?;
        Some(page["sessions"].as_array()?.iter().filter_map(standing).collect())
    }

    /// How a session stands; nothing where the service does not know it, or does not answer.
    pub(super) async fn status(&self, id: SessionId) -> Option<SessionStatus> {
        standing(&self.json(&format!("/v1/sessions/{id}")).await?).map(|(_, status)| status)
    }

    async fn json(&self, path: &str) -> Option<Value> {
        let answer = self.get(path).timeout(ASKING).send().await.ok()?;
        json_of(answer.error_for_status().ok()?).await
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.dressed(self.client.get(format!("{}{path}", self.access.url)))
    }

    fn dressed(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.access.key {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        }
    }

    /// Begins a session and reads its stream; what was seen is kept as it is seen.
    async fn begin(&self, task: &str, seen: &mut Seen) -> End {
        let mut body = json!({ "task": task });
        if let Some(agent) = &self.access.agent {
            body["agent"] = json!(agent);
        }
        let post = self.client.post(format!("{}/v1/sessions", self.access.url));
        let post = self.dressed(post).header(ACCEPT, "text/event-stream").header(CONTENT_TYPE, "application/json");
        let answer = match post.body(body.to_string()).send().await {
            Ok(answer) if answer.status().is_success() => answer,
            Ok(answer) => return End::Refused(answer.status().as_u16()),
            Err(error) => return End::Failed(failure(&error)),
        };
        let place = answer.headers().get(LOCATION).and_then(|place| place.to_str().ok());
        let Some(id) = place.and_then(|place| place.rsplit('/').next()).and_then(|id| id.parse().ok()) else {
            return End::Failed("no session in the answer");
        };
        (seen.accepted, seen.id) = (Some(tokio::time::Instant::now()), Some(id));
        self.follow(id, answer, seen).await
    }

    /// Reads to the end, over as many streams as it takes.
    async fn follow(&self, id: SessionId, answer: Response, seen: &mut Seen) -> End {
        let (mut answer, mut last) = (Some(answer), None);
        loop {
            if let Some(answer) = answer.take()
                && let Read::Over(end) = read(id, answer, seen, &mut last).await
            {
                return end;
            }
            tokio::time::sleep(PAUSE).await;
            let again = self.get(&format!("/v1/sessions/{id}/events")).header(ACCEPT, "text/event-stream");
            let again = match last {
                Some(seq) => again.header("last-event-id", seq),
                None => again,
            };
            answer = again.send().await.ok().filter(|answer| answer.status() == StatusCode::OK);
        }
    }
}

#[async_trait]
impl Target for Service {
    async fn session(&self, task: &str) -> Seen {
        let mut seen = Seen::begun();
        let end = tokio::time::timeout(self.access.patience, self.begin(task, &mut seen)).await;
        seen.ended(end.unwrap_or(End::TimedOut))
    }
}

async fn json_of(answer: Response) -> Option<Value> {
    serde_json::from_slice(&answer.bytes().await.ok()?).ok()
}

async fn read(id: SessionId, answer: Response, seen: &mut Seen, last: &mut Option<u64>) -> Read {
    let mut events = SseByteStream::new(answer.bytes_stream());
    while let Some(Ok(event)) = events.next().await {
        // What has no place is text while it comes, or a sign of life.
        let Some(seq) = event.id.as_ref().and_then(|id| id.parse().ok()) else { continue };
        *last = Some(seq);
        if OPENING.contains(&event.event.as_deref().unwrap_or_default()) {
            seen.spans.push(SpanId::of_fact(id, seq));
        }
        if let Some(end) = end_of(&event) {
            return Read::Over(end);
        }
    }
    Read::Broken
}

/// What an event says of the end: that it is there, or that a person has to come first.
fn end_of(event: &Sse) -> Option<End> {
    let data = || -> Option<Value> { serde_json::from_str(event.data.as_deref()?).ok() };
    match event.event.as_deref()? {
        "session_finished" => {
            let data = data()?;
            let end = &data["fact"]["session_finished"];
            let status = serde_json::from_value(end["status"].clone()).ok()?;
            Some(End::Ended { status, degraded: end["degraded"] == true })
        }
        "session_suspended" if data()?["fact"]["session_suspended"]["cause"] == "confirmation" => {
            Some(End::Ended { status: SessionStatus::AwaitingConfirmation, degraded: false })
        }
        _ => None,
    }
}

/// A row or a report: which session, and how it stands.
fn standing(row: &Value) -> Option<(SessionId, SessionStatus)> {
    let id = row["session_id"].as_str()?.parse().ok()?;
    Some((id, serde_json::from_value(row["status"].clone()).ok()?))
}

/// The word for what kept a request from being answered.
fn failure(error: &reqwest::Error) -> &'static str {
    if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "timeout"
    } else {
        "connection lost"
    }
}

/// An error with its causes, of which the last says most.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a service at this address is asked at all, with a key or without.
    fn is_asked(url: &str, key: Option<&str>) -> Result<(), String> {
        let key = key.map(|key| Sensitive::new(key.to_owned()));
        let access = Access { url: url.into(), key, agent: None, patience: ASKING, concurrency: 1 };
        Service::new(access).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_goes_over_https_or_stays_on_the_machine() {
        for near in ["http://127.0.0.1:8080", "http://localhost:8080/", "http://[::1]:8080"] {
            assert_eq!(is_asked(near, Some("gbx_secret")), Ok(()), "{near}");
        }
        for far in ["http://agents.example.com", "http://127.evil.example", "http://localhost.evil.example:8080"] {
            let error = is_asked(far, Some("gbx_secret")).expect_err("it is in the clear");
            assert!(error.contains("in the clear; use https") && !error.contains("gbx_"), "{error}");
        }
        assert_eq!(is_asked("http://127.0.0.1:8080", None), Ok(()));
        for wrong in ["agents", "127.0.0.1:8080", "ftp://127.0.0.1"] {
            let error = is_asked(wrong, None).expect_err(wrong);
            assert!(error.contains("write it like https://agents.example.com"), "{error}");
        }
    }

    fn event(name: &str, data: &str) -> Sse {
        Sse::default().event(name).data(data)
    }

    #[test]
    fn the_end_is_read_from_the_last_fact_and_from_a_wait_for_a_person() {
        let finished = r#"{"seq":9,"at":"x","fact":{"session_finished":{"status":"done","degraded":true}}}"#;
        let ended = |status, degraded| Some(End::Ended { status, degraded });
        assert_eq!(end_of(&event("session_finished", finished)), ended(SessionStatus::Done, true));
        let waits = r#"{"fact":{"session_suspended":{"cause":"confirmation"}}}"#;
        let waiting = ended(SessionStatus::AwaitingConfirmation, false);
        assert_eq!(end_of(&event("session_suspended", waits)), waiting);
        let drain = r#"{"fact":{"session_suspended":{"cause":"drain"}}}"#;
        assert_eq!(end_of(&event("session_suspended", drain)), None);
        assert_eq!(end_of(&event("delta", "{}")), None);
    }
}
