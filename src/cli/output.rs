//! What reaches the terminal: lines on the standard output, and the form in which text of models
//! and tools may stand in them.
//!
//! It must never know what a line says.

use std::{
    io::{self, ErrorKind, Write as _},
    sync::OnceLock,
};

/// The first line that could not be written.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// Writes a line to the standard output. A reader that went away misses it: a session that runs
/// is not cut short because nobody looks any more. Any other error is kept for the end.
pub(crate) fn say(line: impl AsRef<str>) {
    note(writeln!(io::stdout(), "{}", line.as_ref()));
}

/// Writes JSON as one line; letters that could move a terminal stand there as their escapes.
pub(crate) fn say_json(value: &serde_json::Value) {
    say(json_text(&value.to_string()));
}

/// Keeps what went wrong, unless the reader closed the pipe.
pub(super) fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        // Only the first one counts: the rest follows from it.
        let _ = UNWRITTEN.set(error);
    }
}

/// What kept lines from being written, if anything did.
pub(super) fn unwritten() -> Option<&'static io::Error> {
    note(io::stdout().flush());
    UNWRITTEN.get()
}

/// Writes a line to the standard error; where that is gone, there is nobody left to tell.
pub(super) fn complain(line: impl AsRef<str>) {
    let _ = writeln!(io::stderr(), "{}", text(line.as_ref()));
}

/// Text of a model, a tool or a person, over several lines where it has them: nothing in it moves
/// the cursor, rings, or turns around what stands beside it.
pub(crate) fn text(given: &str) -> String {
    let hidden = |letter: char| match letter {
        '\n' | '\t' => false,
        letter => letter.is_control() || turns(letter),
    };
    escaped(&given.replace("\r\n", "\n"), hidden)
}

/// The same on one line, and with every letter that cannot be seen made visible: for names, and
/// for what a person decides on.
pub(crate) fn line(given: &str) -> String {
    let unseen = |letter: char| matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2065}' | '\u{feff}');
    escaped(given, |letter| letter.is_control() || turns(letter) || unseen(letter))
}

/// JSON whose strings hold no letter that moves or turns: the same value.
pub(crate) fn json_text(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for letter in json.chars() {
        // Line ends stand between values only, for inside a string JSON escapes them.
        if letter != '\n' && (letter.is_control() || turns(letter)) {
            shown.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Letters that change the direction or the line of what follows them.
const fn turns(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(given: &str, hidden: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(given.len());
    for letter in given.chars() {
        if hidden(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_their_lines_and_lose_their_hold_on_the_terminal() {
        let given = "a\r\n\tb\u{1b}]0;title\u{7}\rc\u{9b}2J\u{202e}d\u{2066}";
        let shown = r"\u{1b}]0;title\u{7}\u{d}c\u{9b}2J\u{202e}d\u{2066}";
        assert_eq!(text(given), format!("a\n\tb{shown}"));
        let family = "\u{1f468}\u{200d}\u{1f469}";
        assert_eq!(text(&format!("Айгерим {family}")), format!("Айгерим {family}"), "joined pictures stay joined");
    }

    #[test]
    fn what_is_asked_cannot_hide_what_it_says() {
        assert_eq!(line("{\"to\":\"a\u{202e}b\u{1b}[2K\"}"), r#"{"to":"a\u{202e}b\u{1b}[2K"}"#);
        assert_eq!(line("a\u{200b}b\nc"), r"a\u{200b}b\u{a}c");
        assert_eq!(line("Айгерим 😀"), "Айгерим 😀");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"a": "x\u{9b}2J\u{202e}y\u{7f}\n"});
        let shown = json_text(&value.to_string());
        assert_eq!(shown, r#"{"a":"x\u009b2J\u202ey\u007f\n"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
    }
}
