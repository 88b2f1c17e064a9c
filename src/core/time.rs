//! Points in time as plain values. Nobody here reads a clock.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// Nanoseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The point `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// RFC 3339 in UTC with all nanoseconds: `2026-02-18T10:23:45.123456789Z`. Nothing is lost.
    pub fn to_rfc3339_nanos(self) -> String {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(time) => format!("{time:.9}"),
            Err(_) => format!("{}ns", self.0),
        }
    }

    /// The point that an RFC 3339 text names; nothing where it names none since the epoch.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let time: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(time.as_nanosecond()).ok().map(Self)
    }

    /// This point moved forward.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with milliseconds: `2026-02-18T10:23:45.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ns", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_rfc_3339() {
        assert_eq!(Timestamp::from_nanos(1_771_410_225_000_000_000).to_string(), "2026-02-18T10:23:45.000Z");
    }

    #[test]
    fn prints_all_nanoseconds_where_none_may_be_lost() {
        let time = Timestamp::from_nanos(1_771_410_225_000_000_001);
        assert_eq!(time.to_rfc3339_nanos(), "2026-02-18T10:23:45.000000001Z");
    }

    #[test]
    fn reads_what_it_prints() {
        let time = Timestamp::from_nanos(1_771_410_225_000_000_001);
        assert_eq!(Timestamp::from_rfc3339("2026-02-18T10:23:45.000000001Z"), Some(time));
        assert_eq!(Timestamp::from_rfc3339("2026-02-18T15:23:45.000000001+05:00"), Some(time));
        assert_eq!(Timestamp::from_rfc3339("yesterday"), None);
    }

    #[test]
    fn a_clock_that_went_back_gives_no_negative_time() {
        let (early, late) = (Timestamp::from_nanos(5), Timestamp::from_nanos(9));
        assert_eq!(late.since(early), Duration::from_nanos(4));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
