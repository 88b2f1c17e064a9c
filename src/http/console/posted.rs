//! A form that was sent from a page of ours, which is the only sort that is taken.

use axum::{
    Form,
    extract::{FromRequest, Request, rejection::FormRejection},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{Room, visitor::Visitor};
use crate::http::{problem::Problem, why::Why};

/// What a form holds, once it is known to come from a page that this visit was shown.
pub(super) struct Posted<T>(pub(super) T);

#[derive(Deserialize)]
struct Carried<T> {
    #[serde(default)]
    token: String,
    #[serde(flatten)]
    form: T,
}

impl<T: DeserializeOwned> FromRequest<Room> for Posted<T> {
    type Rejection = Response;

    async fn from_request(request: Request, room: &Room) -> Result<Self, Response> {
        let visit = request.extensions().get::<Visitor>().map(|visitor| visitor.visit);
        let read = Form::<Carried<T>>::from_request(request, room).await;
        let Form(carried) = read.map_err(|rejection| unread(&rejection))?;
        if visit.is_some_and(|visit| room.door.signed().is_token(visit, &carried.token)) {
            return Ok(Self(carried.form));
        }
        let detail = "the page is out of date, or the form is not from this console: load the page again";
        Err(Problem::new(StatusCode::FORBIDDEN, detail).because(Why::StalePage).into_response())
    }
}

/// A field that was left empty.
pub(super) fn filled(field: Option<String>) -> Option<String> {
    field.filter(|text| !text.trim().is_empty())
}

fn unread(rejection: &FormRejection) -> Response {
    Problem::new(rejection.status(), format!("the form cannot be read: {}", rejection.body_text())).into_response()
}
