//! The cut of a long result: the model reads its beginning, the rest is kept under its hash.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::core::{BlobHash, port::Blob};

/// Bytes of a result that the model reads, unless configured otherwise.
pub const DEFAULT_RESULT_BYTES: usize = 16 * 1024;

/// A result as the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capped {
    /// At most the allowed bytes, the note on what is missing included.
    pub text: String,
    /// The whole result, if some of it is missing from the text.
    pub whole: Option<Blob>,
}

/// Cuts a result to `max_bytes` at the border of a character. The note alone is never cut.
pub fn cap(text: String, max_bytes: usize) -> Capped {
    if text.len() <= max_bytes {
        return Capped { text, whole: None };
    }
    let hash = BlobHash::from_bytes(Sha256::digest(text.as_bytes()).into());
    let room = max_bytes.saturating_sub(note(text.len(), text.len(), hash).len());
    let end = text.floor_char_boundary(room);
    let shown = format!("{}{}", &text[..end], note(text.len() - end, text.len(), hash));
    Capped { text: shown, whole: Some(Blob { hash, bytes: Arc::from(text.into_bytes()) }) }
}

fn note(missing: usize, all: usize, hash: BlobHash) -> String {
    format!("\n[{missing} of {all} bytes left out; the whole result is kept as {hash}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_as_it_is() {
        assert_eq!(cap("тест".into(), 8), Capped { text: "тест".into(), whole: None });
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_what_is_missing() {
        let text = "ы".repeat(200);
        let capped = cap(text.clone(), 251);
        let hash = crate::core::id::hex(&Sha256::digest(text.as_bytes()));
        // The widest note takes 129 bytes, which leaves 122: 61 letters of two bytes.
        let expected =
            format!("{}\n[278 of 400 bytes left out; the whole result is kept as sha256:{hash}]", "ы".repeat(61));
        assert_eq!(capped.text, expected);
        assert!(capped.text.len() <= 251);
        assert_eq!(capped.whole.map(|blob| blob.bytes.to_vec()), Some(text.into_bytes()));
    }

    #[test]
    fn without_room_only_the_note_is_left() {
        assert!(cap("abcdef".into(), 1).text.starts_with("\n[6 of 6 bytes left out"));
    }
}
