//! Errors as problem+json (RFC 9457), all of them: also those that the framework answers.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::why::Why;
use crate::{
    core::port::StoreError,
    runtime::{NotResumed, Refused},
};

pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// One error, ready to be answered.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    more: Map<String, Value>,
    retry_after: Option<u32>,
    /// Why, for pages that say it in other words.
    why: Option<Box<Why>>,
}

/// What an error looks like (RFC 9457). Some have further members, such as `declared`, the names
/// that could have been asked for.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem, example = json!({
    "type": "about:blank", "title": "Not Found", "status": 404, "detail": "there is no session \"sess_1\""
}))]
pub(super) struct Members {
    /// Always `about:blank`: the status says which kind it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The name of the status.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What was wrong, where, and what would be right.
    detail: String,
    #[serde(flatten)]
    #[schema(ignore)]
    more: Map<String, Value>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), more: Map::new(), retry_after: None, why: None }
    }

    /// One of the errors that the framework answers as well, in the same words.
    pub(super) fn plain(status: StatusCode) -> Self {
        Self::new(status, explain(status))
    }

    /// Adds a member that programs can read.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Says why in a form that pages have their own words for.
    pub(super) fn because(self, why: impl Into<Option<Why>>) -> Self {
        Self { why: why.into().map(Box::new), ..self }
    }

    /// Says when to come back.
    pub(super) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// A session that is not there, or not the caller's: both look the same.
    pub(super) fn no_session(id: &str) -> Self {
        let shown: String = id.chars().take(64).collect();
        Self::new(StatusCode::NOT_FOUND, format!("there is no session {shown:?}")).because(Why::NoSession)
    }
}

/// The phrase of a problem, for whoever shows it otherwise than as JSON.
#[derive(Clone, Debug)]
pub(super) struct Phrase(pub(super) String);

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let detail = refused.to_string();
        let why = Why::NotBegun(refused.clone());
        let problem = match refused {
            Refused::EmptyTask | Refused::KeyReused => Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail),
            Refused::UnknownAgent { declared, .. } | Refused::UnknownTaskType { declared, .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail).with("declared", declared)
            }
            Refused::NoConversation(_) => Self::new(StatusCode::NOT_FOUND, detail),
            Refused::ConversationBusy { session } => {
                Self::new(StatusCode::CONFLICT, detail).with("session_id", session.to_string())
            }
            Refused::Draining => Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(5),
            Refused::TooManyAtOnce { .. } => Self::new(StatusCode::TOO_MANY_REQUESTS, detail).retry_after(1),
            Refused::Overloaded { .. } | Refused::Behind => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1)
            }
            Refused::TooManySessions { wait, .. } => {
                let seconds = u32::try_from(wait.as_secs() + 1).unwrap_or(u32::MAX);
                Self::new(StatusCode::TOO_MANY_REQUESTS, detail).retry_after(seconds)
            }
            Refused::NotYetDurable { session } => Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
                .with("session_id", session.to_string())
                .retry_after(30),
            Refused::Journal(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(5),
        };
        problem.because(why)
    }
}

impl From<NotResumed> for Problem {
    fn from(why: NotResumed) -> Self {
        let (detail, because) = (why.to_string(), Why::of_resume(&why));
        let problem = match why {
            NotResumed::Unknown(id) => Self::no_session(&id.to_string()),
            NotResumed::Held { .. } => Self::new(StatusCode::CONFLICT, detail).retry_after(1),
            NotResumed::Runs(_)
            | NotResumed::Ended(_)
            | NotResumed::Waiting(_)
            | NotResumed::NoAgent { .. }
            | NotResumed::Prompt { .. } => Self::new(StatusCode::CONFLICT, detail),
            NotResumed::Refused(refused) => refused.into(),
            NotResumed::Store(error) => error.into(),
        };
        problem.because(because)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, format!("the journal cannot be read: {error}"))
            .retry_after(5)
            .because(Why::Journal)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let phrase = Phrase(self.detail.clone());
        let body = json!(Members {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: self.detail,
            more: self.more,
        });
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON))];
        let mut response = (self.status, headers, body.to_string()).into_response();
        response.extensions_mut().insert(phrase);
        if let Some(why) = self.why {
            response.extensions_mut().insert(*why);
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Turns an error that the framework answered (no route, wrong method, too large, too late, a
/// panic) into the same form, its headers kept.
pub(super) async fn dress(response: Response) -> Response {
    let status = response.status();
    let is_problem =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == PROBLEM_JSON.as_bytes());
    if is_problem || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    let dressed = Problem::plain(status).into_response();
    parts.headers.remove(header::CONTENT_LENGTH);
    let (new, body) = dressed.into_parts();
    parts.headers.extend(new.headers);
    Response::from_parts(parts, Body::new(body))
}

fn explain(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "there is nothing at this path",
        StatusCode::METHOD_NOT_ALLOWED => "this path does not take this method; the allow header lists those it takes",
        StatusCode::PAYLOAD_TOO_LARGE => "the body is larger than server.max_body_bytes allows",
        StatusCode::REQUEST_TIMEOUT => "the request took longer than server.request_timeout allows",
        _ => "the request could not be answered",
    }
}
