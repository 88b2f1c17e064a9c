//! Durations and sizes as people write them: `15s`, `500ms`, `10m`, `1MiB`.
//!
//! It must never guess a unit: a bare number is refused, with the advice to name one.

use std::time::Duration;

const DURATIONS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads a duration such as `500ms`, `15s` or `10m`.
///
/// # Errors
/// What would be right, without what was there.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let right = "must be a duration such as 500ms, 15s or 10m";
    let (number, unit) = split(text).ok_or(right)?;
    if unit.is_empty() {
        return Err(format!("{right}: name the unit, {number}s or {number}ms"));
    }
    let (_, millis) = DURATIONS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| format!("{right}: the units are ms, s, m, h and d"))?;
    let total = number.checked_mul(*millis).ok_or_else(|| format!("{right}: this is too long"))?;
    Ok(Duration::from_millis(total))
}

/// Reads a number of bytes. Errors: as [`parse_duration`].
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let right = "must be a size such as 64KiB or 1MiB";
    let (number, unit) = split(text).ok_or(right)?;
    if unit.is_empty() {
        return Err(format!("{right}: name the unit, {number}B for bytes"));
    }
    let (_, factor) = SIZES
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| format!("{right}: the units are B, KiB, MiB and GiB"))?;
    number.checked_mul(*factor).ok_or_else(|| format!("{right}: this is too much"))
}

/// Writes a duration in the largest unit that keeps it whole; parts of a millisecond are dropped.
pub(super) fn write_duration(value: Duration) -> String {
    let millis = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
    // Ten minutes read better than a sixth of an hour, and 60s is 1m: whole numbers only.
    write(millis, &DURATIONS, "ms")
}

/// Writes a number of bytes in the largest unit that keeps it whole.
pub(super) fn write_bytes(value: u64) -> String {
    write(value, &SIZES, "B")
}

fn write(value: u64, units: &[(&str, u64)], smallest: &str) -> String {
    let whole = units.iter().find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor));
    whole.map_or_else(|| format!("{value}{smallest}"), |(unit, factor)| format!("{}{unit}", value / factor))
}

/// Digits and what stands behind them. None where it does not begin with a digit.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis) in [
            ("500ms", 500),
            ("15s", 15_000),
            ("10m", 600_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1500ms", 1_500),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
            assert_eq!(write_duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(write_duration(Duration::ZERO), "0ms");
        assert_eq!(write_duration(Duration::from_secs(60)), "1m");
    }

    #[test]
    fn a_bare_number_gets_the_advice_to_name_a_unit() {
        assert!(parse_duration("15").is_err_and(|wrong| wrong.ends_with("name the unit, 15s or 15ms")));
        assert!(parse_bytes("1048576").is_err_and(|wrong| wrong.ends_with("name the unit, 1048576B for bytes")));
        for text in ["", "s", "-1s", "1.5s", "1 s", "1S", "1min", "99999999999999999999s", "99999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["1MB", "1M", "1mib", "99999999999999999GiB", "MiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [("0B", 0), ("512B", 512), ("64KiB", 65_536), ("1MiB", 1_048_576), ("3GiB", 3_221_225_472)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
            assert_eq!(write_bytes(bytes), text);
        }
    }
}
