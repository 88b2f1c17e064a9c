//! Replies of OpenAI chat completions, whole and as a stream, in the variants of the servers that
//! call themselves compatible.
//!
//! Fields that are not needed may be missing or more than OpenAI's. It must never know HTTP.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    core::{Fault, FaultKind, ModelReply, Sensitive},
    model::{
        draft::{Draft, DraftCall, Told, count},
        exchange::{Flow, Reader},
        http::{error_in, phrase},
    },
};

/// Puts a completion together.
pub(super) struct CompletionReader<'a> {
    draft: Draft,
    secrets: &'a [Sensitive<String>],
}

/// A whole completion, or one chunk of it: a chunk has `delta` where the whole has `message`.
#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    #[serde(default, alias = "delta")]
    message: Option<Message>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    refusal: Option<String>,
    /// What the model thought, where a server tells it.
    #[serde(default, alias = "reasoning")]
    reasoning_content: Value,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

/// Text, or a list of parts of which some are text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Value>),
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Deserialize, Default)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Value,
}

impl<'a> CompletionReader<'a> {
    /// A reader of the answer to this body.
    pub(super) fn new(body: &[u8], model: &str, secrets: &'a [Sensitive<String>]) -> Self {
        Self { draft: Draft::new(body, model), secrets }
    }

    fn take(&mut self, completion: Completion) {
        self.draft.begun = true;
        if let Some(model) = completion.model.filter(|model| !model.is_empty()) {
            self.draft.model = model;
        }
        self.take_usage(&completion.usage);
        // Only one answer is asked for; what more comes is another try at it.
        for choice in completion.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if let Some(message) = choice.message {
                self.take_message(message);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.draft.finish_reason = reason;
                self.draft.complete = true;
            }
        }
    }

    fn take_message(&mut self, message: Message) {
        match message.content {
            Some(Content::Text(text)) => self.draft.text.push_str(&text),
            Some(Content::Parts(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                self.draft.text.extend(texts);
            }
            None => {}
        }
        self.draft.text.push_str(&message.refusal.unwrap_or_default());
        self.draft.thought += message.reasoning_content.as_str().map_or(0, str::len) as u64;
        for call in message.tool_calls.into_iter().flatten() {
            self.take_call(call);
        }
    }

    /// Adds a fragment to the call that it belongs to, or begins a new one.
    fn take_call(&mut self, fragment: Call) {
        let id = fragment.id.unwrap_or_default();
        let Function { name, arguments } = fragment.function.unwrap_or_default();
        let name = name.unwrap_or_default();
        let place = self.place_of(fragment.index, &id, &name);
        let call = match place {
            Some(place) => &mut self.draft.calls[place],
            None => {
                let next = self.draft.calls.iter().map(|call| call.index + 1).max().unwrap_or(0);
                let index = fragment.index.unwrap_or(next);
                self.draft.calls.push(DraftCall::new(index));
                self.draft.calls.last_mut().expect("it was just added")
            }
        };
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        match arguments {
            Value::String(text) => call.text.push_str(&text),
            Value::Null => {}
            whole => call.take_value(whole),
        }
    }

    /// Where the call of a fragment stands. The index says it; servers that send whole calls may
    /// give all of them the same index, or none, and then another id or a second name says that
    /// it is another call.
    fn place_of(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let calls = &self.draft.calls;
        let place = match index {
            Some(index) => calls.iter().rposition(|call| call.index == index)?,
            None if id.is_empty() => calls.len().checked_sub(1)?,
            None => return calls.iter().position(|call| call.id == id),
        };
        let other_id = !id.is_empty() && !calls[place].id.is_empty() && calls[place].id != id;
        let second_whole = index.is_none() && !name.is_empty() && !calls[place].name.is_empty();
        (!other_id && !second_whole).then_some(place)
    }

    /// OpenAI counts cached and reasoning tokens as parts.
    fn take_usage(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        let part = |details: &str, key: &str| usage.get(details).and_then(|details| count(details, key)).unwrap_or(0);
        self.draft.told = Told {
            input: count(usage, "prompt_tokens"),
            output: count(usage, "completion_tokens"),
            cache_read: part("prompt_tokens_details", "cached_tokens"),
            cache_write: 0,
            reasoning: part("completion_tokens_details", "reasoning_tokens"),
        };
    }

    fn read(&self, data: &str, what: &str) -> Result<Completion, Fault> {
        if let Some(fault) = error_in(data, self.secrets) {
            return Err(fault);
        }
        serde_json::from_str(data).map_err(|error| {
            Fault::new(FaultKind::Malformed, format!("{what} cannot be read: {}", phrase(&error.to_string(), &[])))
        })
    }
}

impl Reader for CompletionReader<'_> {
    fn draft(&self) -> &Draft {
        &self.draft
    }

    fn whole(&mut self, body: &str) -> Result<(), Fault> {
        let completion = self.read(body, "the reply")?;
        if !completion.choices.as_ref().is_some_and(|choices| choices.iter().any(|choice| choice.message.is_some())) {
            return Err(Fault::new(FaultKind::Malformed, "the reply is no completion: it has no choice"));
        }
        self.take(completion);
        self.draft.complete = true;
        Ok(())
    }

    fn event(&mut self, data: &str) -> Result<Flow, Fault> {
        if data.trim() == "[DONE]" {
            self.draft.complete |= self.draft.begun;
            return Ok(Flow::Done);
        }
        let chunk = self.read(data, "an event")?;
        self.take(chunk);
        Ok(Flow::More)
    }

    fn finish(mut self) -> Result<ModelReply, Fault> {
        self.draft.calls.sort_by_key(|call| call.index);
        self.draft.finish()
    }
}
