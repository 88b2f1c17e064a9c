//! The integration tests, one binary: one link, one module a subject.

mod tidy;
