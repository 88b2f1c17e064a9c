//! Who looks at a page: its visit, its language, the place that it asked for.
//!
//! It must never know what the visitor may see; that is asked of the caller.

use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, Uri, header, request::Parts},
};

use super::{
    frame::{Frame, Place},
    signed::Visit,
    text,
    words::Words,
};
use crate::{core::fact::Language, http::auth::Caller};

/// The cookie that a visit is known by.
pub(super) const VISIT: &str = "glassbox_console";
/// The cookie that keeps a chosen language.
pub(super) const LANGUAGE: &str = "glassbox_language";

/// Who looks.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) visit: Visit,
    /// Whether the browser does not have the cookie of this visit yet.
    pub(super) is_new: bool,
    pub(super) language: Language,
    /// Whether the language was chosen by this very request.
    pub(super) chooses: bool,
    /// What its forms carry.
    pub(super) token: String,
    /// Who it is, where that is known.
    pub(super) caller: Option<Caller>,
    /// Whether it is known by a sign-in, which can be left.
    pub(super) signed_in: bool,
    /// Hand-overs that nobody has taken on, where the visitor works on them.
    pub(super) unclaimed: u64,
    /// Path and query, without the choice of a language.
    pub(super) here: String,
}

impl Visitor {
    /// The words of its language.
    pub(super) fn words(&self) -> &'static Words {
        Words::of(self.language)
    }

    /// What stands around every page.
    pub(super) fn frame(&self, place: Place) -> Frame {
        let joint = if self.here.contains('?') { '&' } else { '?' };
        let (lang, other, other_name) = match self.language {
            Language::En => ("en", "ru", "Русский"),
            Language::Ru => ("ru", "en", "English"),
        };
        Frame {
            t: self.words(),
            lang,
            other,
            other_name,
            switch: format!("{}{joint}lang={other}", self.here),
            who: self.caller.as_ref().map(|caller| text::line(caller.id())),
            roles: self
                .caller
                .as_ref()
                .map(|caller| text::line(&caller.principal().roles.join(", ")))
                .unwrap_or_default(),
            signed_in: self.signed_in,
            token: self.token.clone(),
            place,
            is_operator: self.caller.as_ref().is_some_and(Caller::is_operator),
            unclaimed: self.unclaimed,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().expect("the door stands before every page"))
    }
}

/// The value of a cookie.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lists = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = lists.flat_map(|list| list.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// The language of a request, and whether the request itself chooses it: by its query, then by an
/// earlier choice, then by what the browser prefers.
pub(super) fn language(headers: &HeaderMap, uri: &Uri) -> (Language, bool) {
    let chosen = uri.query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("lang=")));
    if let Some(language) = chosen.and_then(named) {
        return (language, true);
    }
    let kept = cookie(headers, LANGUAGE).and_then(named);
    let accepted = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    (kept.or_else(|| accepted.and_then(preferred)).unwrap_or_default(), false)
}

/// Path and query, without the choice of a language.
pub(super) fn here(uri: &Uri) -> String {
    let pairs = uri.query().unwrap_or_default().split('&');
    let kept: Vec<_> = pairs.filter(|pair| !pair.is_empty() && !pair.starts_with("lang=")).collect();
    if kept.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), kept.join("&")) }
}

fn named(word: &str) -> Option<Language> {
    match word {
        "en" => Some(Language::En),
        "ru" => Some(Language::Ru),
        _ => None,
    }
}

/// The first of our languages by the weights of `Accept-Language`.
fn preferred(accepted: &str) -> Option<Language> {
    let weighed = accepted.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let language = named(parts.next()?.split('-').next()?.to_ascii_lowercase().as_str())?;
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |weight| weight.parse().ok())?;
        (weight > 0.0).then_some((language, weight))
    });
    // Of equals the first counts.
    let best = weighed.reduce(|best: (Language, f32), next| if next.1 > best.1 { next } else { best });
    best.map(|(language, _)| language)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uri: &str, headers: &[(&'static str, &str)]) -> (Language, bool) {
        let headers = headers
            .iter()
            .map(|(name, value)| (axum::http::HeaderName::from_static(name), value.parse().expect("a header value")));
        language(&headers.collect(), &uri.parse().expect("an address"))
    }

    #[test]
    fn the_language_is_chosen_kept_or_what_the_browser_prefers() {
        let (russian, english) = (Language::Ru, Language::En);
        assert_eq!(of("/console?lang=ru", &[("cookie", "glassbox_language=en")]), (russian, true));
        assert_eq!(of("/console", &[("cookie", "a=b; glassbox_language=ru")]), (russian, false));
        assert_eq!(of("/console?lang=de", &[("accept-language", "ru-RU,ru;q=0.9,en;q=0.8")]), (russian, false));
        assert_eq!(of("/console", &[("accept-language", "kk,en;q=0.5,ru;q=0.8")]), (russian, false));
        assert_eq!(of("/console", &[("accept-language", "ru;q=0,en;q=0.1")]), (english, false));
        assert_eq!(of("/console", &[("accept-language", "de")]), (english, false));
        assert_eq!(of("/console", &[]), (english, false));
    }

    #[test]
    fn where_one_is_holds_no_language() {
        let at = |text: &str| here(&text.parse().expect("an address"));
        assert_eq!(at("/console?lang=ru"), "/console");
        assert_eq!(at("/console?status=done&lang=ru&agent=a"), "/console?status=done&agent=a");
    }
}
