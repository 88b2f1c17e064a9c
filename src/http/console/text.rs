//! Texts of people, models and tools as a page shows them: what cannot be seen, or turns the
//! writing around, is made visible. The templates then escape what HTML would read.
//!
//! It must never make HTML.

use serde_json::Value;

/// Letters of one text at the most; the journal has the rest.
const LONGEST: usize = 32_768;
/// Letters of a text that stands in a line.
const LINE: usize = 200;

/// A text over several lines.
pub(super) fn block(text: &str) -> String {
    visible(text, LONGEST, |letter| letter == '\n' || letter == '\t')
}

/// A text within a line.
pub(super) fn line(text: &str) -> String {
    visible(text, LINE, |_| false)
}

/// JSON for people.
pub(super) fn json(value: &Value) -> String {
    block(&serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()))
}

fn visible(text: &str, longest: usize, keeps: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len().min(longest));
    let mut letters = text.chars();
    for letter in letters.by_ref().take(longest) {
        if !keeps(letter) && is_unseen(letter) {
            shown.push_str(&format!("[U+{:04X}]", u32::from(letter)));
        } else {
            shown.push(letter);
        }
    }
    let left = letters.count();
    if left > 0 {
        shown.push_str(&format!(" … (+{left})"));
    }
    shown
}

/// Control characters, marks that turn the direction, letters without width, and the hidden tags
/// that carry text past a reader.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_turns_or_hides_text_is_seen() {
        assert_eq!(block("pay \u{202e}001\u{202c} ok"), "pay [U+202E]001[U+202C] ok");
        assert_eq!(block("a\u{200b}b\u{2066}c\u{feff}\u{e0041}"), "a[U+200B]b[U+2066]c[U+FEFF][U+E0041]");
        assert_eq!(block("\u{1b}[31mred\r\n\u{0}"), "[U+001B][31mred[U+000D]\n[U+0000]");
        assert_eq!(line("two\nlines"), "two[U+000A]lines");
    }

    #[test]
    fn writing_of_people_stays_as_it_is() {
        for text in ["Сколько я потратил? 5000 ₸", "👩\u{200d}💻 naïve", "نص", "a\n\tb"] {
            assert_eq!(block(text), text);
        }
    }

    #[test]
    fn what_is_too_long_says_how_much_is_left_out() {
        assert_eq!(line(&"я".repeat(LINE + 3)), format!("{} … (+3)", "я".repeat(LINE)));
        assert_eq!(json(&json!({"a": "<b>"})), "{\n  \"a\": \"<b>\"\n}");
    }
}
