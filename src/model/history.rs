//! What every provider asks of the history that it is sent: names, ids and arguments of calls in
//! a form that it takes, whatever a model wrote.
//!
//! It must never know a provider's wire format.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::core::Arguments;

/// The longest name of a tool that every provider takes.
const MAX_NAME: usize = 64;
/// The key under which arguments that are no object go back to the model.
const RAW: &str = "raw_arguments";

/// A name that providers take: a model may have invented one with other characters, and a request
/// whose history holds it would be refused for ever.
pub(super) fn tool_name(name: &str) -> Cow<'_, str> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(fits_name);
    if fits {
        return Cow::Borrowed(name);
    }
    let name: String = name.chars().take(MAX_NAME).map(|c| if fits_name(c) { c } else { '_' }).collect();
    Cow::Owned(if name.is_empty() { "unnamed".to_owned() } else { name })
}

/// An id in the letters that Anthropic takes; ids of other providers may hold dots and colons.
pub(super) fn call_id(id: &str) -> Cow<'_, str> {
    if id.chars().all(fits_name) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.chars().map(|c| if fits_name(c) { c } else { '_' }).collect())
}

/// The arguments as an object. Text that is no JSON, and JSON that is no object, stands under a
/// key: servers parse the arguments of the history too, and refuse what they cannot read.
pub(super) fn arguments(arguments: &Arguments) -> Cow<'_, Map<String, Value>> {
    let raw = |value: Value| Cow::Owned(Map::from_iter([(RAW.to_owned(), value)]));
    match arguments {
        Arguments::Json(Value::Object(map)) => Cow::Borrowed(map),
        Arguments::Json(Value::Null) => Cow::Owned(Map::new()),
        Arguments::Json(other) => raw(other.clone()),
        Arguments::Raw(text) => raw(Value::from(text.as_str())),
    }
}

const fn fits_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_ids_that_models_invent_become_acceptable() {
        assert_eq!(tool_name("txn_sum"), "txn_sum");
        assert_eq!(tool_name("узнать баланс!"), "_____________".to_owned() + "_");
        assert_eq!(tool_name("a.b c"), "a_b_c");
        assert_eq!(tool_name(""), "unnamed");
        assert_eq!(tool_name(&"x".repeat(100)).len(), 64);
        assert_eq!(call_id("functions.get:0"), "functions_get_0");
        assert_eq!(call_id("toolu_01-A"), "toolu_01-A");
    }

    #[test]
    fn arguments_always_go_back_as_an_object() {
        let sent = |arguments_: Arguments| Value::Object(arguments(&arguments_).into_owned());
        assert_eq!(sent(Arguments::Json(json!({"a": 1}))), json!({"a": 1}));
        assert_eq!(sent(Arguments::Json(Value::Null)), json!({}));
        assert_eq!(sent(Arguments::Json(json!([1]))), json!({"raw_arguments": [1]}));
        assert_eq!(sent(Arguments::Raw("{\"a\":".into())), json!({"raw_arguments": "{\"a\":"}));
    }
}
