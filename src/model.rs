//! Models: the providers that answer an agent's requests.
//!
//! It must never know sessions, retries, tools or metrics: one request goes out, one reply or
//! one fault comes back.

pub mod scripted;

pub use scripted::Scripted;
