//! JSON as models write it who were shown little of it: single quotes, bare names, a comma too
//! many, the `True` and `None` of Python.
//!
//! Whatever else is wrong with it makes it no value: nothing is left out and nothing is added.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::{Map, Value};

/// A value may nest this deep.
const MAX_DEPTH: usize = 32;

/// The value that is the whole text.
pub(super) fn value(text: &str) -> Option<Value> {
    let mut cursor = Cursor { letters: text.chars().peekable() };
    let value = cursor.value(MAX_DEPTH)?;
    cursor.skip_space();
    cursor.letters.next().is_none().then_some(value)
}

struct Cursor<'a> {
    letters: Peekable<Chars<'a>>,
}

impl Cursor<'_> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        match self.next_sign()? {
            '{' => self.object(depth),
            '[' => self.array(depth),
            '"' | '\'' => self.quoted().map(Value::String),
            _ => self.bare(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.letters.next();
        let mut fields = Map::new();
        loop {
            if self.takes('}') {
                return Some(Value::Object(fields));
            }
            let name = self.name()?;
            if !self.takes(':') && !self.takes('=') {
                return None;
            }
            // One name twice has no meaning that could be told.
            if fields.insert(name, self.value(depth)?).is_some() {
                return None;
            }
            if !self.takes(',') && self.next_sign()? != '}' {
                return None;
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.letters.next();
        let mut items = Vec::new();
        loop {
            if self.takes(']') {
                return Some(Value::Array(items));
            }
            items.push(self.value(depth)?);
            if !self.takes(',') && self.next_sign()? != ']' {
                return None;
            }
        }
    }

    fn name(&mut self) -> Option<String> {
        if matches!(self.next_sign()?, '"' | '\'') {
            return self.quoted();
        }
        let mut name = String::new();
        while let Some(letter) = self.letters.next_if(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'))
        {
            name.push(letter);
        }
        (!name.is_empty()).then_some(name)
    }

    /// A text in quotes of either kind, by the rules of JSON but for its line breaks.
    fn quoted(&mut self) -> Option<String> {
        let quote = self.letters.next()?;
        let mut json = String::from('"');
        loop {
            match self.letters.next()? {
                '\\' => match self.letters.next()? {
                    '\'' => json.push('\''),
                    letter => json.extend(['\\', letter]),
                },
                letter if letter == quote => break,
                '"' => json.push_str("\\\""),
                '\n' => json.push_str("\\n"),
                '\t' => json.push_str("\\t"),
                '\r' => json.push_str("\\r"),
                letter => json.push(letter),
            }
        }
        json.push('"');
        serde_json::from_str(&json).ok()
    }

    /// A number, a word of JSON or Python, or text up to the next sign.
    fn bare(&mut self) -> Option<Value> {
        let mut text = String::new();
        while let Some(letter) = self.letters.next_if(|letter| !matches!(letter, ',' | '}' | ']' | '{' | '[' | '\n')) {
            text.push(letter);
        }
        let text = text.trim();
        Some(match text {
            "" => return None,
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            _ => serde_json::from_str(text).ok().filter(Value::is_number).unwrap_or_else(|| Value::from(text)),
        })
    }

    fn takes(&mut self, sign: char) -> bool {
        self.skip_space();
        self.letters.next_if_eq(&sign).is_some()
    }

    fn next_sign(&mut self) -> Option<char> {
        self.skip_space();
        self.letters.peek().copied()
    }

    fn skip_space(&mut self) {
        while self.letters.next_if(|letter| letter.is_whitespace()).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_models_write_is_read_as_what_it_says() {
        for (text, expected) in [
            ("{'city': 'Paris',}", json!({"city": "Paris"})),
            ("{city: Paris, days: 3}", json!({"city": "Paris", "days": 3})),
            ("{city='New York', unit=c}", json!({"city": "New York", "unit": "c"})),
            ("{'a': True, 'b': None, 'c': [1, 2.5,], }", json!({"a": true, "b": null, "c": [1, 2.5]})),
            (r#"{'say': 'it\'s "so"'}"#, json!({"say": "it's \"so\""})),
            ("{\"text\": \"two\nlines\"}", json!({"text": "two\nlines"})),
            ("{город: Алматы}", json!({"город": "Алматы"})),
            (" { } ", json!({})),
            ("{when: 12:30}", json!({"when": "12:30"})),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_says_nothing_certain_is_no_value() {
        let deep = "[".repeat(10_000);
        let texts =
            ["", "{", "{a}", "{a:}", "{a: 1", "{a: 1, a: 2}", "{} x", "{'a': 'b}", "{a: [1}", "{,}", "{'a' 1}", &deep];
        for text in texts {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
