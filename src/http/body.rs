//! What requests bring along, read strictly: queries, and bodies that are JSON objects.

use axum::{
    body::Bytes,
    extract::{
        Query,
        rejection::{BytesRejection, QueryRejection},
    },
    http::StatusCode,
};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};

use super::problem::Problem;

/// The whole body, unless it is too large.
pub(super) fn whole(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Problem> {
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::plain(StatusCode::PAYLOAD_TOO_LARGE),
        status => Problem::new(status, rejection.body_text()),
    })
}

/// Reads an object; `right` says what it must be. JSON that does not parse is 400; JSON of the
/// wrong shape is 422.
pub(super) fn object<T: DeserializeOwned>(body: &[u8], right: &str) -> Result<T, Problem> {
    let begins = body.iter().find(|byte| !byte.is_ascii_whitespace());
    let read = if begins == Some(&b'{') {
        serde_json::from_slice(body)
    } else {
        // An array of the right values would do otherwise.
        serde_json::from_slice::<IgnoredAny>(body).and_then(|_| Err(serde_json::Error::custom("this is no object")))
    };
    read.map_err(|error| {
        let status = if error.is_data() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::BAD_REQUEST };
        Problem::new(status, format!("{right}: {error}"))
    })
}

/// The query of a request; a wrong one says which parameter and why.
pub(super) fn asked<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    query.map(|Query(query)| query).map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))
}
