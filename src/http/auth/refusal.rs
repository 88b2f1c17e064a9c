//! Why a caller is not let in, as problem+json with the challenge of RFC 6750.
//!
//! It must never repeat what the caller showed.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::super::problem::Problem;
use crate::signal::LoginRefusal;

/// Why a caller is not let in. The phrases hold no quotation mark, for they stand in a header too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Refusal {
    /// It showed nothing.
    Missing,
    /// What it showed does not count.
    Invalid(&'static str),
    /// Nothing can be said of it now.
    Unavailable(&'static str),
}

impl Refusal {
    /// The word that it is counted under.
    pub(super) const fn reason(self) -> LoginRefusal {
        match self {
            Self::Missing => LoginRefusal::Missing,
            Self::Invalid(_) => LoginRefusal::Invalid,
            Self::Unavailable(_) => LoginRefusal::Unavailable,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Missing => {
                let detail = "this needs a login: send authorization: Bearer with an API key or a token";
                challenged(detail, "Bearer realm=\"glassbox\"")
            }
            Self::Invalid(detail) => {
                let challenge =
                    format!("Bearer realm=\"glassbox\", error=\"invalid_token\", error_description=\"{detail}\"");
                challenged(detail, &challenge)
            }
            Self::Unavailable(detail) => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(5).into_response()
            }
        }
    }
}

fn challenged(detail: &str, challenge: &str) -> Response {
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).into_response();
    let challenge = HeaderValue::from_str(challenge).expect("the phrases of this room are plain letters");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}
