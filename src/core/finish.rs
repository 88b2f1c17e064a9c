//! Why a model stopped, read from the words that providers have for it.
//!
//! A word that nobody knows says nothing: then what the reply holds decides, as it does for
//! providers that give a wrong one.

use super::{Fault, FaultKind, ModelReply};

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It had said all, or asks for tools; also every word that is not known.
    Whole,
    /// The limit of output tokens cut it off.
    Cut,
    /// The provider gives over in the middle of a long turn and waits to be asked to go on.
    Paused,
    /// It, or a filter of its provider, declined to answer.
    Declined,
    /// Its context window was full.
    ContextFull,
    /// The provider had no room for it.
    Overloaded,
    /// The provider broke it off.
    Broken,
}

impl Finish {
    /// What a provider's word means.
    pub fn of(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "max_tokens" | "length" | "model_length" | "max_output_tokens" => Self::Cut,
            "pause_turn" => Self::Paused,
            "refusal" | "content_filter" | "content_filtered" | "safety" | "guardrail_intervened" => Self::Declined,
            "model_context_window_exceeded" => Self::ContextFull,
            "insufficient_system_resource" => Self::Overloaded,
            "error" | "abort" => Self::Broken,
            _ => Self::Whole,
        }
    }
}

impl ModelReply {
    /// The reply, where it is one: a model that declines, or is broken off, has given none,
    /// whatever text came before.
    ///
    /// # Errors
    /// The fault that its end is, charged with what the reply cost.
    pub fn whole(self) -> Result<Self, Fault> {
        let (kind, detail) = match Finish::of(&self.finish_reason) {
            Finish::Whole | Finish::Cut | Finish::Paused => return Ok(self),
            Finish::Declined => (FaultKind::Declined, "the model declined to answer"),
            Finish::ContextFull => (FaultKind::ContextTooLong, "the reply ran out of the model's context window"),
            Finish::Overloaded => (FaultKind::Overloaded, "the provider had no room to finish the reply"),
            Finish::Broken => (FaultKind::Server, "the provider broke the reply off"),
        };
        Err(Fault::new(kind, detail).charged(self.usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Usage;

    #[test]
    fn what_is_no_reply_is_a_fault_that_costs_what_it_cost() {
        let usage = Usage { input: 7, output: 2, ..Usage::default() };
        let reply =
            |word: &str| ModelReply { text: "I".into(), usage, finish_reason: word.into(), ..ModelReply::default() };
        for word in ["end_turn", "max_tokens", "pause_turn", "anything"] {
            assert_eq!(reply(word).whole(), Ok(reply(word)));
        }
        for (word, kind) in [
            ("refusal", FaultKind::Declined),
            ("content_filter", FaultKind::Declined),
            ("model_context_window_exceeded", FaultKind::ContextTooLong),
            ("insufficient_system_resource", FaultKind::Overloaded),
            ("error", FaultKind::Server),
        ] {
            let fault = reply(word).whole().expect_err("no reply");
            assert_eq!((fault.kind, fault.usage), (kind, Some(usage)), "{word}");
        }
    }

    #[test]
    fn words_of_both_wires() {
        for word in ["end_turn", "stop", "stop_sequence", "tool_use", "tool_calls", "function_call", "eos", "", "new"] {
            assert_eq!(Finish::of(word), Finish::Whole, "{word}");
        }
        for (word, finish) in [
            ("max_tokens", Finish::Cut),
            ("length", Finish::Cut),
            ("LENGTH", Finish::Cut),
            ("pause_turn", Finish::Paused),
            ("refusal", Finish::Declined),
            ("content_filter", Finish::Declined),
            ("model_context_window_exceeded", Finish::ContextFull),
            ("insufficient_system_resource", Finish::Overloaded),
            ("error", Finish::Broken),
        ] {
            assert_eq!(Finish::of(word), finish, "{word}");
        }
    }
}
