//! The address of a request: scheme, host and port as declared, and a path whose segments may
//! have holes. An argument fills a part of one segment and nothing more.

use reqwest::Url;
use serde_json::{Map, Value};

use crate::{
    core::Fault,
    tool::template::{Template, refused},
};

/// Bytes of a path and a query at the most; servers take no longer ones.
pub(super) const MAX_BYTES: usize = 8 << 10;

/// An address with holes in its path.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    source: String,
    /// Scheme, host and port.
    origin: Url,
    segments: Vec<Template>,
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// One phrase on what is wrong; it does not repeat the address, which may hold a credential.
    pub fn parse(source: &str) -> Result<Self, String> {
        let right = "must be an http or https address such as https://rates.example/v1/{currency}";
        let (scheme, rest) = source.split_once("://").ok_or(right)?;
        if !matches!(scheme, "http" | "https") {
            return Err(right.to_owned());
        }
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.contains('{') {
            return Err("must name its host: arguments may stand in the path only".to_owned());
        }
        if host.contains('@') {
            return Err("must not hold a credential; write it under bearer or headers".to_owned());
        }
        let segments = path.split('/').map(Template::parse).collect::<Result<Vec<_>, _>>()?;
        if source.contains(['?', '#', '\\']) || !source.chars().all(|c| c.is_ascii_graphic()) {
            return Err("must be plain letters with no ?, # and \\; parts of the query go under query".to_owned());
        }
        let origin = Url::parse(&format!("{scheme}://{host}/")).ok().filter(Url::has_host).ok_or(right)?;
        if segments.iter().any(|segment| segment.fixed().is_some_and(is_dots)) {
            return Err("must not hold the segments . and ..".to_owned());
        }
        Ok(Self { source: source.to_owned(), origin, segments })
    }

    /// The address as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        self.origin.scheme()
    }

    /// The arguments that it takes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().flat_map(Template::names)
    }

    /// The address with its holes filled.
    pub(super) fn fill(&self, values: &Map<String, Value>) -> Result<Url, Fault> {
        let segments = self.segments.iter().map(|segment| fill_segment(segment, values));
        let path = format!("/{}", segments.collect::<Result<Vec<_>, _>>()?.join("/"));
        if path.len() > MAX_BYTES {
            return Err(refused(format!("the arguments are too long for an address, {MAX_BYTES} bytes are allowed")));
        }
        let mut url = self.origin.clone();
        url.set_path(&path);
        // The parser of addresses has the last word on what a path is; it must agree.
        if url.path() == path && url.origin() == self.origin.origin() {
            Ok(url)
        } else {
            Err(refused("the arguments do not fit into the path of the address"))
        }
    }
}

fn fill_segment(segment: &Template, values: &Map<String, Value>) -> Result<String, Fault> {
    if let Some(fixed) = segment.fixed() {
        return Ok(fixed.to_owned());
    }
    let names = || segment.names().collect::<Vec<_>>().join(", ");
    let filled = segment.fill(values, |value| Ok(encode(value)))?;
    let filled = filled.ok_or_else(|| refused(format!("the argument {} is missing", names())))?;
    if filled.is_empty() || is_dots(&filled) {
        return Err(refused(format!("the argument {} must not be empty, . or ..", names())));
    }
    Ok(filled)
}

/// `.` and `..`, also where a dot is written as `%2e`.
fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// Percent-encodes everything but letters, digits and `-._~`.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(value: &str) -> Result<String, Fault> {
        let address = Address::parse("https://rates.example:8443/v1/{a}/now").expect("an address");
        address.fill(json!({ "a": value }).as_object().expect("an object")).map(|url| url.to_string())
    }

    #[test]
    fn an_argument_stays_in_its_segment() {
        for (value, segment) in [
            ("USD", "USD"),
            ("a/b", "a%2Fb"),
            ("../x", "..%2Fx"),
            ("%2e%2e", "%252e%252e"),
            ("a?b#c", "a%3Fb%23c"),
            ("a\\b", "a%5Cb"),
            ("@evil.example", "%40evil.example"),
            ("тенге", "%D1%82%D0%B5%D0%BD%D0%B3%D0%B5"),
            ("a\r\nb", "a%0D%0Ab"),
            ("{a}", "%7Ba%7D"),
        ] {
            assert_eq!(fill(value).expect(value), format!("https://rates.example:8443/v1/{segment}/now"));
        }
        for value in ["", ".", ".."] {
            assert!(fill(value).is_err(), "{value:?}");
        }
        assert!(fill(&"x".repeat(10_000)).expect_err("too long").detail.contains("too long"));
    }

    #[test]
    fn an_address_names_its_host() {
        for (source, part) in [
            ("https://{host}/v1", "must name its host"),
            ("https://api.{zone}.example/v1", "must name its host"),
            ("ftp://rates.example/", "http or https"),
            ("rates.example/v1", "http or https"),
            ("https://", "http or https"),
            ("https://me:secret@rates.example/", "credential"),
            ("https://rates.example/v1?x={a}", "go under query"),
            ("https://rates.example/../{a}", ". and .."),
            ("https://rates.example/%2E%2e/{a}", ". and .."),
            ("https://rates.example/{a b}", "as {name}"),
            ("https://rates.example/a b", "plain letters"),
        ] {
            assert!(Address::parse(source).expect_err(source).contains(part), "{source}");
        }
        let whole = Address::parse("http://127.0.0.1:9").expect("no path is a path");
        assert_eq!(whole.fill(&Map::new()).expect("filled").as_str(), "http://127.0.0.1:9/");
    }
}
