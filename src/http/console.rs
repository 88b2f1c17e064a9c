//! `/console`: pages for people, made on the server, with a little script for what is live.
//!
//! A page shows what the JSON routes answer to the same caller and does what they do; who may see
//! or do a thing is decided there. It must never hold a rule of its own but one, which hides more:
//! who reads the texts of a session on a screen (`content`).

mod assets;
mod circuits;
mod confirmations;
mod content;
mod door;
mod frame;
mod handovers;
mod live;
mod look;
mod posted;
mod session;
mod sessions;
mod sign_in;
mod signed;
mod text;
mod trouble;
mod visitor;
mod waterfall;
mod words;

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, FromRef},
    http::StatusCode,
    middleware,
    response::{Html, IntoResponse as _, Response},
    routing::{get, post},
};
use tower_http::{catch_panic::CatchPanicLayer, timeout::TimeoutLayer};

use self::door::Door;
use super::{Api, problem::Problem};

/// Bytes of a form at the most, whatever larger bodies the API takes.
const FORM: usize = 256 << 10;

/// What the pages work with.
#[derive(Clone)]
struct Room {
    api: Api,
    door: Arc<Door>,
}

impl FromRef<Room> for Api {
    fn from_ref(room: &Room) -> Self {
        room.api.clone()
    }
}

/// All pages, with what stands around them.
pub(super) fn routes(api: Api) -> Router {
    let timeout = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, api.options.request_timeout);
    let limit = DefaultBodyLimit::max(FORM.min(api.options.max_body_bytes));
    let door = Arc::new(Door::new(&api));
    let room = Room { api, door };
    Router::new()
        .route("/console", get(sessions::list))
        .route("/console/sessions", post(sessions::begin))
        .route("/console/sessions/{id}", get(session::show))
        .route("/console/sessions/{id}/live", get(live::follow))
        .route("/console/sessions/{id}/cancel", post(session::cancel))
        .route("/console/sessions/{id}/confirmations/{call_id}", post(confirmations::decide))
        .route("/console/confirmations", get(confirmations::list))
        .route("/console/handovers", get(handovers::list))
        .route("/console/handovers/{id}", post(handovers::handle))
        .route("/console/circuits", get(circuits::list).post(circuits::switch))
        .route("/console/sign-in", get(sign_in::form).post(sign_in::enter))
        .route("/console/sign-out", post(sign_in::leave))
        .route("/console/assets/{name}", get(assets::serve))
        .route("/console/{*rest}", get(nothing))
        .layer(limit)
        .layer(timeout)
        .layer(CatchPanicLayer::new())
        .layer(middleware::from_fn_with_state(room.clone(), door::guard))
        .with_state(room)
}

async fn nothing() -> Problem {
    Problem::plain(StatusCode::NOT_FOUND)
}

/// These pairs as the query of an address, without those that hold nothing.
fn query<const N: usize>(pairs: [(&str, &str); N]) -> String {
    let given = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| format!("{name}={}", sign_in::escaped(value))).collect::<Vec<_>>().join("&")
}

/// A page that was made of a template.
fn page(template: &impl askama::Template) -> Response {
    match template.render() {
        Ok(text) => Html(text).into_response(),
        Err(_) => Problem::plain(StatusCode::INTERNAL_SERVER_ERROR).into_response(),
    }
}
