//! The caller's W3C `traceparent`, which a session links to, or joins.

use axum::http::HeaderMap;

use crate::{core::fact::SpanLink, session::Upstream};

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
struct Incoming {
    /// The span that the caller is in.
    span: SpanLink,
    /// Whether it is recorded.
    sampled: bool,
}

/// What becomes of the caller's span: the trace of a trusted caller is joined, any other is linked.
pub(super) fn upstream(headers: &HeaderMap, trusted: bool) -> Upstream {
    match read(headers) {
        None => Upstream::None,
        Some(Incoming { span, sampled }) if trusted => Upstream::Joined { span, sampled },
        Some(Incoming { span, .. }) => Upstream::Linked(span),
    }
}

/// What the caller says of its trace, if its header is well-formed; a broken one is as none.
fn read(headers: &HeaderMap) -> Option<Incoming> {
    let mut sent = headers.get_all("traceparent").iter();
    let (text, None) = (sent.next()?.to_str().ok()?, sent.next()) else { return None };
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let future = version != "00";
    let whole = future || parts.next().is_none();
    let shaped = version.len() == 2 && version != "ff" && flags.len() == 2 && is_lower_hex(text);
    if !(whole && shaped) {
        return None;
    }
    let span = SpanLink { trace_id: trace.parse().ok()?, span_id: parent.parse().ok()? };
    let zero = span.trace_id.to_bytes() == [0; 16] || span.span_id.to_bytes() == [0; 8];
    let sampled = u8::from_str_radix(flags, 16).ok()? & SAMPLED != 0;
    (!zero).then_some(Incoming { span, sampled })
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
        read(&headers).map(|read| format!("{} {} {}", read.span.trace_id, read.span.span_id, read.sampled))
    }

    #[test]
    fn the_example_of_the_standard() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(parse(given).as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7 true"));
    }

    #[test]
    fn one_bit_of_the_flags_is_the_sampling_decision() {
        for (flags, sampled) in [("00", false), ("01", true), ("02", false), ("03", true), ("ff", true)] {
            let given = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
            assert!(parse(&given).expect(&given).ends_with(&format!(" {sampled}")), "{given}");
        }
    }

    #[test]
    fn two_of_them_are_as_none() {
        let mut headers = HeaderMap::new();
        for last in ["7", "8"] {
            let value = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b{last}-01");
            headers.append("traceparent", value.parse().expect("a header value"));
        }
        assert_eq!(read(&headers), None);
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
