//! Signals: what people and machines read about sessions, each a fold over committed facts.
//!
//! A signal only reads. It never calls back into a session, never delays one, and knows neither
//! stores nor models nor tools.

pub mod names;
pub mod otlp;
pub mod spans;
