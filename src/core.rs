//! The words that everything uses: ids, time values, messages, faults, operations, facts,
//! and the port traits that the outside world is reached through.
//!
//! It must never know tokio, I/O, a lock, randomness or a clock: time and ids come in as
//! arguments, so whatever is built from these words can be replayed and tested as plain data.

pub mod circuit;
pub mod fact;
pub mod fault;
pub mod finish;
pub mod handover;
pub mod id;
pub mod inject;
pub mod lease;
pub mod limits;
pub mod mark;
pub mod message;
pub mod money;
pub mod notice;
pub mod once;
pub mod op;
pub mod outcome;
pub mod port;
pub mod principal;
pub mod progress;
pub mod retry_after;
pub mod sensitive;
pub mod spec;
pub mod store_error;
pub mod time;

pub use fact::{Entry, Fact};
pub use fault::{Fault, FaultKind};
pub use finish::Finish;
pub use id::{BlobHash, SessionId, SpanId, StreamId, TraceId};
pub use inject::Injection;
pub use limits::Limits;
pub use message::{Arguments, Message, ModelReply, ModelRequest, ToolCall, Usage};
pub use money::{Money, Prices};
pub use outcome::{EndReason, SessionStatus, ToolOutcome};
pub use port::{Clock, Model, Sink, Store, Tool};
pub use principal::Principal;
pub use sensitive::Sensitive;
pub use spec::{Effect, ToolDefinition, ToolSpec};
pub use time::Timestamp;
