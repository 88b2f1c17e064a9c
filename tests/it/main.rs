//! The integration tests, one binary: one link, one module a subject.

mod facts;
mod store_conformance;
mod store_sqlite;
mod tidy;
