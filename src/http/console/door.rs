//! What every request for a page goes through: who looks, where the request comes from, and what
//! browsers are told about the answer.
//!
//! Who a credential names is the business of `auth`. It must never know what a page shows.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Redirect, Response},
};

use super::{
    Room, sign_in,
    signed::{Signed, Visit},
    trouble,
    visitor::{self, LANGUAGE, VISIT, Visitor},
};
use crate::{
    core::{Clock, Timestamp, fact::Language},
    http::{
        Api,
        auth::{Access, Caller},
        origin,
        problem::Problem,
        why::Why,
    },
    runtime::Runtime,
};

/// Nothing but what this service serves, no frame around it, no form that goes elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Files that are the same for everybody.
const ASSETS: &str = "/console/assets/";
/// Seconds that a chosen language is kept.
const YEAR: u32 = 31_536_000;

/// The way in.
pub(super) struct Door {
    access: Access,
    signed: Signed,
    runtime: Runtime,
    clock: Arc<dyn Clock>,
}

impl Door {
    pub(super) fn new(api: &Api) -> Self {
        let runtime = api.runtime.clone();
        let signed = Signed::new(runtime.random(), api.options.console.sign_in);
        let clock = runtime.clock();
        Self { access: api.options.access.clone(), signed, runtime, clock }
    }

    pub(super) const fn signed(&self) -> &Signed {
        &self.signed
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Signs the holder of an API key in; nothing where nobody holds it.
    pub(super) fn enter(&self, key: &str) -> Option<Visit> {
        let caller = self.access.gate().holder(key)?;
        // A value of its own, so that one that was foisted on the browser before is worth nothing.
        let visit = Visit::new(self.runtime.random());
        self.signed.enter(visit, caller, self.now());
        Some(visit)
    }

    fn meet(&self, headers: &HeaderMap, uri: &Uri) -> Visitor {
        let known = visitor::cookie(headers, VISIT).and_then(Visit::read);
        let visit = known.unwrap_or_else(|| Visit::new(self.runtime.random()));
        let (language, chooses) = visitor::language(headers, uri);
        Visitor {
            visit,
            is_new: known.is_none(),
            language,
            chooses,
            token: self.signed.token(visit),
            caller: None,
            signed_in: false,
            unclaimed: 0,
            here: visitor::here(uri),
        }
    }

    /// Finds out who looks; otherwise what is answered instead of the page.
    async fn admit(&self, visitor: &mut Visitor, request: &Asking<'_>) -> Result<(), Response> {
        if !self.access.gate().has_login() {
            origin::admit_page(request.headers, request.uri).map_err(|problem| problem.into_response())?;
        }
        if request.uri.path().starts_with(ASSETS) {
            return Ok(());
        }
        if request.changes() && !from_here(request.headers) {
            let detail = "only pages of this console may send forms to it";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail).because(Why::StalePage).into_response());
        }
        if !request.changes() && visitor.is_new && is_from_elsewhere(request.headers) {
            // The cookie was kept back because another site's page led here; a page of ours gets it.
            return Err(trouble::on_the_way(visitor));
        }
        visitor.caller = self.caller(visitor, request.headers).await?;
        if visitor.caller.as_ref().is_some_and(Caller::is_operator) {
            visitor.unclaimed = self.runtime.unclaimed().await.map_or(0, |unclaimed| unclaimed.count);
        }
        if visitor.caller.is_some() || request.uri.path() == sign_in::PATH {
            return Ok(());
        }
        if request.changes() {
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "this needs a sign-in");
            return Err(problem.because(Why::NotSignedIn).into_response());
        }
        Err(Redirect::to(&sign_in::address(&visitor.here)).into_response())
    }

    async fn caller(&self, visitor: &mut Visitor, headers: &HeaderMap) -> Result<Option<Caller>, Response> {
        let shown = self.access.gate().visitor(headers).await.map_err(|refusal| refusal.into_response())?;
        if shown.is_some() {
            return Ok(shown);
        }
        // A key that was taken out opens nothing from then on, and who signed in with it is not known.
        self.signed.hold_to(self.access.reading());
        let found = self.signed.find(visitor.visit, self.now());
        visitor.signed_in = found.is_some();
        Ok(found)
    }
}

/// What is asked for.
struct Asking<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
}

impl Asking<'_> {
    fn changes(&self) -> bool {
        ![Method::GET, Method::HEAD, Method::OPTIONS].contains(self.method)
    }
}

