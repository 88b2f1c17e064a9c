//! The integration tests, one binary: one link, one module a subject.

mod collector;
mod facts;
mod otlp;
mod semconv;
mod store_conformance;
mod store_sqlite;
mod tidy;
//! The integration tests: one binary, a module for each part.

mod config;
//! Integration tests, one binary.

mod mcp_schemas;
