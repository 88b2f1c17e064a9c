//! What people and machines see of the sessions: metrics, event lines, the live feed, and what
//! keeps personal data out of them.
//!
//! A signal only reads committed facts. It must never call back into a session, decide for one,
//! or delay one.

pub mod feed;
pub mod hash;
pub mod redact;

pub use self::{
    feed::{Feed, FeedReader},
    hash::KeyedHash,
    redact::redact,
};
