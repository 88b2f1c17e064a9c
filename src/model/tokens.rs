//! Tokens of a request, counted by a tokenizer of ours before it is made.
//!
//! A tokenizer is loaded when it is first needed and stays: some 60 MB of memory and 0.2 s each.
//! Loading and counting run on a thread for blocking work. It must never know a provider's wire
//! format; what stands around the text is a flat rate, as OpenAI describes it.

use tiktoken_rs::{
    CoreBPE, bpe_for_tokenizer,
    tokenizer::{Tokenizer, get_tokenizer},
};

use crate::core::{Arguments, Message, ModelRequest, fact::CountedBy};

/// Tokens of a message besides its text.
const MESSAGE: u64 = 4;
/// Tokens that the reply begins with.
const REPLY: u64 = 3;
/// Tokens of a tool definition, or of a call, besides its texts.
const FRAME: u64 = 8;

/// Who counts requests to a model before they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Nobody: an estimate stands in.
    Estimate,
    /// The provider, with a request of its own.
    Provider,
    /// A tokenizer.
    Tokenizer(Tokenizer),
}

impl Counting {
    /// Whoever is meant by the word for a model; for one whose tokenizer is not known, the newest
    /// comes nearest.
    pub fn of(by: CountedBy, request_model: &str) -> Self {
        match by {
            CountedBy::Estimate => Self::Estimate,
            CountedBy::Provider => Self::Provider,
            CountedBy::Tokenizer => Self::Tokenizer(get_tokenizer(request_model).unwrap_or(Tokenizer::O200kBase)),
        }
    }

    /// Whether a tokenizer is known that counts as this model does.
    pub fn knows(request_model: &str) -> bool {
        get_tokenizer(request_model).is_some()
    }

    /// The word for it.
    pub const fn by(self) -> CountedBy {
        match self {
            Self::Estimate => CountedBy::Estimate,
            Self::Provider => CountedBy::Provider,
            Self::Tokenizer(_) => CountedBy::Tokenizer,
        }
    }
}

/// Counts a request.
pub(super) async fn count(tokenizer: Tokenizer, request: &ModelRequest) -> Option<u64> {
    let request = request.clone();
    let counted = tokio::task::spawn_blocking(move || {
        let tokens = bpe_for_tokenizer(tokenizer).ok()?;
        Some(count_with(tokens, &request))
    });
    counted.await.ok().flatten()
}

fn count_with(tokens: &CoreBPE, request: &ModelRequest) -> u64 {
    let text = |text: &str| tokens.count_ordinary(text) as u64;
    let message = |message: &Message| match message {
        Message::User { content } | Message::Tool { content, .. } => text(content),
        Message::Assistant { content, calls } => {
            let call = |arguments: &Arguments| match arguments {
                Arguments::Json(value) => text(&value.to_string()),
                Arguments::Raw(raw) => text(raw),
            };
            text(content) + calls.iter().map(|asked| FRAME + text(&asked.name) + call(&asked.arguments)).sum::<u64>()
        }
    };
    let system = if request.system.is_empty() { 0 } else { MESSAGE + text(&request.system) };
    let messages = request.messages.iter().map(|said| MESSAGE + message(said)).sum::<u64>();
    let tools = request
        .tools
        .iter()
        .map(|tool| FRAME + text(&tool.name) + text(&tool.description) + text(&tool.input_schema.to_string()));
    system + messages + tools.sum::<u64>() + REPLY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_get_the_tokenizer_that_they_are_known_for() {
        let of = |model| Counting::of(CountedBy::Tokenizer, model);
        assert_eq!(of("gpt-5-mini"), Counting::Tokenizer(Tokenizer::O200kBase));
        assert_eq!(of("gpt-4"), Counting::Tokenizer(Tokenizer::Cl100kBase));
        assert_eq!(of("llama-3"), Counting::Tokenizer(Tokenizer::O200kBase));
        assert!(Counting::knows("gpt-4o-2024-05-13") && !Counting::knows("llama-3"));
    }

    #[tokio::test]
    async fn the_parts_of_a_request_are_counted_as_their_text() {
        // "hello world" is two tokens of o200k, "tiktoken is great!" six of cl100k.
        let said = |content: &str| Message::User { content: content.into() };
        let request = |content| ModelRequest {
            system: String::new(),
            messages: vec![said(content)],
            tools: [].into(),
            max_tokens: 1,
            stop: Vec::new(),
            output_schema: None,
        };
        assert_eq!(count(Tokenizer::O200kBase, &request("hello world")).await, Some(4 + 2 + 3));
        assert_eq!(count(Tokenizer::Cl100kBase, &request("tiktoken is great!")).await, Some(4 + 6 + 3));
    }
}
