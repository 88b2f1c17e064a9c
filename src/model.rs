//! Models: the providers that answer an agent's requests.
//!
//! It must never know sessions, retries, tools or metrics: one request goes out, one reply or
//! one fault comes back.

pub mod anthropic;
mod draft;
mod exchange;
mod history;
pub mod http;
mod injected;
pub mod openai;
pub mod react;
pub mod scripted;
mod sse;
pub mod structured;
mod tokens;

pub use anthropic::Anthropic;
pub use http::{Access, Client};
pub use injected::Injected;
pub use openai::OpenAi;
pub use react::React;
pub use scripted::Scripted;
pub use structured::{Prompted, StructuredOutput};
pub use tokens::Counting;
