//! The integration tests, one binary.

mod facts;
mod store_conformance;
mod store_sqlite;
