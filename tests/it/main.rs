//! The integration tests, one binary: one link, one module a subject.

#![allow(unreachable_pub, reason = "nothing here is reached from outside; modules share plain pub items")]

mod collector;
mod config;
mod dependencies;
mod facts;
mod mcp_schemas;
mod otlp;
mod own_tool;
mod scenarios;
mod semconv;
mod store_conformance;
mod store_sqlite;
mod tidy;
mod world;
