//! The object or list that a text is, with all that stands in it: of keys that stand twice, both
//! entries. It must never know what is a secret.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// The object or list that a text is, if it is one. A key that stands again gets a number (`a 2`).
pub fn structure(text: &str) -> Option<Value> {
    let whole = |text| serde_json::from_str(text).ok().map(|Whole(value)| value);
    text.trim_start().starts_with(['{', '[']).then(|| whole(text)).flatten()
}

/// Entries of an object, of which none takes the place of another.
#[derive(Debug, Default)]
pub(super) struct Entries {
    map: Map<String, Value>,
    /// Where the last repeat of each key stopped, since a list may have thousands of them.
    repeats: HashMap<String, u64>,
}

/// A JSON value with all its entries, where `Value` alone would keep the last of each key.
struct Whole(Value);

/// Makes it.
struct Making;

impl Entries {
    /// Adds an entry, under its key with a number where that is taken.
    pub(super) fn add(&mut self, key: String, value: Value) {
        let key = self.untaken(key);
        self.map.insert(key, value);
    }

    /// The entries as an object.
    pub(super) fn into_value(self) -> Value {
        Value::Object(self.map)
    }

    fn untaken(&mut self, key: String) -> String {
        if !self.map.contains_key(&key) {
            return key;
        }
        let number = self.repeats.entry(key.clone()).or_insert(1);
        loop {
            *number += 1;
            let numbered = format!("{key} {number}");
            if !self.map.contains_key(&numbered) {
                return numbered;
            }
        }
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Making).map(Self)
    }
}

impl<'de> Visitor<'de> for Making {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Whole(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Value, A::Error> {
        let mut entries = Entries::default();
        while let Some((key, Whole(value))) = given.next_entry()? {
            entries.add(key, value);
        }
        Ok(entries.into_value())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_sort_of_value_is_as_serde_reads_it() {
        let text = r#" {"a": [null, true, -1, 18446744073709551615, 1.5, 1e30, "\u0040"], "b": {"c": {}}, "": []}"#;
        assert_eq!(structure(text), Some(serde_json::from_str::<Value>(text).expect("it is JSON")));
        for text in ["1", "\"a\"", "null", "", "{", "{\"a\": 1} b", "[1,]"] {
            assert_eq!(structure(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_two_entries() {
        assert_eq!(structure(r#"{"a": 1, "a 2": 2, "a": 3}"#), Some(json!({"a": 1, "a 2": 2, "a 3": 3})));
        assert_eq!(
            structure(r#"[{"p": [1], "\u0070": {"q": 1, "q": 2}}]"#),
            Some(json!([{"p": [1], "p 2": {"q": 1, "q 2": 2}}]))
        );
    }
}
