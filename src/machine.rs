//! Decisions as pure functions: the state of a session as a fold of its facts, and the next
//! step that follows from it.
//!
//! It must never know tokio, I/O, a lock, randomness or a clock. Whatever happens between a
//! decision and the fact that it leads to happens elsewhere.

pub mod answer;
pub mod breaker;
pub mod budget;
pub mod compaction;
pub mod decide;
pub mod ending;
pub mod explanation;
pub mod follow;
pub mod primary;
pub mod prompt;
pub mod repeats;
pub mod reply;
pub mod retry;
pub mod route;
pub mod state;
pub mod summary;
mod tokens;
pub mod transcript;

pub use compaction::Old;
pub use decide::{Step, Surroundings, decide};
pub use prompt::Prompt;
pub use route::{Asked, Fallback};
pub use state::State;
