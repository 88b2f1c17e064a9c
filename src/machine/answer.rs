//! The answer of a session, and what became of it where it is held to a schema.
//!
//! It must never know a schema: what is wrong with an answer comes in as a fact.

/// What the model answered, as far as it got.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// Whether the session holds it to a schema.
    held: bool,
    /// What came of one that was cut off, until the rest of it comes.
    begun: String,
    given: Option<String>,
    accepted: bool,
    /// Answers that did not fit.
    rejected: u32,
}

impl Answer {
    /// None yet.
    pub(super) fn awaited(held: bool) -> Self {
        Self { held, ..Self::default() }
    }

    /// The model began one, the rest of which is still to come.
    pub(super) fn begin(&mut self, text: &str) {
        self.begun.push_str(text);
    }

    /// What was begun is no answer: the model asks for tools instead.
    pub(super) fn forget_begun(&mut self) {
        self.begun.clear();
    }

    /// What was begun, if anything.
    pub(super) fn begun(&self) -> Option<&str> {
        Some(self.begun.as_str()).filter(|text| !text.trim().is_empty())
    }

    /// The model gave one, or the rest of it.
    pub(super) fn give(&mut self, text: &str) {
        self.given = Some(std::mem::take(&mut self.begun) + text);
        self.accepted = !self.held;
    }

    /// What the check says of the one that was given; whether the model is to be told.
    pub(super) fn check(&mut self, fits: bool) -> bool {
        if self.given.is_none() || self.accepted {
            return false;
        }
        if fits {
            self.accepted = true;
            return false;
        }
        self.given = None;
        self.reject();
        self.needs_repair()
    }

    /// The model gave none where it was asked for one that fits.
    pub(super) fn reject(&mut self) {
        self.rejected = self.rejected.saturating_add(1);
    }

    /// One that waits for its check.
    pub(super) fn unchecked(&self) -> Option<&str> {
        self.given.as_deref().filter(|_| !self.accepted)
    }

    /// One that the session can end with; of one that is held to a schema, the JSON alone.
    pub(super) fn accepted(&self) -> Option<&str> {
        let text = self.given.as_deref().filter(|_| self.accepted)?;
        Some(if self.held { without_fence(text) } else { text })
    }

    /// Whether it is held to a schema.
    pub(super) const fn held(&self) -> bool {
        self.held
    }

    /// Whether the model is asked once more.
    pub(super) const fn needs_repair(&self) -> bool {
        self.rejected == 1 && self.given.is_none()
    }

    /// Whether the second one did not fit either.
    pub(super) const fn failed(&self) -> bool {
        self.rejected > 1
    }
}

/// What stands inside a code fence; the text itself where there is none around it.
pub fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```") else { return text };
    let after_word = inside.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
    // A word right behind the fence names the language, if something else follows it.
    let named = after_word.starts_with(|letter: char| letter.is_whitespace() || matches!(letter, '{' | '['));
    let body = if named { after_word } else { inside };
    body.trim_end().strip_suffix("```").unwrap_or(body).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_around_a_text_is_taken_off() {
        for text in ["{}", "```json\n{}\n```", "```\n{}\n```", "```{}```", " ```json {}``` \n", "```JSON\n{}"] {
            assert_eq!(without_fence(text), "{}", "{text:?}");
        }
        assert_eq!(without_fence("```42```"), "42");
        assert_eq!(without_fence("a ```b``` c"), "a ```b``` c");
        assert_eq!(without_fence("```"), "");
    }

    #[test]
    fn an_answer_that_is_held_to_nothing_is_accepted_as_it_is() {
        let mut answer = Answer::awaited(false);
        answer.give("```x```");
        assert_eq!((answer.unchecked(), answer.accepted()), (None, Some("```x```")));
    }

    #[test]
    fn pieces_of_one_are_put_together() {
        let mut answer = Answer::awaited(false);
        answer.begin("It is ");
        answer.begin("five th");
        assert_eq!((answer.begun(), answer.accepted()), (Some("It is five th"), None));
        answer.give("ousand.");
        assert_eq!((answer.begun(), answer.accepted()), (None, Some("It is five thousand.")));
        let mut other = Answer::awaited(false);
        other.begin("I will lo");
        other.forget_begun();
        other.give("5000");
        assert_eq!(other.accepted(), Some("5000"));
    }

    #[test]
    fn one_that_is_held_waits_for_its_check_and_has_two_tries() {
        let mut answer = Answer::awaited(true);
        answer.give("```json\n{}\n```");
        assert_eq!((answer.unchecked(), answer.accepted()), (Some("```json\n{}\n```"), None));
        assert!(answer.check(false) && answer.needs_repair() && !answer.failed());
        answer.give("{}");
        assert!(!answer.needs_repair());
        let mut other = answer.clone();
        assert!(!answer.check(true));
        assert_eq!(answer.accepted(), Some("{}"));
        assert!(!other.check(false) && other.failed() && !other.needs_repair());
        // A check of nothing, as a damaged journal may hold it, changes nothing.
        assert!(!Answer::awaited(true).check(false));
    }
}
