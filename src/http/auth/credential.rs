//! What a request shows: one credential, in one place.
//!
//! It must never know whether the credential is good.

use axum::http::{HeaderMap, HeaderName, header};

use super::{api_key, refusal::Refusal};

/// The other place of an API key, for clients that keep `Authorization` for a proxy.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Bytes of a token at the most; servers before this one take no more in a header either.
const LONGEST: usize = 16 << 10;

/// What a caller showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credential<'a> {
    /// A key of ours.
    ApiKey(&'a str),
    /// Anything else: perhaps a token of a login service.
    Token(&'a str),
}

/// The one credential of a request.
pub(super) fn read(headers: &HeaderMap) -> Result<Credential<'_>, Refusal> {
    let bearers = headers.get_all(header::AUTHORIZATION).iter().map(|value| (true, value));
    let keys = headers.get_all(API_KEY).iter().map(|value| (false, value));
    let mut shown = bearers.chain(keys);
    let (is_bearer, value) = shown.next().ok_or(Refusal::Missing)?;
    if shown.next().is_some() {
        return Err(Refusal::Invalid("more than one credential was sent: send one"));
    }
    let text = value.to_str().map_err(|_| Refusal::Invalid("the credential holds letters that none has"))?;
    if text.len() > LONGEST {
        return Err(Refusal::Invalid("the credential is longer than any can be"));
    }
    if !is_bearer {
        return Ok(Credential::ApiKey(text.trim()));
    }
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::Invalid("the authorization must be Bearer with an API key or a token"));
    }
    let rest = rest.trim();
    if rest.is_empty() {
        return Err(Refusal::Missing);
    }
    Ok(if rest.starts_with(api_key::PREFIX) { Credential::ApiKey(rest) } else { Credential::Token(rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(shown: &[(&'static str, &'static str)]) -> Result<(bool, String), Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in shown {
            headers.append(*name, value.parse().expect("a header value"));
        }
        read(&headers).map(|credential| match credential {
            Credential::ApiKey(key) => (true, key.to_owned()),
            Credential::Token(token) => (false, token.to_owned()),
        })
    }

    #[test]
    fn keys_and_tokens_are_told_apart_by_their_beginning() {
        assert_eq!(read_from(&[("authorization", "Bearer gbx_abc")]), Ok((true, "gbx_abc".into())));
        assert_eq!(read_from(&[("authorization", "bearer  a.b.c")]), Ok((false, "a.b.c".into())));
        assert_eq!(read_from(&[("x-api-key", "gbx_abc")]), Ok((true, "gbx_abc".into())));
    }

    #[test]
    fn nothing_two_things_and_other_schemes_are_refused() {
        assert_eq!(read_from(&[]), Err(Refusal::Missing));
        assert_eq!(read_from(&[("authorization", "Bearer")]), Err(Refusal::Missing));
        for shown in [
            &[("authorization", "Bearer gbx_a"), ("x-api-key", "gbx_b")][..],
            &[("authorization", "Bearer gbx_a"), ("authorization", "Bearer gbx_b")],
            &[("authorization", "Basic dXNlcjpwYXNz")],
        ] {
            assert!(matches!(read_from(shown), Err(Refusal::Invalid(_))), "{shown:?}");
        }
    }
}
