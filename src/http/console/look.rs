//! How things look: a word with its mark and colour, times, durations, numbers.
//!
//! No meaning stands in a colour alone. It must never decide what is shown.

use std::time::Duration;

use super::words::Words;
use crate::core::{SessionStatus, Timestamp, circuit::CircuitState, handover::HandoverStatus};

/// What a colour says; the word beside it says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    Warn,
    Plain,
    Live,
}

/// A word with its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pill {
    /// In the visitor's language.
    pub(super) word: &'static str,
    /// The same in the words of the API.
    pub(super) label: &'static str,
    pub(super) tone: Tone,
}

/// A point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// RFC 3339.
    pub(super) exact: String,
    /// For people, UTC.
    pub(super) shown: String,
}

impl Tone {
    /// The class of the style sheet.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Plain => "plain",
            Self::Live => "live",
        }
    }

    /// A sign that needs no colour.
    pub(super) const fn mark(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Bad => "✕",
            Self::Warn => "!",
            Self::Plain => "–",
            Self::Live => "●",
        }
    }
}

impl Moment {
    pub(super) fn of(at: Timestamp) -> Self {
        Self::read(at.to_string())
    }

    /// Of a time that is text already.
    pub(super) fn read(exact: String) -> Self {
        let shown = exact.get(..19).unwrap_or(&exact).replacen('T', " ", 1);
        Self { exact, shown }
    }
}

/// Where a session stands.
pub(super) const fn status(t: &Words, status: SessionStatus) -> Pill {
    let (word, tone) = match status {
        SessionStatus::Running => (t.running, Tone::Live),
        SessionStatus::Suspended => (t.suspended, Tone::Warn),
        SessionStatus::AwaitingConfirmation => (t.awaiting, Tone::Warn),
        SessionStatus::Done => (t.done, Tone::Good),
        SessionStatus::MaxIterations => (t.max_iterations, Tone::Bad),
        SessionStatus::BudgetExceeded => (t.budget_exceeded, Tone::Bad),
        SessionStatus::Error => (t.error, Tone::Bad),
        SessionStatus::Cancelled => (t.cancelled, Tone::Plain),
    };
    Pill { word, label: status.label(), tone }
}

/// How a circuit breaker stands.
pub(super) const fn circuit(t: &Words, state: CircuitState) -> Pill {
    let (word, tone) = match state {
        CircuitState::Closed => (t.closed, Tone::Good),
        CircuitState::Open => (t.open, Tone::Bad),
        CircuitState::HalfOpen => (t.half_open, Tone::Warn),
    };
    Pill { word, label: state.label(), tone }
}

/// Where a hand-over stands.
pub(super) const fn handover(t: &Words, status: HandoverStatus) -> Pill {
    let (word, tone) = match status {
        HandoverStatus::Open => (t.handover_open, Tone::Warn),
        HandoverStatus::Claimed => (t.handover_claimed, Tone::Live),
        HandoverStatus::Closed => (t.handover_closed, Tone::Plain),
    };
    Pill { word, label: status.label(), tone }
}

/// How long something stands already, to the minute: `< 1 min`, `42 min`, `2 h 07 min`, `3 d 04 h`.
pub(super) fn age(t: &Words, time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    match minutes {
        0 => format!("< 1 {}", t.min),
        1..60 => format!("{minutes} {}", t.min),
        60..2880 => format!("{} {} {:02} {}", minutes / 60, t.h, minutes % 60, t.min),
        _ => format!("{} {} {:02} {}", minutes / 1440, t.d, minutes % 1440 / 60, t.h),
    }
}

/// `4.2 ms`, `350 ms`, `12.40 s`, `3 min 05 s`, `5 min`, `2 h 07 min`.
pub(super) fn took(t: &Words, time: Duration) -> String {
    let (micros, seconds) = (time.as_micros(), time.as_secs());
    match seconds {
        0 if micros < 10_000 => format!("{}.{} {}", micros / 1000, micros % 1000 / 100, t.ms),
        0 => format!("{} {}", micros / 1000, t.ms),
        1..60 => format!("{seconds}.{:02} {}", micros % 1_000_000 / 10_000, t.s),
        60..3600 if micros.is_multiple_of(60_000_000) => format!("{} {}", seconds / 60, t.min),
        60..3600 => format!("{} {} {:02} {}", seconds / 60, t.min, seconds % 60, t.s),
        _ => format!("{} {} {:02} {}", seconds / 3600, t.h, seconds % 3600 / 60, t.min),
    }
}

/// `1 234 567`, with spaces that do not break.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fact::Language;

    #[test]
    fn durations_have_the_unit_that_fits() {
        let t = Words::of(Language::En);
        for (micros, text) in [
            (4_240, "4.2 ms"),
            (350_900, "350 ms"),
            (12_405_000, "12.40 s"),
            (185_000_000, "3 min 05 s"),
            (300_000_000, "5 min"),
            (7_620_000_000, "2 h 07 min"),
        ] {
            assert_eq!(took(t, Duration::from_micros(micros)), text);
        }
        assert_eq!(took(Words::of(Language::Ru), Duration::from_millis(20)), "20 мс");
    }

    #[test]
    fn an_age_is_read_to_the_minute() {
        let t = Words::of(Language::En);
        for (seconds, text) in [
            (59, "< 1 min"),
            (60, "1 min"),
            (3599, "59 min"),
            (7620, "2 h 07 min"),
            (172_799, "47 h 59 min"),
            (172_800, "2 d 00 h"),
            (273_600, "3 d 04 h"),
        ] {
            assert_eq!(age(t, Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        for (value, text) in [(0, "0"), (999, "999"), (50_000, "50_000"), (1_234_567, "1_234_567")] {
            assert_eq!(number(value), text.replace('_', "\u{202f}"));
        }
    }

    #[test]
    fn a_moment_is_read_to_the_second() {
        let moment = Moment::of(Timestamp::from_nanos(1_771_410_225_000_000_000));
        assert_eq!((moment.exact.as_str(), moment.shown.as_str()), ("2026-02-18T10:23:45.000Z", "2026-02-18 10:23:45"));
    }
}
