//! Replies of Anthropic Messages, whole and as a stream.
//!
//! What an event is stands in its data; names of events and all that is not needed are left
//! aside, so that servers may leave them out or add to them. It must never know HTTP.

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

/// Puts a message together.
pub(super) struct MessageReader<'a> {
    draft: Draft,
    /// The provider's counts, each the largest that was told: those of a stream grow.
    usage: Counts,
    secrets: &'a [Sensitive<String>],
}

#[derive(Default)]
struct Counts {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    thinking: Option<u64>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<Vec<Block>>,
    model: Option<String>,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: Option<String>,
    },
    ToolUse {
        #[serde(default)]
        id: Option<String>,
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Message,
    },
    ContentBlockStart {
        #[serde(default)]
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        #[serde(default)]
        index: u64,
        delta: Delta,
    },
    MessageDelta {
        delta: MessageDelta,
        #[serde(default)]
        usage: Value,
    },
    MessageStop,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking {
        #[serde(default)]
        thinking: String,
    },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageDelta {
    stop_reason: Option<String>,
}

impl<'a> MessageReader<'a> {
    /// A reader of the answer to this body.
    pub(super) fn new(body: &[u8], model: &str, secrets: &'a [Sensitive<String>]) -> Self {
        Self { draft: Draft::new(body, model), usage: Counts::default(), secrets }
    }

    fn take_message(&mut self, message: Message) {
        self.draft.begun = true;
        if let Some(model) = message.model.filter(|model| !model.is_empty()) {
            self.draft.model = model;
        }
        self.take_usage(&message.usage);
        for (index, block) in (0..).zip(message.content.into_iter().flatten()) {
            self.take_block(index, block);
        }
        self.take_stop(message.stop_reason);
    }

    fn take_block(&mut self, index: u64, block: Block) {
        match block {
            Block::Text { text } => self.draft.text.push_str(&text.unwrap_or_default()),
            Block::ToolUse { id, name, input } => {
                let (id, name) = (id.unwrap_or_default(), name.unwrap_or_default());
                let mut call = DraftCall::new(index);
                (call.id, call.name) = (id, name);
                call.take_value(input);
                self.draft.calls.push(call);
            }
            Block::Other => {}
        }
    }

    fn take_delta(&mut self, index: u64, delta: Delta) {
        match delta {
            Delta::Text { text } => self.draft.text.push_str(&text),
            Delta::Thinking { thinking } => self.draft.thought += thinking.len() as u64,
            Delta::InputJson { partial_json } => {
                if let Some(call) = self.draft.calls.iter_mut().find(|call| call.index == index) {
                    call.text.push_str(&partial_json);
                }
            }
            Delta::Other => {}
        }
    }

    fn take_stop(&mut self, reason: Option<String>) {
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            self.draft.finish_reason = reason;
            self.draft.complete = true;
        }
    }

    fn take_usage(&mut self, usage: &Value) {
        let counts = &mut self.usage;
        let most = |known: &mut Option<u64>, told: Option<u64>| *known = (*known).max(told);
        most(&mut counts.input, count(usage, "input_tokens"));
        most(&mut counts.output, count(usage, "output_tokens"));
        most(&mut counts.cache_read, count(usage, "cache_read_input_tokens"));
        most(&mut counts.cache_write, count(usage, "cache_creation_input_tokens"));
        let details = usage.get("output_tokens_details");
        most(&mut counts.thinking, details.and_then(|details| count(details, "thinking_tokens")));
        self.draft.told = counts.told();
    }
}

impl Counts {
    /// Anthropic counts what comes from a cache, or goes into it, beside the input.
    fn told(&self) -> Told {
        let (cache_read, cache_write) = (self.cache_read.unwrap_or(0), self.cache_write.unwrap_or(0));
        Told {
            input: self.input.map(|input| input.saturating_add(cache_read).saturating_add(cache_write)),
            output: self.output,
            cache_read,
            cache_write,
            reasoning: self.thinking.unwrap_or(0),
        }
    }
}

impl Reader for MessageReader<'_> {
    fn draft(&self) -> &Draft {
        &self.draft
    }

    fn whole(&mut self, body: &str) -> Result<(), Fault> {
        if let Some(fault) = error_in(body, self.secrets) {
            return Err(fault);
        }
        let message: Message = serde_json::from_str(body).map_err(|error| unreadable("the reply", &error))?;
        if message.content.is_none() {
            return Err(Fault::new(FaultKind::Malformed, "the reply is no message: it has no content"));
        }
        self.take_message(message);
        self.draft.complete = true;
        Ok(())
    }

    fn event(&mut self, data: &str) -> Result<Flow, Fault> {
        if let Some(fault) = error_in(data, self.secrets) {
            return Err(fault);
        }
        match serde_json::from_str(data).map_err(|error| unreadable("an event", &error))? {
            Event::MessageStart { message } => self.take_message(message),
            Event::ContentBlockStart { index, content_block } => {
                self.draft.begun = true;
                self.take_block(index, content_block);
            }
            Event::ContentBlockDelta { index, delta } => {
                self.draft.begun = true;
                self.take_delta(index, delta);
            }
            Event::MessageDelta { delta, usage } => {
                self.take_usage(&usage);
                self.take_stop(delta.stop_reason);
            }
            Event::MessageStop => {
                self.draft.complete = true;
                return Ok(Flow::Done);
            }
            Event::Other => {}
        }
        Ok(Flow::More)
    }

    fn finish(self) -> Result<ModelReply, Fault> {
        self.draft.finish()
    }
}

fn unreadable(what: &str, error: &serde_json::Error) -> Fault {
    Fault::new(FaultKind::Malformed, format!("{what} cannot be read: {}", phrase(&error.to_string(), &[])))
}
