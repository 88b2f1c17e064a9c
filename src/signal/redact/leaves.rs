//! The redactor for JSON: every text of a value by itself, so that what is left is JSON still. It
//! must never know whose value it is.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::{
    redact,
    structure::{Entries, structure},
};

/// A JSON value in which every text, every key and every number that looks like personal data or a
/// secret is replaced by its mark, and so is what stands under a key such as `password`.
pub fn redact_json(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(number) => redact_number(number).map_or_else(|| value.clone(), Value::String),
        Value::String(text) => Value::String(redact_text(text).into_owned()),
        Value::Array(items) => items.iter().map(redact_json).collect(),
        Value::Object(map) => redact_map(map),
    }
}

/// Text that may be JSON: then its parts are redacted, since an escape could hide them.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    let Some(value) = structure(text) else { return redact(text) };
    let clean = redact_json(&value);
    // As it came, where nothing had to go, neither of its parts nor of the text as such: its
    // spaces are its own.
    if clean == value && redact(text) == text { Cow::Borrowed(text) } else { Cow::Owned(clean.to_string()) }
}

fn redact_map(map: &Map<String, Value>) -> Value {
    let mut clean = Entries::default();
    for (key, value) in map {
        let value = if names_a_secret(key) { hide(value) } else { redact_json(value) };
        clean.add(redact(key).into_owned(), value);
    }
    clean.into_value()
}

/// What stands under a name that makes it a secret. An object there is more often the description
/// of one, as in a schema: its own names tell.
fn hide(value: &Value) -> Value {
    match value {
        Value::String(_) | Value::Number(_) => "[key]".into(),
        Value::Array(items) => items.iter().map(hide).collect(),
        Value::Null | Value::Bool(_) | Value::Object(_) => redact_json(value),
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
/// both know the same names. A number behind it (`password2`) makes no other name of it.
fn names_a_secret(name: &str) -> bool {
    let name = name.trim_end_matches(|c: char| c == ' ' || c.is_ascii_digit());
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
    #[test]
    fn of_a_key_that_stands_twice_both_values_are_redacted() {
        for (text, expected) in [
            (r#"{"a":"ivan@mail.kz 87011234567","a":"x"}"#, r#"{"a":"[email] [phone]","a 2":"x"}"#),
            (r#"[{"p":"4111111111111111","p":1}]"#, r#"[{"p":"[card]","p 2":1}]"#),
            (r#"{"a":"ivan\u0040mail.kz","a":"x"}"#, r#"{"a":"[email]","a 2":"x"}"#),
            (r#"{"password":"x1","password":"y2"}"#, r#"{"password":"[key]","password 2":"[key]"}"#),
            (r#"{"a": 1, "a": 2}"#, r#"{"a": 1, "a": 2}"#),
        ] {
            assert_eq!(redact_text(text), expected, "{text}");
        }
    }

    #[test]
    fn lists_under_the_name_of_a_secret_are_secrets() {
        let value = json!({
            "password": ["hunter22", 1234, null, ["x"]], "api_keys": ["a", "b"], "token": "abcdefgh",
            "DB_PASSWORD": "x", "пароль": "x", "SecretAccessKey": "x", "password2": "x",
            "tokens": [12, 34], "next_token": "abcdefgh", "required": ["password"],
            "properties": {"password": {"type": ["string", "null"]}}, "secret": false,
        });
        assert_eq!(
            redact_json(&value),
            json!({
                "password": ["[key]", "[key]", null, ["[key]"]], "api_keys": ["[key]", "[key]"], "token": "[key]",
                "DB_PASSWORD": "[key]", "пароль": "[key]", "SecretAccessKey": "[key]", "password2": "[key]",
                "tokens": [12, 34], "next_token": "abcdefgh", "required": ["password"],
                "properties": {"password": {"type": ["string", "null"]}}, "secret": false,
            })
        );
    }

    #[test]
    fn what_only_looks_like_a_secret_as_text_leaves_json_as_json() {
        assert_eq!(redact_text(r#"{"password": false}"#), r#"{"password":false}"#);
    }
}
