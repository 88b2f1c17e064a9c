//! Signing in with an API key, and out.

use askama::Template;
use axum::{
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
};
use serde::Deserialize;

use super::{
    Room,
    door::{is_https, visit_cookie},
    frame::{Frame, Place},
    page,
    posted::Posted,
    signed::Visit,
    visitor::Visitor,
};

/// Where this page is.
pub(super) const PATH: &str = "/console/sign-in";
const HOME: &str = "/console";

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    f: Frame,
    next: String,
    refused: bool,
}

/// Where a visitor wanted to go.
#[derive(Deserialize)]
pub(super) struct Wanted {
    next: Option<String>,
}

/// The form.
#[derive(Deserialize)]
pub(super) struct Entered {
    #[serde(default)]
    key: String,
    next: Option<String>,
}

/// Nothing but the token.
#[derive(Deserialize)]
pub(super) struct Empty {}

/// The sign-in page on the way to another.
pub(super) fn address(next: &str) -> String {
    format!("{PATH}?next={}", escaped(next))
}

/// A text as it can stand in a query.
pub(super) fn escaped(text: &str) -> String {
    text.bytes().map(escape).collect()
}

pub(super) async fn form(visitor: Visitor, Query(wanted): Query<Wanted>) -> Response {
    let next = place(wanted.next);
    if visitor.caller.is_some() {
        return Redirect::to(&next).into_response();
    }
    page(&SignIn { f: visitor.frame(Place::Elsewhere), next, refused: false })
}

pub(super) async fn enter(
    State(room): State<Room>,
    visitor: Visitor,
    headers: HeaderMap,
    Posted(entered): Posted<Entered>,
) -> Response {
    let next = place(entered.next);
    let Some(visit) = room.door.enter(entered.key.trim()) else {
        let again = SignIn { f: visitor.frame(Place::Elsewhere), next, refused: true };
        return (StatusCode::FORBIDDEN, page(&again)).into_response();
    };
    room.door.signed().leave(visitor.visit);
    let age = room.api.options.console.sign_in.as_secs();
    let cookie = visit_cookie(visit, Some(age), is_https(&headers));
    ([(header::SET_COOKIE, cookie)], Redirect::to(&next)).into_response()
}

pub(super) async fn leave(
    State(room): State<Room>,
    visitor: Visitor,
    headers: HeaderMap,
    Posted(Empty {}): Posted<Empty>,
) -> Response {
    room.door.signed().leave(visitor.visit);
    let gone = visit_cookie(Visit::new([0; 32]), Some(0), is_https(&headers));
    ([(header::SET_COOKIE, gone)], Redirect::to(HOME)).into_response()
}

/// A page of the console, whatever was asked for.
fn place(next: Option<String>) -> String {
    let is_ours = |next: &String| {
        let rest = next.strip_prefix(HOME);
        let joined = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        joined && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') && !next.starts_with(PATH)
    };
    next.filter(is_ours).unwrap_or_else(|| HOME.to_owned())
}

fn escape(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
        return char::from(byte).to_string();
    }
    format!("%{byte:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_signs_in_comes_to_a_page_of_the_console() {
        let to = |next: &str| place(Some(next.to_owned()));
        for next in ["/console", "/console?status=done", "/console/circuits"] {
            assert_eq!(to(next), next);
        }
        for next in [
            "https://evil.example",
            "//evil.example",
            "/console.evil.example",
            "/console\\..\\evil",
            "/v1/sessions",
            "/console/sign-in?next=/console",
            "/console\r\nset-cookie: a=b",
            "javascript:alert(1)",
        ] {
            assert_eq!(to(next), "/console", "{next}");
        }
        assert_eq!(address("/console?a=b&c"), "/console/sign-in?next=/console%3Fa%3Db%26c");
    }
}
