//! Identifiers, as fixed bytes with one text form each.
//!
//! A session's id is the only random thing in its journal: the trace id is the same sixteen
//! bytes, and the id of every span follows from the session and the place of the fact that
//! opened it. So a journal that is read again gives the same trace to the last byte.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::inject::splitmix64;

/// What a text that should have been an id was not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an id of the form {expected}: {found:?}")]
pub struct ParseIdError {
    expected: &'static str,
    found: String,
}

impl ParseIdError {
    /// What was found in the place of an id of this form.
    pub(super) fn new(expected: &'static str, found: &str) -> Self {
        Self { expected, found: found.chars().take(80).collect() }
    }
}

/// Writes bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)].into());
        text.push(DIGITS[usize::from(byte & 15)].into());
    }
    text
}

/// Reads exactly `N` bytes of lower- or upper-case hex.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $len:literal, $prefix:literal, $form:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; $len]);

        impl $name {
            /// The id of these bytes.
            pub const fn from_bytes(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// The bytes of this id.
            pub const fn to_bytes(self) -> [u8; $len] {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                text.strip_prefix($prefix)
                    .and_then(unhex)
                    .map(Self)
                    .ok_or_else(|| ParseIdError::new($form, text))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    };
}

hex_id!(
    /// One task run from start to finish: `sess_` and 32 hex digits.
    SessionId, 16, "sess_", "sess_ and 32 hex digits"
);
hex_id!(
    /// One life of a process; names the system journal that it writes.
    ProcessId, 16, "proc_", "proc_ and 32 hex digits"
);
hex_id!(
    /// A W3C trace id: 32 hex digits.
    TraceId, 16, "", "32 hex digits"
);
hex_id!(
    /// A W3C span id: 16 hex digits. Also the id of the operation that the span shows.
    SpanId, 8, "", "16 hex digits"
);
hex_id!(
    /// The SHA-256 of a stored text (a prompt, tool definitions, a long result).
    BlobHash, 32, "sha256:", "sha256: and 64 hex digits"
);

impl SessionId {
    /// A fair draw with this chance of true, the same in every process: the id is random.
    pub fn is_drawn(self, chance: f64) -> bool {
        let draw = u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]);
        f64::from(draw) < chance * (f64::from(u32::MAX) + 1.0)
    }

    /// The trace of this session, unless it joins a caller's.
    pub const fn trace_id(self) -> TraceId {
        TraceId(self.0)
    }
}

impl SpanId {
    /// The span opened by the fact at place `seq` of a session's journal.
    ///
    /// For one session the map is a bijection on `seq` (splitmix64 over a constant offset), so
    /// two operations of a session never share an id; zero, which W3C forbids, is replaced.
    pub fn of_fact(session: SessionId, seq: u64) -> Self {
        let bytes = session.to_bytes();
        let mut low = [0; 8];
        low.copy_from_slice(&bytes[8..]);
        let mixed = splitmix64(u64::from_be_bytes(low).wrapping_add(seq));
        Self(if mixed == 0 { u64::MAX } else { mixed }.to_be_bytes())
    }
}

/// Whose journal a fact stands in: a session's, or the system journal of one process life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum StreamId {
    /// The journal of a session.
    Session(SessionId),
    /// What happened in a process outside any session.
    System(ProcessId),
}

impl StreamId {
    /// The session, if the stream is one's.
    pub const fn session(self) -> Option<SessionId> {
        match self {
            Self::Session(id) => Some(id),
            Self::System(_) => None,
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => id.fmt(f),
            Self::System(id) => id.fmt(f),
        }
    }
}

impl FromStr for StreamId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if text.starts_with("proc_") { text.parse().map(Self::System) } else { text.parse().map(Self::Session) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_and_trace_share_their_digits() {
        let id: SessionId = "sess_000102030405060708090a0b0c0d0e0f".parse().expect("an id");
        assert_eq!(id.to_string(), "sess_000102030405060708090a0b0c0d0e0f");
        assert_eq!(id.trace_id().to_string(), "000102030405060708090a0b0c0d0e0f");
    }

    #[test]
    fn a_broken_id_says_what_an_id_looks_like() {
        let error = "sess_12".parse::<SessionId>().expect_err("too short");
        assert_eq!(error.to_string(), "not an id of the form sess_ and 32 hex digits: \"sess_12\"");
    }

    #[test]
    fn span_ids_of_one_session_differ() {
        let id = SessionId::from_bytes([7; 16]);
        let ids: std::collections::HashSet<_> = (0..10_000).map(|seq| SpanId::of_fact(id, seq)).collect();
        assert_eq!(ids.len(), 10_000);
    }
}
