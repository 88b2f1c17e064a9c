//! Errors as pages, and the page that is shown on the way.

use askama::Template;
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};

use super::{
    frame::{Frame, Place},
    page, text,
    visitor::Visitor,
    words::said,
};
use crate::http::{problem::Phrase, why::Why};

#[derive(Template)]
#[template(path = "trouble.html")]
struct Trouble {
    f: Frame,
    status: u16,
    title: &'static str,
    /// In the words of the pages, or of the API where they have none.
    detail: String,
    /// The language of that.
    spoken: &'static str,
}

/// For a browser that another site's page led here: it asks again, as from a page of ours.
#[derive(Template)]
#[template(path = "on_the_way.html")]
struct OnTheWay {
    f: Frame,
    here: String,
}

/// Makes a page of an error; any other answer stays as it is.
pub(super) fn dress(visitor: &Visitor, response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if is_page || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let own = response.extensions().get::<Why>().and_then(|why| said(visitor.language, why));
    let f = visitor.frame(Place::Elsewhere);
    let spoken = if own.is_some() { f.lang } else { "en" };
    let detail = own.or_else(|| response.extensions().get().map(|Phrase(detail)| detail.clone()));
    let trouble = Trouble {
        f,
        status: status.as_u16(),
        title: title(visitor, status),
        detail: detail.map(|detail| text::block(&detail)).unwrap_or_default(),
        spoken,
    };
    let (mut parts, _) = response.into_parts();
    let (new, body) = page(&trouble).into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(new.headers);
    Response::from_parts(parts, body)
}

/// Asks the browser to come again by itself.
pub(super) fn on_the_way(visitor: &Visitor) -> Response {
    let mut response = page(&OnTheWay { f: visitor.frame(Place::Elsewhere), here: visitor.here.clone() });
    // The header does what the page asks for, and says that no cookie belongs to this answer.
    if let Ok(value) = HeaderValue::from_str(&format!("0;url={}", visitor.here)) {
        response.headers_mut().insert(header::REFRESH, value);
    }
    response
}

const fn title(visitor: &Visitor, status: StatusCode) -> &'static str {
    let t = super::words::Words::of(visitor.language);
    match status.as_u16() {
        401 => t.needs_sign_in,
        403 => t.not_allowed,
        404 => t.not_there,
        409 => t.conflict,
        429 | 503 => t.not_now,
        400..=499 => t.not_understood,
        _ => t.mistake,
    }
}