/// Stands before every page.
pub(super) async fn guard(State(room): State<Room>, mut request: Request, next: Next) -> Response {
    let mut visitor = room.door.meet(request.headers(), request.uri());
    let is_asset = request.uri().path().starts_with(ASSETS);
    let secure = is_https(request.headers());
    let asking = Asking { method: request.method(), uri: request.uri(), headers: request.headers() };
    let response = match room.door.admit(&mut visitor, &asking).await {
        Ok(()) => {
            request.extensions_mut().insert(visitor.clone());
            if let Some(caller) = visitor.caller.clone() {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(instead) => instead,
    };
    let mut response = trouble::dress(&visitor, response);
    protect(response.headers_mut());
    if !is_asset {
        remember(&visitor, secure, response.headers_mut());
    }
    response
}

/// Whether a form was sent by a page of this console: the browser says so, or names the page's
/// host, which is the one that it calls.
fn from_here(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(FETCH_SITE) {
        return site == "same-origin";
    }
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let page =
        text(header::ORIGIN).and_then(|origin| origin.parse::<Uri>().ok()).and_then(|uri| uri.authority().cloned());
    let called = text(header::HOST).and_then(|host| host.parse::<Authority>().ok());
    page.is_some() && page == called
}

fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    headers.get(FETCH_SITE).is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// Whether the browser came by https, as it says itself or the proxy does. Whoever says so without
/// reason only keeps an own cookie from coming back.
pub(super) fn is_https(headers: &HeaderMap) -> bool {
    let begins = |name: HeaderName, word: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|text| text.starts_with(word))
    };
    begins(header::ORIGIN, "https://") || begins(HeaderName::from_static("x-forwarded-proto"), "https")
}

/// The cookie of a visit; kept for so many seconds, or as long as the browser is open.
pub(super) fn visit_cookie(visit: Visit, seconds: Option<u64>, secure: bool) -> HeaderValue {
    let age = seconds.map_or(String::new(), |seconds| format!("; Max-Age={seconds}"));
    set_cookie(&format!("{VISIT}={}; Path=/console; HttpOnly; SameSite=Strict{age}", visit.write()), secure)
}

fn set_cookie(cookie: &str, secure: bool) -> HeaderValue {
    let text = if secure { format!("{cookie}; Secure") } else { cookie.to_owned() };
    HeaderValue::from_str(&text).expect("cookies of ours are plain letters")
}

/// Gives the browser what it does not have yet.
fn remember(visitor: &Visitor, secure: bool, headers: &mut HeaderMap) {
    if visitor.is_new && !headers.contains_key(header::SET_COOKIE) && !headers.contains_key(header::REFRESH) {
        headers.append(header::SET_COOKIE, visit_cookie(visitor.visit, None, secure));
    }
    if visitor.chooses {
        let word = match visitor.language {
            Language::En => "en",
            Language::Ru => "ru",
        };
        let cookie = format!("{LANGUAGE}={word}; Path=/console; HttpOnly; SameSite=Lax; Max-Age={YEAR}");
        headers.append(header::SET_COOKIE, set_cookie(&cookie, secure));
    }
}

/// What browsers are told of every answer.
fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // With less than this a browser would not say which page a form comes from.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(shown: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        shown.iter().map(header).collect()
    }

    #[test]
    fn a_form_comes_from_a_page_of_the_same_host_and_port() {
        for shown in [
            &[("sec-fetch-site", "same-origin"), ("origin", "https://elsewhere.example"), ("host", "a")][..],
            &[("origin", "https://Bank.example"), ("host", "bank.example")],
            &[("origin", "http://127.0.0.1:8080"), ("host", "127.0.0.1:8080")],
        ] {
            assert!(from_here(&headers(shown)), "{shown:?}");
        }
        for shown in [
            &[][..],
            &[("host", "127.0.0.1:8080")],
            &[("origin", "null"), ("host", "127.0.0.1:8080")],
            &[("origin", "http://127.0.0.1:3000"), ("host", "127.0.0.1:8080")],
            &[("sec-fetch-site", "same-site"), ("origin", "http://a"), ("host", "a")],
            &[("sec-fetch-site", "none"), ("origin", "http://a"), ("host", "a")],
            &[("sec-fetch-site", "cross-site")],
        ] {
            assert!(!from_here(&headers(shown)), "{shown:?}");
        }
    }

    #[test]
    fn a_cookie_goes_by_https_alone_where_the_browser_came_by_it() {
        assert!(is_https(&headers(&[("origin", "https://bank.example")])));
        assert!(is_https(&headers(&[("x-forwarded-proto", "https")])));
        assert!(!is_https(&headers(&[("origin", "http://127.0.0.1:1"), ("x-forwarded-proto", "http")])));
        let cookie = visit_cookie(Visit::new([0; 32]), Some(60), true);
        let value = "A".repeat(43);
        let expected =
            format!("glassbox_console={value}; Path=/console; HttpOnly; SameSite=Strict; Max-Age=60; Secure");
        assert_eq!(cookie.to_str().ok(), Some(expected.as_str()));
    }
}
