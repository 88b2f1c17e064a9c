//! A reply that is being put together, whole or from the pieces of a stream.
//!
//! It must never know a provider's wire format.

use serde_json::Value;

use crate::core::{Arguments, Fault, FaultKind, Finish, ModelReply, ToolCall, Usage, message::estimate_tokens};

/// What has come of a reply so far.
#[derive(Debug)]
pub(super) struct Draft {
    /// Whether anything of the reply has come, so that it is charged.
    pub(super) begun: bool,
    /// Whether all of it has come.
    pub(super) complete: bool,
    /// The text.
    pub(super) text: String,
    /// Bytes of what the model thought, which nobody is shown but somebody pays for.
    pub(super) thought: u64,
    /// The calls, in the order in which they go out.
    pub(super) calls: Vec<DraftCall>,
    /// What the provider counted.
    pub(super) told: Told,
    /// The model that answers.
    pub(super) model: String,
    /// Why it stopped, in the provider's word.
    pub(super) finish_reason: String,
    input_estimate: u64,
}

/// A call whose pieces are still coming.
#[derive(Debug, Default)]
pub(super) struct DraftCall {
    /// The provider's place of it.
    pub(super) index: u64,
    /// Its id, empty until one comes; it may stay so.
    pub(super) id: String,
    /// Its name, empty until one comes.
    pub(super) name: String,
    /// Its arguments as text, piece by piece.
    pub(super) text: String,
    /// Its arguments where they came in one piece as JSON.
    value: Option<Value>,
    /// Tokens of that piece: counted once, for every piece of a stream asks for the sum.
    value_tokens: u64,
}

/// What the provider counted, by our rule: the parts are subsets of `input` and `output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Input tokens, those from a cache included.
    pub(super) input: Option<u64>,
    /// Output tokens, reasoning included.
    pub(super) output: Option<u64>,
    /// Of the input: read from a cache.
    pub(super) cache_read: u64,
    /// Of the input: written to a cache.
    pub(super) cache_write: u64,
    /// Of the output: reasoning.
    pub(super) reasoning: u64,
}

impl Draft {
    /// Nothing yet of the answer to a body of so many bytes, asked of a model of this name.
    pub(super) fn new(body: &[u8], model: &str) -> Self {
        Self {
            begun: false,
            complete: false,
            text: String::new(),
            thought: 0,
            calls: Vec::new(),
            told: Told::default(),
            model: model.to_owned(),
            finish_reason: String::new(),
            input_estimate: (body.len() as u64).div_ceil(4),
        }
    }

    /// What the exchange costs although it broke, by estimate: what the provider told so far
    /// counts where it is more. Nothing before the first word of the reply.
    pub(super) fn charge(&self) -> Option<Usage> {
        let output = self.output_estimate().max(self.told.output.unwrap_or(0));
        self.begun.then(|| Usage { estimated: true, ..self.usage_with(output) })
    }

    /// The reply, once it is complete.
    ///
    /// # Errors
    /// Where the stream ended before the reply did.
    pub(super) fn finish(mut self) -> Result<ModelReply, Fault> {
        if !self.complete {
            return Err(Fault::new(FaultKind::Transport, "the stream ended before the reply did"));
        }
        let usage = self.usage();
        if self.finish_reason.is_empty() {
            self.finish_reason.push_str("unknown");
        }
        if Finish::of(&self.finish_reason) == Finish::Cut
            && let Some(last) = self.calls.last_mut()
        {
            last.cut();
        }
        let calls = self.calls.into_iter().map(DraftCall::into_call).collect();
        Ok(ModelReply { text: self.text, calls, usage, model: self.model, finish_reason: self.finish_reason })
    }

    /// The usage of the whole reply; what the provider did not count is our estimate.
    pub(super) fn usage(&self) -> Usage {
        // No request has no tokens: zeros of both kinds are what servers say that do not count.
        let counted = self.told.input.unwrap_or(0) > 0 || self.told.output.unwrap_or(0) > 0;
        let told = if counted { self.told } else { Told::default() };
        let output = told.output.unwrap_or_else(|| self.output_estimate());
        Usage { estimated: told.input.is_none() || told.output.is_none(), ..self.usage_with(output) }
    }

    fn usage_with(&self, output: u64) -> Usage {
        let told = &self.told;
        let input = told.input.filter(|input| *input > 0).unwrap_or(self.input_estimate);
        Usage {
            input,
            output,
            cache_read: told.cache_read.min(input),
            cache_write: told.cache_write.min(input),
            reasoning: told.reasoning.min(output),
            estimated: false,
        }
    }

    fn output_estimate(&self) -> u64 {
        let calls = self.calls.iter().map(DraftCall::estimate).sum::<u64>();
        estimate_tokens(&self.text).saturating_add(self.thought.div_ceil(4)).saturating_add(calls)
    }
}

impl DraftCall {
    /// A call of which nothing but its place has come.
    pub(super) fn new(index: u64) -> Self {
        Self { index, ..Self::default() }
    }

    /// Takes arguments that came in one piece.
    pub(super) fn take_value(&mut self, value: Value) {
        self.value_tokens = estimate_tokens(&value.to_string());
        self.value = Some(value);
    }

    /// The reply ended in the middle of it: arguments of which nothing came, or which a server
    /// closed by itself, are not what the model meant. What is left cannot be read as JSON, so
    /// that the model is told and nothing runs.
    fn cut(&mut self) {
        if self.text.is_empty() {
            self.text = self.value.take().map_or_else(|| "{}".to_owned(), |value| value.to_string());
            self.text.pop();
        }
    }

    fn estimate(&self) -> u64 {
        estimate_tokens(&self.name) + estimate_tokens(&self.text) + self.value_tokens
    }

    fn into_call(self) -> ToolCall {
        // Text that came is the newer word: a whole value stands beside it only as a beginning.
        let arguments = match self.value {
            Some(value) if self.text.is_empty() && !value.is_null() => Arguments::Json(value),
            _ => Arguments::from_text(&self.text),
        };
        ToolCall { id: self.id, name: self.name, arguments }
    }
}

/// A count in a provider's usage; servers write it as a whole or a decimal number, or leave it out.
pub(super) fn count(usage: &Value, key: &str) -> Option<u64> {
    let value = usage.get(key)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "filtered to be in range")]
    let whole = |number: f64| (0.0..1e15).contains(&number).then_some(number as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}
