//! ReAct text, for models without calls of tools: the tools are described in the prompt, and what
//! the model wants is read from its text (Thought, Action, Action Input, Final Answer).
//!
//! It stands around a model of any wire and must never know which. An observation comes from a
//! tool and from nowhere else: one that the model wrote itself is thrown away with all behind it.

mod arguments;
mod parse;
mod relaxed;
mod text;

use std::sync::Arc;

use async_trait::async_trait;

use self::{parse::parse, text::flatten};
use crate::core::{
    Arguments, Fault, Finish, Model, ModelReply, ModelRequest, Usage,
    fact::{CountedBy, ModelInfo},
    port::{ModelCallInput, Progress, TraceContext},
};

/// The text at which the model stops.
const STOP: &str = "Observation:";
/// What stands for the name of a tool where a thought leads to neither an action nor an answer.
const NO_ACTION: &str = "no Action and no Final Answer after the Thought";
/// What stands for the name of a tool where an action has none.
const NO_NAME: &str = "an Action without the name of a tool";

/// How a model asks for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolCalling {
    /// As calls, in the form of its provider.
    Native,
    /// As ReAct text.
    React,
}

impl ToolCalling {
    /// Both, with their words in configuration.
    pub const ALL: [(&'static str, Self); 2] = [("native", Self::Native), ("react", Self::React)];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::React => "react",
        }
    }
}

/// A model that reads and writes ReAct text.
pub struct React {
    inner: Arc<dyn Model>,
}

impl React {
    /// This model, spoken to in ReAct text.
    pub const fn new(inner: Arc<dyn Model>) -> Self {
        Self { inner }
    }
}

impl std::fmt::Debug for React {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("React").field("info", self.info()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for React {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        self.inner.encode(&flatten(request))
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        let request = flatten(call.request);
        if !text::speaks_react(call.request) {
            return self.inner.call(ModelCallInput { request: &request, ..call }).await;
        }
        let progress = Untold(call.progress);
        let reply = self.inner.call(ModelCallInput { request: &request, progress: &progress, ..call }).await?;
        let reply = read(reply, !call.request.tools.is_empty());
        if !reply.text.is_empty() {
            call.progress.received(&reply.text, Usage { estimated: true, ..reply.usage });
        }
        Ok(reply)
    }

    fn form_tokens(&self, tools: usize) -> u64 {
        text::form_tokens(tools)
    }

    fn counted_by(&self) -> CountedBy {
        self.inner.counted_by()
    }

    async fn count(&self, request: &ModelRequest, trace: TraceContext) -> Option<u64> {
        self.inner.count(&flatten(request), trace).await
    }
}

/// Tells what a reply costs while it comes, and nothing of its text: what of it is the answer, and
/// whether it is made up, is known at its end.
#[derive(Debug)]
struct Untold<'a>(&'a dyn Progress);

impl Progress for Untold<'_> {
    fn received(&self, _: &str, charge: Usage) {
        self.0.received("", charge);
    }
}

/// What a reply asks for, or its answer. Calls are believed where a tool was on offer.
fn read(reply: ModelReply, offered: bool) -> ModelReply {
    if !reply.calls.is_empty() {
        return reply; // its server has read them already
    }
    let read = parse(&reply.text);
    let mut calls = if offered { read.calls } else { Vec::new() };
    if Finish::of(&reply.finish_reason) == Finish::Cut
        && let Some(last) = calls.last_mut()
    {
        last.arguments = unfinished(&last.arguments);
    }
    ModelReply { text: read.text, calls, ..reply }
}

/// Arguments in the middle of which a reply was cut off: a tolerant reader closes what is open,
/// and nobody knows what should have followed. As they are left, they are no JSON.
fn unfinished(arguments: &Arguments) -> Arguments {
    Arguments::Raw(match arguments {
        Arguments::Json(value) => {
            let mut text = value.to_string();
            text.pop();
            text
        }
        Arguments::Raw(text) => text.clone(),
    })
}

#[cfg(test)]
mod tests;
