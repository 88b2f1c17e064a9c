//! Keeps pages of other sites away from a service that has no login.
//!
//! A browser lets any page send requests to loopback, and a name that its owner points there
//! makes the answers readable too. So a request must call this service by a loopback name, and
//! one that changes something must come from a page of that name or from no page. It must never
//! know who a caller is.

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    http::{HeaderMap, Method, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::problem::Problem;
use crate::web::loopback::Loopback;

/// Lets a request through, or says why not.
pub(super) async fn guard(request: Request<Body>, next: Next) -> Response {
    match admit(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Whether a page may be asked for by this name. What its forms send is held to more elsewhere.
pub(super) fn admit_page(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    called(headers, uri).map(drop)
}

fn admit(request: &Request<Body>) -> Result<(), Problem> {
    let headers = request.headers();
    let called = called(headers, request.uri())?;
    if !changes(request.method()) {
        return Ok(());
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let of_page = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
        let of_page = of_page.as_ref().and_then(Uri::authority).and_then(loopback);
        if of_page.is_none() || (called.is_some() && of_page != called) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "only pages of the same loopback host may change anything while no login is configured",
            ));
        }
    }
    if request.method() == Method::POST && !request.body().is_end_stream() {
        require_json(headers)?;
    }
    Ok(())
}

/// The loopback host that the request calls; nothing where it names none, which no browser does.
fn called(headers: &HeaderMap, uri: &Uri) -> Result<Option<Loopback>, Problem> {
    let refuse = || {
        let detail = "while no login is configured the host must be localhost, 127.0.0.1 or [::1], with any port";
        Problem::new(StatusCode::MISDIRECTED_REQUEST, detail)
    };
    let in_uri = uri.authority().map(|authority| loopback(authority).ok_or_else(refuse)).transpose()?;
    let mut in_header = None;
    for value in headers.get_all(header::HOST) {
        let authority = value.to_str().ok().and_then(|text| text.parse::<Authority>().ok());
        in_header = Some(authority.as_ref().and_then(loopback).ok_or_else(refuse)?);
    }
    Ok(in_header.or(in_uri))
}

fn loopback(authority: &Authority) -> Option<Loopback> {
    if authority.as_str().contains('@') { None } else { Loopback::of(authority.host()) }
}

fn changes(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
}

/// A page of another site can post anything but JSON without asking first, so only JSON is taken.
fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type of the body must be application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        let is_loopback = |text: &str| text.parse::<Authority>().ok().as_ref().and_then(loopback).is_some();
        for name in ["localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080", "127.1.2.3:1", "[::1]", "[::1]:8080"]
        {
            assert!(is_loopback(name), "{name}");
        }
        for name in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "evil@localhost",
            "0.0.0.0",
            "10.0.0.1:80",
            "[::2]:80",
            "2130706433",
            "",
        ] {
            assert!(!is_loopback(name), "{name}");
        }
    }
}
