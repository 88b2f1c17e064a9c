//! What people and machines see of the sessions: metrics, event lines, the live feed, and what
//! keeps personal data out of them.
//!
//! A signal only reads committed facts. It must never call back into a session, decide for one,
//! or delay one.

pub mod feed;
pub mod hash;
pub mod lines;
mod memory;
pub mod metrics;
pub mod redact;
#[cfg(test)]
mod samples;

pub use self::{
    feed::{Feed, FeedReader},
    hash::KeyedHash,
    lines::{Lines, Output},
    metrics::{MetricLabels, Metrics},
    redact::redact,
};

/// The label and the field value for whatever configuration does not know.
pub(crate) const UNKNOWN: &str = "unknown";
