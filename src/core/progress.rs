//! A reply while it comes: how providers tell of it, and how it reaches those who read along.
//!
//! Nothing of this is a fact: it enters no journal, has no place in one, and may be lost. It must
//! never know a provider's form, the loop, or who the readers are.

use std::fmt;

use super::{
    id::{SessionId, SpanId},
    message::Usage,
};

/// Hears how a reply grows. A provider tells it of everything that comes; what is done with that
/// is none of the provider's business. It never waits and never fails.
pub trait Progress: fmt::Debug + Send + Sync {
    /// More of the reply has come. `text` is the next piece of its text, empty where something
    /// else came; all pieces together are the text of the reply. `charge` is what the exchange
    /// costs, by estimate, should nothing more of it come.
    fn received(&self, text: &str, charge: Usage);
}

/// Those who read the text of model calls while it comes. Telling them never waits and never
/// fails, and costs next to nothing where nobody reads.
pub trait LiveText: Send + Sync {
    /// The next piece of the text of this call: it begins `at` so many bytes of the attempt's text.
    fn delta(&self, session: SessionId, call: SpanId, at: u64, text: &str);

    /// The text of this call that was told so far is void: its attempt broke. What follows, if
    /// anything, begins anew.
    fn restart(&self, session: SessionId, call: SpanId);
}

/// Nobody listens and nobody reads along.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Progress for Nobody {
    fn received(&self, _: &str, _: Usage) {}
}

impl LiveText for Nobody {
    fn delta(&self, _: SessionId, _: SpanId, _: u64, _: &str) {}

    fn restart(&self, _: SessionId, _: SpanId) {}
}
