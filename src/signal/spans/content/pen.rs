//! Text and JSON as a span shows them, never longer than their room. What does not fit is cut
//! inside its texts, so that JSON stays JSON. Knows no fact and no message.

use serde_json::{Map, Value, json};

use crate::signal::redact;

/// Texts are not cut shorter than this: names of tools stay whole.
const LEAST: usize = 64;
/// Room for the words that say how much was cut.
const NOTE: usize = 40;

/// What stands in the place of what was left out: the type of a part or a tool, or the one key of
/// a value that had no room at all.
pub(super) const OMITTED: &str = "glassbox.omitted";

/// What became of something that was to be shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Made {
    /// What is shown.
    pub(super) text: String,
    /// Whether that is all of it.
    pub(super) whole: bool,
}

/// Writes texts and values of one thing that is shown.
#[derive(Debug)]
pub(super) struct Pen {
    /// Bytes of one text at the most.
    cap: usize,
    whole: bool,
}

/// What `make` writes, as JSON of at most so many bytes: with its texts as long as they may be
/// for that. Nothing where it has no room even with the shortest.
pub(super) fn fit(room: usize, make: impl Fn(&mut Pen) -> Value) -> Option<Made> {
    let mut cap = room;
    while cap >= LEAST {
        let mut pen = Pen { cap, whole: true };
        let text = make(&mut pen).to_string();
        if text.len() <= room {
            return Some(Made { text, whole: pen.whole });
        }
        cap = cap * 3 / 4;
    }
    None
}

/// A value as JSON of at most so many bytes.
pub(super) fn value(room: usize, value: &Value) -> Made {
    fit(room, |pen| pen.value(value)).unwrap_or_else(|| {
        let bytes = value.to_string().len();
        Made { text: json!({ OMITTED: bytes }).to_string(), whole: false }
    })
}

/// Text of at most so many bytes. Where it is JSON, it stays JSON.
pub(super) fn text(room: usize, text: &str) -> Made {
    if text.len() <= room {
        return Made { text: text.to_owned(), whole: true };
    }
    if let Some(structure) = redact::structure(text) {
        return value(room, &structure);
    }
    let mut pen = Pen { cap: room.saturating_sub(NOTE), whole: true };
    Made { text: pen.text(text), whole: pen.whole }
}

impl Pen {
    /// A text as it is shown.
    pub(super) fn text(&mut self, text: &str) -> String {
        if text.len() <= self.cap {
            return text.to_owned();
        }
        self.whole = false;
        let kept = &text[..text.floor_char_boundary(self.cap)];
        format!("{kept} [{} bytes left out]", text.len() - kept.len())
    }

    /// A JSON value as it is shown.
    pub(super) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => {
                let entry = |(key, value): (&String, &Value)| (self.text(key), self.value(value));
                Value::Object(map.iter().map(entry).collect::<Map<_, _>>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_shown_as_it_is() {
        assert_eq!(text(100, "{ \"a\": 1 }"), Made { text: "{ \"a\": 1 }".into(), whole: true });
        let given = json!({"a": "x", "b": [1]});
        assert_eq!(value(100, &given), Made { text: given.to_string(), whole: true });
    }

    #[test]
    fn what_does_not_fit_is_cut_inside_its_texts() {
        // 1 + 2 * 200 bytes; the cut must not fall inside a letter.
        let long = format!("a{}", "я".repeat(200));
        let made = text(200, &long);
        assert_eq!(made, Made { text: format!("a{} [242 bytes left out]", "я".repeat(79)), whole: false });
        let made = value(300, &json!({"id": 7, "text": long, "more": "short"}));
        let back: Value = serde_json::from_str(&made.text).expect("it stays JSON");
        assert!(!made.whole && made.text.len() <= 300, "{}", made.text);
        assert_eq!((&back["id"], &back["more"]), (&json!(7), &json!("short")));
        assert!(
            back["text"].as_str().is_some_and(|text| text.starts_with("aяяя") && text.ends_with(" bytes left out]"))
        );
    }

    #[test]
    fn a_text_that_is_json_stays_json_however_little_room_there_is() {
        let rows: Vec<_> = (0..1000).map(|row| json!({"row": row})).collect();
        let rows = Value::from(rows).to_string();
        let made = text(500, &rows);
        assert_eq!(made, Made { text: format!("{{\"glassbox.omitted\":{}}}", rows.len()), whole: false });
    }

    #[test]
    fn escapes_count() {
        let made = value(1000, &json!("\u{1}".repeat(900)));
        assert!(made.text.len() <= 1000 && !made.whole);
        assert!(serde_json::from_str::<String>(&made.text).is_ok());
    }
}
