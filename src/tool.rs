//! Tools: their registry, the check of what a model asks for, and the tools that come along.
//!
//! It must never know sessions, retries, breakers, spans of its own or metrics: a call is
//! admitted or refused here; whoever runs it stands elsewhere.

pub mod arguments;
pub mod bank;
pub mod cap;
pub mod command;
pub mod function;
pub mod http;
mod injected;
pub mod mcp;
pub mod overrides;
pub mod registry;
pub mod schema;
pub mod sql;
pub mod template;

pub use arguments::ArgumentErrors;
pub use bank::Bank;
pub use cap::{Capped, DEFAULT_RESULT_BYTES, cap};
pub use command::CommandTool;
pub use function::{FnTool, spec_of};
pub use http::HttpTool;
pub use injected::Injected;
pub use overrides::Overrides;
pub use registry::{Admitted, Error, Refusal, Registration, Registry, ToolSet};
pub use schema::{Schema, SchemaError, Strict};
pub use sql::SqlTool;
pub use template::Template;
