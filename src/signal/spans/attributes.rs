//! Attribute values of spans: integers as `i64`, strings capped, what others wrote cleaned. Knows
//! no fact.

use std::borrow::Cow;

use opentelemetry::{Array, KeyValue, StringValue, Value, trace::Status};
use opentelemetry_sdk::trace::SpanData;

use crate::signal::redact;

/// Bytes of one attribute string at the most. The SDK has no such limit, and one long string can
/// make a collector refuse the whole batch around it.
pub const MAX_ATTRIBUTE_BYTES: usize = 1024;

/// Cleans a span that was not made here: in its name, its attributes and its events, what looks
/// like personal data or a secret is replaced by a mark, and every string is capped.
pub fn clean(span: &mut SpanData) {
    clean_cow(&mut span.name);
    if let Status::Error { description } = &mut span.status {
        clean_cow(description);
    }
    span.events.events.iter_mut().for_each(|event| clean_cow(&mut event.name));
    let events = span.events.events.iter_mut().flat_map(|event| event.attributes.iter_mut());
    let links = span.links.links.iter_mut().flat_map(|link| link.attributes.iter_mut());
    for attribute in span.attributes.iter_mut().chain(events).chain(links) {
        clean_value(&mut attribute.value);
    }
}

/// A string attribute.
pub(super) fn string(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, capped(value).to_owned())
}

/// A string attribute that a model or a caller chose.
pub(super) fn foreign(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, cleaned(value).unwrap_or_else(|| value.to_owned()))
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

fn clean_value(value: &mut Value) {
    if let Value::String(text) = value {
        clean_text(text);
    } else if let Value::Array(Array::String(texts)) = value {
        texts.iter_mut().for_each(clean_text);
    } else if let Value::I64(number) = value
        // It may be that of a phone or a card.
        && let Some(mark) = cleaned(&number.to_string())
    {
        *value = Value::String(mark.into());
    }
}

fn clean_text(text: &mut StringValue) {
    if let Some(clean) = cleaned(text.as_str()) {
        *text = clean.into();
    }
}

fn clean_cow(text: &mut Cow<'static, str>) {
    if let Some(clean) = cleaned(text) {
        *text = Cow::Owned(clean);
    }
}

/// The text as it may be shown; nothing where it may be shown as it is.
fn cleaned(text: &str) -> Option<String> {
    // More than is kept is looked at, so that the cap makes no half of a number that would be
    // known as a whole; and not all, for a text may be long.
    let looked_at = &text[..text.floor_char_boundary(4 * MAX_ATTRIBUTE_BYTES)];
    let clean = redact(looked_at);
    let changed = clean != looked_at || clean.len() > MAX_ATTRIBUTE_BYTES;
    changed.then(|| capped(&clean).to_owned())
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

    #[test]
    fn what_others_wrote_is_cleaned_before_it_is_capped() {
        assert_eq!(cleaned("rows of a table"), None);
        assert_eq!(cleaned("call +7 701 123 45 67").as_deref(), Some("call [phone]"));
        // The cap alone would leave twelve digits of the card.
        let text = format!("{} 4111 1111 1111 1111", "x".repeat(MAX_ATTRIBUTE_BYTES - 15));
        let clean = cleaned(&text).expect("it is too long");
        assert!(clean.ends_with(" [card]") && clean.len() <= MAX_ATTRIBUTE_BYTES, "{clean}");
        let mut number = Value::I64(4_111_111_111_111_111);
        clean_value(&mut number);
        assert_eq!(number, Value::String("[card]".into()));
        let mut rows = Value::I64(3);
        clean_value(&mut rows);
        assert_eq!(rows, Value::I64(3));
        assert_eq!(foreign("k", "a@b.kz"), KeyValue::new("k", "[email]"));
        assert_eq!(cleaned(&"z".repeat(6_000_000)).map(|text| text.len()), Some(MAX_ATTRIBUTE_BYTES));
    }
}
