//! The redactor for JSON: every text of a value by itself, so that what is left is JSON still. It
//! must never know whose value it is.

use std::{borrow::Cow, collections::HashMap};

use serde_json::{Map, Number, Value};

use super::redact;

/// A JSON value in which every text, every key and every number that looks like personal data or a
/// secret is replaced by its mark, and so is what stands under a key such as `password`.
pub fn redact_json(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(number) => redact_number(number).map_or_else(|| value.clone(), Value::String),
        Value::String(text) => Value::String(redact_text(text).into_owned()),
        Value::Array(items) => items.iter().map(redact_json).collect(),
        Value::Object(map) => Value::Object(redact_map(map)),
    }
}

/// Text that may be JSON: then its parts are redacted, since an escape could hide them.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    let Some(value) = structure(text) else { return redact(text) };
    let clean = redact_json(&value);
    // As it came, where nothing had to go: its spaces are its own.
    if clean == value { Cow::Borrowed(text) } else { Cow::Owned(clean.to_string()) }
}

/// The object or list that a text is, if it is one.
pub fn structure(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten()
}

fn redact_map(map: &Map<String, Value>) -> Map<String, Value> {
    let (mut clean, mut repeats) = (Map::new(), HashMap::new());
    for (key, value) in map {
        let hidden = matches!(value, Value::String(_) | Value::Number(_)) && names_a_secret(key);
        let value = if hidden { Value::from("[key]") } else { redact_json(value) };
        let key = untaken(&clean, &mut repeats, redact(key).into_owned());
        clean.insert(key, value);
    }
    clean
}

/// The key, with a number where it is taken: two phone numbers as keys are still two entries. Where
/// the last repeat of each key stopped is remembered, since a list may have thousands of them.
fn untaken(clean: &Map<String, Value>, repeats: &mut HashMap<String, u64>, key: String) -> String {
    if !clean.contains_key(&key) {
        return key;
    }
    let number = repeats.entry(key.clone()).or_insert(1);
    loop {
        *number += 1;
        let numbered = format!("{key} {number}");
        if !clean.contains_key(&numbered) {
            return numbered;
        }
    }
}

/// The mark of a number that may be that of a phone, a card or a person.
fn redact_number(number: &Number) -> Option<String> {
    let text = match number.as_f64() {
        // In digits, where it would be written with an exponent.
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e19 => format!("{float:.0}"),
        _ => number.to_string(),
    };
    match redact(&text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(mark) => (mark != text).then_some(mark),
    }
}

/// Whether what stands under this name is a secret by that alone: asked of the redactor, so that
/// both know the same names.
fn names_a_secret(name: &str) -> bool {
    redact(&format!("{name}=________")).ends_with("=[key]")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_leaf_is_redacted_by_itself_and_json_stays_json() {
        let value = json!({
            "to": {"+77011234567": ["ivan@mail.kz", 5000, true, null], "account": "DE89370400440532013000"},
            "card": 4_111_111_111_111_111_u64,
            "float": 4_111_111_111_111_111.0,
            "amount": 12500.5,
            "api_key": "abc",
            "password": 123_456,
            "authToken": {"kind": "none"},
            "note": "{\"mail\": \"ivan\\u0040mail.kz\"}",
        });
        assert_eq!(
            redact_json(&value),
            json!({
                "to": {"[phone]": ["[email]", 5000, true, null], "account": "[iban]"},
                "card": "[card]",
                "float": "[card]",
                "amount": 12500.5,
                "api_key": "[key]",
                "password": "[key]",
                "authToken": {"kind": "none"},
                "note": "{\"mail\":\"[email]\"}",
            })
        );
    }

    #[test]
    fn no_entry_is_lost_where_keys_become_the_same_mark() {
        let value = json!({"87011234567": 1, "[phone] 2": 2, "87021234567": 3});
        assert_eq!(redact_json(&value), json!({"[phone]": 1, "[phone] 2": 2, "[phone] 3": 3}));
    }

    #[test]
    fn many_keys_of_one_mark_stay_short() {
        let phones: Map<_, _> = (0..3000).map(|number| (format!("8701{number:07}"), number.into())).collect();
        let clean = redact_json(&Value::Object(phones));
        let clean = clean.as_object().expect("a map");
        assert_eq!(clean.len(), 3000);
        assert_eq!(clean.get("[phone] 3000"), Some(&json!(2999)));
    }

    #[test]
    fn text_that_is_clean_stays_as_it_is_and_other_text_is_text() {
        for clean in ["{ \"a\" : [1, 2] }", "[]", "no json: {", "Такси: 5000 ₸"] {
            assert_eq!(redact_text(clean), clean);
        }
        assert_eq!(redact_text("[{\"tel\": \"87011234567\"}]"), "[{\"tel\":\"[phone]\"}]");
        assert_eq!(redact_text("{tel: 87011234567"), "{tel: [phone]");
    }
}
