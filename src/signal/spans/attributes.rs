//! Attribute values of spans: integers as `i64`, strings capped. Knows no fact.

use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;

/// Bytes of one attribute string at the most. The SDK has no such limit, and one long string can
/// make a collector refuse the whole batch around it.
pub const MAX_ATTRIBUTE_BYTES: usize = 1024;

/// Caps every string of a span that was not made here.
pub fn cap_strings(span: &mut SpanData) {
    let events = span.events.events.iter_mut().flat_map(|event| event.attributes.iter_mut());
    let links = span.links.links.iter_mut().flat_map(|link| link.attributes.iter_mut());
    for attribute in span.attributes.iter_mut().chain(events).chain(links) {
        cap_value(&mut attribute.value);
    }
}

/// A string attribute.
pub(super) fn string(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, capped(value).to_owned())
}

/// A list of one string.
pub(super) fn strings(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, Value::Array(Array::String(vec![capped(value).to_owned().into()])))
}

/// An integer attribute. OpenTelemetry knows signed ones only.
pub(super) fn integer(key: &'static str, value: impl TryInto<i64>) -> KeyValue {
    KeyValue::new(key, value.try_into().unwrap_or(i64::MAX))
}

/// The longest start of a text that fits, ending between two characters.
pub(super) fn capped(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_ATTRIBUTE_BYTES)]
}

fn cap_value(value: &mut Value) {
    if let Value::String(text) = value {
        cap_text(text);
    } else if let Value::Array(Array::String(texts)) = value {
        texts.iter_mut().for_each(cap_text);
    }
}

fn cap_text(text: &mut StringValue) {
    if text.as_str().len() > MAX_ATTRIBUTE_BYTES {
        *text = capped(text.as_str()).to_owned().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_between_two_characters() {
        // 1 + 2 * 600 bytes; byte 1024 would cut the 512th letter in two.
        let text = format!("a{}", "я".repeat(600));
        let short = capped(&text);
        assert_eq!(short.len(), 1023);
        assert!(short.ends_with('я'));
        assert_eq!(capped("short"), "short");
    }

    #[test]
    fn a_count_past_the_signed_range_saturates() {
        assert_eq!(integer("k", u64::MAX), KeyValue::new("k", i64::MAX));
        assert_eq!(integer("k", 7_u32), KeyValue::new("k", 7_i64));
    }
}
