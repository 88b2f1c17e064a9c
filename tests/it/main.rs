//! The integration tests, one binary: one link, one module a subject.

#![allow(unreachable_pub, reason = "nothing here is reached from outside; modules share plain pub items")]

mod cli;
mod collector;
mod config;
mod facts;
mod faults;
mod mcp_schemas;
mod otlp;
mod process;
mod scenarios;
mod semconv;
mod serve;
mod store_conformance;
mod store_sqlite;
mod tidy;
mod world;
