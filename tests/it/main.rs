//! One binary for all integration tests.

mod collector;
mod otlp;
mod semconv;
