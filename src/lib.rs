//! glassbox: an LLM agent runtime that people can see through.
//!
//! A session is its journal: an ordered list of facts in the past tense. State, trace, metrics,
//! log lines, live feed and resume are folds over it. The map of the modules, in the order in
//! which imports go, each using only what stands above it:
//!
//! - [`core`]: the words that everything uses, and the port traits
//! - `machine`: pure decisions over the facts
//! - `journal`: stamp, fold, commit, publish; the seam `observe`
//! - `policy`: one function, one order, around every attempt
//! - `web`: how clients of HTTP are built
//! - `model`, `tool`, `store`, `signal`: the ports' implementations
//! - `session`: the driver
//! - `config`, `runtime`, `http`, `load`, `cli`: surfaces
//!
//! ARCHITECTURE.md says why.

pub mod cli;
pub mod config;
pub mod core;
pub mod http;
pub mod journal;
pub mod load;
pub mod machine;
pub mod model;
pub mod policy;
pub mod runtime;
pub mod session;
pub mod signal;
pub mod store;
pub mod tool;
pub mod web;

pub use async_trait::async_trait;
pub use schemars::{self, JsonSchema};

pub use self::core::{
    Effect, Fault, FaultKind, Principal, Sensitive, Tool, ToolSpec,
    port::{ToolContext, ToolReply},
    spec::Confirm,
};
pub use self::{
    config::Config,
    runtime::{Runtime, Setup, Task},
    tool::FnTool,
};
