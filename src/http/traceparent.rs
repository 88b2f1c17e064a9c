//! The caller's W3C `traceparent`, which a session links to.

use axum::http::HeaderMap;

use crate::core::fact::SpanLink;

/// The span that the caller is in, if its header is well-formed; a broken one is as none.
pub(super) fn link(headers: &HeaderMap) -> Option<SpanLink> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let future = version != "00";
    let whole = future || parts.next().is_none();
    let shaped = version.len() == 2 && version != "ff" && flags.len() == 2 && is_lower_hex(text);
    if !(whole && shaped) {
        return None;
    }
    let link = SpanLink { trace_id: trace.parse().ok()?, span_id: span.parse().ok()? };
    let zero = link.trace_id.to_bytes() == [0; 16] || link.span_id.to_bytes() == [0; 8];
    (!zero).then_some(link)
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().take(55).all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", value.parse().expect("a header value"));
        link(&headers).map(|link| format!("{} {}", link.trace_id, link.span_id))
    }

    #[test]
    fn the_example_of_the_standard() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(parse(given).as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7"));
    }

    #[test]
    fn broken_ones_are_as_none() {
        for given in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert_eq!(parse(given), None, "{given}");
        }
    }
}
