//! Text and JSON as a span shows them: masked where that is asked for, and never longer than
//! their room. What does not fit is cut inside its texts, so that JSON stays JSON. Knows no fact
//! and no message.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::{core::fact::SpanContent, signal::redact};

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
    mode: SpanContent,
    /// Bytes of one text at the most.
    cap: usize,
    whole: bool,
}

/// What `make` writes, as JSON of at most so many bytes: with its texts as long as they may be
/// for that. Nothing where it has no room even with the shortest.
pub(super) fn fit(mode: SpanContent, room: usize, make: impl Fn(&mut Pen) -> Value) -> Option<Made> {
    let mut cap = room;
    while cap >= LEAST {
        let mut pen = Pen { mode, cap, whole: true };
        let text = make(&mut pen).to_string();
        if text.len() <= room {
            return Some(Made { text, whole: pen.whole });
        }
        cap = cap * 3 / 4;
    }
    None
}

/// A value as JSON of at most so many bytes.
pub(super) fn value(mode: SpanContent, room: usize, value: &Value) -> Made {
    fit(mode, room, |pen| pen.value(value)).unwrap_or_else(|| {
        let bytes = value.to_string().len();
        Made { text: json!({ OMITTED: bytes }).to_string(), whole: false }
    })
}

/// Text of at most so many bytes. Where it is JSON, it stays JSON.
pub(super) fn text(mode: SpanContent, room: usize, text: &str) -> Made {
    let mut pen = Pen { mode, cap: usize::MAX, whole: true };
    let shown = pen.masked(text);
    if shown.len() <= room {
        return Made { text: shown.into_owned(), whole: true };
    }
    if let Some(structure) = redact::structure(text) {
        return value(mode, room, &structure);
    }
    pen.cap = room.saturating_sub(NOTE);
    Made { text: pen.cut(shown), whole: pen.whole }
}

impl Pen {
    /// A text as it is shown.
    pub(super) fn text(&mut self, text: &str) -> String {
        let shown = self.masked(text);
        self.cut(shown)
    }

    /// A JSON value as it is shown.
    pub(super) fn value(&mut self, value: &Value) -> Value {
        if self.mode == SpanContent::Full { self.shorten(value) } else { self.shorten(&redact::redact_json(value)) }
    }

    fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.mode == SpanContent::Full { Cow::Borrowed(text) } else { redact::redact_text(text) }
    }

    fn cut(&mut self, text: Cow<'_, str>) -> String {
        if text.len() <= self.cap {
            return text.into_owned();
        }
        self.whole = false;
        let kept = &text[..text.floor_char_boundary(self.cap)];
        format!("{kept} [{} bytes left out]", text.len() - kept.len())
    }

    fn shorten(&mut self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(self.cut(Cow::Borrowed(text))),
            Value::Array(items) => items.iter().map(|item| self.shorten(item)).collect(),
            Value::Object(map) => {
                let entry = |(key, value): (&String, &Value)| (self.cut(Cow::Borrowed(key)), self.shorten(value));
                Value::Object(map.iter().map(entry).collect::<Map<_, _>>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: SpanContent = SpanContent::Full;
    const MASKED: SpanContent = SpanContent::Masked;

    #[test]
    fn what_fits_is_shown_as_it_is() {
        assert_eq!(text(FULL, 100, "{ \"a\": 1 }"), Made { text: "{ \"a\": 1 }".into(), whole: true });
        assert_eq!(text(MASKED, 100, "tel 87011234567"), Made { text: "tel [phone]".into(), whole: true });
        let given = json!({"a": "87011234567", "b": [4_111_111_111_111_111_u64]});
        assert_eq!(value(FULL, 100, &given).text, given.to_string());
        assert_eq!(value(MASKED, 100, &given).text, r#"{"a":"[phone]","b":["[card]"]}"#);
    }

    #[test]
    fn what_does_not_fit_is_cut_inside_its_texts() {
        // 1 + 2 * 200 bytes; the cut must not fall inside a letter.
        let long = format!("a{}", "я".repeat(200));
        let made = text(FULL, 200, &long);
        assert_eq!(made, Made { text: format!("a{} [242 bytes left out]", "я".repeat(79)), whole: false });
        let made = value(FULL, 300, &json!({"id": 7, "text": long, "more": "short"}));
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
        let made = text(FULL, 500, &rows);
        assert_eq!(made, Made { text: format!("{{\"glassbox.omitted\":{}}}", rows.len()), whole: false });
    }

    #[test]
    fn a_mask_comes_before_the_cut() {
        // The cut alone would leave twelve digits of the card.
        let given = format!("{} 4111 1111 1111 1111 {}", "x".repeat(145), "y".repeat(100));
        let made = text(MASKED, 200, &given);
        assert!(made.text.contains(" [card] yyy") && !made.text.contains("4111"), "{}", made.text);
    }

    #[test]
    fn escapes_count() {
        let made = value(FULL, 1000, &json!("\u{1}".repeat(900)));
        assert!(made.text.len() <= 1000 && !made.whole);
        assert!(serde_json::from_str::<String>(&made.text).is_ok());
    }
}
