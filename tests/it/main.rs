//! The integration tests, one binary: one link, one module a subject.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]
#![allow(unreachable_pub, reason = "nothing here is reached from outside; modules share plain pub items")]
#![allow(clippy::disallowed_methods, reason = "tests measure, read their own variables and start tasks as they like")]

mod collector;
mod config;
mod crash;
mod dependencies;
mod facts;
mod mcp_schemas;
mod otlp;
mod own_tool;
mod parts;
mod scenarios;
mod semconv;
mod store_conformance;
mod store_sqlite;
mod tidy;
mod world;
