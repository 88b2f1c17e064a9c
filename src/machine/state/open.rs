//! Operations that end with their process: what a state knows of those under way.

use std::sync::Arc;

use crate::core::{
    fact::{ModelCall, ToolCallBegin},
    op::Cut,
    spec::Effect,
};

/// A process-bound operation that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Open {
    /// A model call.
    Model {
        /// What it asks.
        call: Arc<ModelCall>,
        /// The attempt under way.
        attempt: Option<u32>,
        /// Attempts begun.
        attempts: u32,
    },
    /// A tool call.
    Tool {
        /// What was asked for.
        call: Box<ToolCallBegin>,
        /// The attempt under way and what it changes.
        attempt: Option<(u32, Effect)>,
        /// Attempts begun.
        attempts: u32,
        /// The effect of the last attempt, if it was cut off before its result was known.
        unsettled: Option<Effect>,
    },
}

impl Open {
    /// The tool that is called.
    pub(super) fn into_tool(self) -> Option<String> {
        match self {
            Self::Model { .. } => None,
            Self::Tool { call, .. } => Some(call.tool),
        }
    }

    /// What is known of it if it is cut off now: its attempts, and the effect of one, under way
    /// or cut off, whose result nobody knows.
    pub fn cut(&self) -> Cut {
        match self {
            Self::Model { attempts, .. } => Cut { attempts: *attempts, unsettled: None },
            Self::Tool { attempt, attempts, unsettled, .. } => {
                Cut { attempts: *attempts, unsettled: attempt.map(|(_, effect)| effect).or(*unsettled) }
            }
        }
    }
}
