//! Signals: what people and machines read about sessions, each a fold over committed facts, and
//! what keeps personal data out of them.
//!
//! A signal only reads. It never calls back into a session, never delays one, and knows neither
//! stores nor models nor tools.

pub mod feed;
pub mod hash;
pub mod lines;
mod memory;
pub mod metrics;
pub mod names;
pub mod otlp;
pub mod redact;
#[cfg(test)]
mod samples;
pub mod spans;
pub mod webhook;

pub use self::{
    feed::{Delta, Feed, FeedItem, FeedReader},
    hash::KeyedHash,
    lines::Lines,
    metrics::{LoginRefusal, MetricLabels, Metrics, Told},
    redact::redact,
};

/// The label and the field value for whatever configuration does not know.
pub(crate) const UNKNOWN: &str = "unknown";
