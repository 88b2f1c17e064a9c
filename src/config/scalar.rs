//! Readers of single values: text, closed words, numbers, durations, sizes.
//!
//! Each takes a node and answers the value, or one phrase that says what would be right and what
//! is there. YAML's habit of guessing is not followed: a bare `yes`, `null` or `5` is no text, a
//! quoted "5" is no number, and the phrase says what to write.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    tree::{Node, Style, Value},
    units,
};
use crate::core::Money;

/// A value, or what is wrong with it.
pub(super) type Read<T> = Result<T, String>;

/// Characters of a wrong value that a report repeats.
const SHOWN: usize = 60;

/// Any text but the empty one.
pub(super) fn text(node: &Node) -> Read<String> {
    let (text, style) = scalar(node, "must be text")?;
    if text.trim().is_empty() {
        return Err("must be text, and must not be empty".to_owned());
    }
    if style == Style::Plain
        && let Some(kind) = guess(text)
    {
        return Err(format!("must be text, not {}: YAML reads {text} as {kind}, so write \"{text}\"", show(node)));
    }
    Ok(text.to_owned())
}

/// One of a closed set of words.
pub(super) fn word<T: Copy>(words: &[(&str, T)]) -> impl Fn(&Node) -> Read<T> {
    move |node| {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let right = format!("must be {}", either(&names));
        let (text, _) = scalar(node, &right)?;
        let found = words.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| format!("{right}, not {}{}", show(node), did_you_mean(text, &names)))
    }
}

/// A name that another part of the configuration declares.
pub(super) fn name_of(declared: &[String], what: &str) -> impl Fn(&Node) -> Read<String> {
    move |node| {
        let (text, _) = scalar(node, &format!("must be the name of {what}"))?;
        if declared.iter().any(|name| name == text) {
            return Ok(text.to_owned());
        }
        let names: Vec<&str> = declared.iter().map(String::as_str).collect();
        let hint = did_you_mean(text, &names);
        let hint = match (hint.is_empty(), names.is_empty()) {
            (false, _) => hint,
            (true, true) => "; none is declared".to_owned(),
            (true, false) => format!("; declared: {}", names.join(", ")),
        };
        Err(format!("must be the name of {what}, not {}{hint}", show(node)))
    }
}

/// `true` or `false`, and nothing that merely looks like it.
pub(super) fn flag(node: &Node) -> Read<bool> {
    let right = "must be true or false";
    let (text, style) = scalar(node, right)?;
    match (text, style) {
        ("true" | "false", Style::Quoted) => Err(format!("{right}, not {}: leave the quotes out", show(node))),
        ("true", _) => Ok(true),
        ("false", _) => Ok(false),
        _ => Err(format!("{right}, not {}", show(node))),
    }
}

/// A whole number in plain digits.
pub(super) fn whole<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&Node) -> Read<T> {
    move |node| {
        let right = format!("must be a whole number from {} to {}", range.start(), range.end());
        let digits = number(node, &right, |c| c.is_ascii_digit())?;
        let value = digits.parse().ok().filter(|value| range.contains(value));
        value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| format!("{right}, not {}", show(node)))
    }
}

/// A decimal number; `open` leaves out the lower end itself.
pub(super) fn decimal(low: f64, high: f64, open: bool) -> impl Fn(&Node) -> Read<f64> {
    move |node| {
        let right = if open {
            format!("must be a number above {low} and up to {high}")
        } else {
            format!("must be a number from {low} to {high}")
        };
        if let Value::Scalar { text, .. } = &node.value
            && let Some(percent) = text.strip_suffix('%').and_then(|digits| digits.trim().parse::<f64>().ok())
        {
            return Err(format!("{right}, not {}: write {}", show(node), percent / 100.0));
        }
        let digits = number(node, &right, |c| c.is_ascii_digit() || c == '.')?;
        let value =
            digits.parse::<f64>().ok().filter(|value| *value <= high && (*value > low || !open && *value >= low));
        value.ok_or_else(|| format!("{right}, not {}", show(node)))
    }
}

/// An amount of US dollars, exact, with four digits after the point at the most.
pub(super) fn money(least: Money) -> impl Fn(&Node) -> Read<Money> {
    const MOST: u64 = 1_000_000;
    move |node| {
        let right =
            "must be a number of US dollars such as 0.25, up to 1000000 and with up to 4 digits after the point";
        let wrong = || format!("{right}, not {}", show(node));
        let text = number(node, right, |c| c.is_ascii_digit() || c == '.')?;
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let whole = whole.parse::<u64>().ok().filter(|whole| *whole <= MOST).ok_or_else(wrong)?;
        let part = Some(part).filter(|part| (1..=4).contains(&part.len()));
        let part = part.and_then(|part| format!("{part:0<9}").parse::<u64>().ok()).ok_or_else(wrong)?;
        let money = Money::from_nanos(whole * 1_000_000_000 + part);
        if money < least { Err(format!("must be more than nothing, not {}", show(node))) } else { Ok(money) }
    }
}

/// A duration with its unit.
pub(super) fn duration(low: Duration, high: Duration) -> impl Fn(&Node) -> Read<Duration> {
    move |node| {
        let (text, _) = scalar(node, "must be a duration such as 500ms, 15s or 10m")?;
        let value = units::parse_duration(text).map_err(|right| with_value(&right, node))?;
        if value < low || value > high {
            let (low, high) = (units::write_duration(low), units::write_duration(high));
            return Err(format!("must be from {low} to {high}, not {}", show(node)));
        }
        Ok(value)
    }
}

/// A number of bytes with its unit.
pub(super) fn bytes(range: RangeInclusive<u64>) -> impl Fn(&Node) -> Read<u64> {
    move |node| {
        let (text, _) = scalar(node, "must be a size such as 64KiB or 1MiB")?;
        let value = units::parse_bytes(text).map_err(|right| with_value(&right, node))?;
        if !range.contains(&value) {
            let (low, high) = (units::write_bytes(*range.start()), units::write_bytes(*range.end()));
            return Err(format!("must be from {low} to {high}, not {}", show(node)));
        }
        Ok(value)
    }
}

/// The text of a scalar, whatever YAML would take it for.
pub(super) fn scalar<'a>(node: &'a Node, right: &str) -> Read<(&'a str, Style)> {
    match &node.value {
        Value::Scalar { text, style } => Ok((text, *style)),
        Value::List(_) | Value::Map(_) => Err(format!("{right}, not {}", show(node))),
    }
}

/// What stands there, for the end of a phrase; cut, and on one line.
pub(super) fn show(node: &Node) -> String {
    match &node.value {
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a section of keys".to_owned(),
        Value::Scalar { text, .. } => {
            let cut: String = text.chars().take(SHOWN).collect();
            let more = if cut.len() < text.len() { "…" } else { "" };
            format!("{:?}", cut + more)
        }
    }
}

/// `; did you mean x?` where one of the names is near, else nothing.
pub(super) fn did_you_mean(text: &str, names: &[&str]) -> String {
    let allowed = if text.chars().count() < 4 { 1 } else { 2.max(text.chars().count() / 4) };
    names
        .iter()
        .map(|name| (distance(text, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map_or_else(String::new, |(_, name)| format!("; did you mean {name}?"))
}

/// `a, b or c`.
pub(super) fn either(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

fn number<'a>(node: &'a Node, right: &str, allowed: impl Fn(char) -> bool) -> Read<&'a str> {
    let (text, style) = scalar(node, right)?;
    let plain = !text.is_empty() && text.chars().all(allowed) && text.starts_with(|c: char| c.is_ascii_digit());
    if !plain {
        return Err(format!("{right}, not {}", show(node)));
    }
    if style == Style::Quoted {
        return Err(format!("{right}, not the text {}: leave the quotes out", show(node)));
    }
    Ok(text)
}

/// Puts what stands there into a phrase of `units`, before its advice.
fn with_value(right: &str, node: &Node) -> String {
    match right.split_once(": ") {
        Some((right, advice)) => format!("{right}, not {}: {advice}", show(node)),
        None => format!("{right}, not {}", show(node)),
    }
}

/// What some YAML reader would take a bare word for, if not for text.
fn guess(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "no" | "on" | "off" | "true" | "false" | "y" | "n" => return Some("true or false"),
        "null" | "~" => return Some("nothing"),
        _ => {}
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text).replace('_', "");
    let radix = digits.get(..2).is_some_and(|start| matches!(start, "0x" | "0o" | "0b" | "0X"));
    let number =
        digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && (radix || digits.parse::<f64>().is_ok());
    number.then_some("a number")
}

/// Edits from one word to the other; two neighbours that changed places are one edit.
fn distance(one: &str, other: &str) -> usize {
    if one.len().abs_diff(other.len()) > 64 || one.len() > 256 {
        return usize::MAX;
    }
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<_>>()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let change = usize::from(one[i - 1] != other[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree;

    fn node(yaml: &str) -> Node {
        tree::parse(yaml, None).unwrap_or_else(|mistake| panic!("{mistake:?}")).root
    }

    #[test]
    fn words_that_yaml_guesses_about_are_no_text() {
        for yaml in ["yes", "No", "on", "OFF", "true", "null", "5", "-1.5", "007", "0x1F", "1e3", "1_000", ".5"] {
            assert!(text(&node(yaml)).is_err_and(|wrong| wrong.contains("so write \"")), "{yaml}");
        }
        for yaml in ["\"yes\"", "'5'", "v1", "1.2.3", "такси", "e3", "norway", "a-b", "|\n  yes\n"] {
            assert!(text(&node(yaml)).is_ok(), "{yaml}");
        }
        assert_eq!(text(&node("\"  \"")), Err("must be text, and must not be empty".into()));
        assert_eq!(text(&node("[a]")), Err("must be text, not a list".into()));
    }

    #[test]
    fn numbers_are_plain_digits_in_their_range() {
        let read = whole::<u32>(1..=1000);
        assert_eq!(read(&node("15")), Ok(15));
        let wrong = |value| format!("must be a whole number from 1 to 1000, not {value}");
        for (yaml, shown) in
            [("ten", "\"ten\""), ("0", "\"0\""), ("1001", "\"1001\""), ("1.5", "\"1.5\""), ("-1", "\"-1\"")]
        {
            assert_eq!(read(&node(yaml)), Err(wrong(shown)), "{yaml}");
        }
        assert_eq!(read(&node("\"5\"")), Err(wrong("the text \"5\": leave the quotes out")));
        assert_eq!(read(&node("99999999999999999999999")), Err(wrong("\"99999999999999999999999\"")));
    }

    #[test]
    fn decimals_keep_their_ends() {
        let ratio = decimal(0.0, 1.0, true);
        assert_eq!(ratio(&node("0.8")), Ok(0.8));
        assert_eq!(ratio(&node("1")), Ok(1.0));
        assert_eq!(ratio(&node("80%")), Err("must be a number above 0 and up to 1, not \"80%\": write 0.8".into()));
        for yaml in ["0", "1.1", ".nan", ".5", "inf", "1e-1", "-0.5", "1.2.3"] {
            assert!(ratio(&node(yaml)).is_err(), "{yaml}");
        }
        assert_eq!(decimal(0.0, 1.0, false)(&node("0")), Ok(0.0));
    }

    #[test]
    fn money_is_exact() {
        let read = money(Money::ZERO);
        for (yaml, nanos) in [("3", 3_000_000_000), ("0.3", 300_000_000), ("12.0375", 12_037_500_000), ("0", 0)] {
            assert_eq!(read(&node(yaml)), Ok(Money::from_nanos(nanos)), "{yaml}");
        }
        for yaml in ["-1", "0.00001", "1e-3", "$3", "1000001", "1.", "1.2.3", "\"3\"", "18446744073709551616"] {
            assert!(read(&node(yaml)).is_err(), "{yaml}");
        }
        let wrong = money(Money::from_nanos(1))(&node("0.0"));
        assert_eq!(wrong, Err("must be more than nothing, not \"0.0\"".into()));
    }

    #[test]
    fn booleans_are_two_words() {
        assert_eq!(flag(&node("true")), Ok(true));
        assert_eq!(flag(&node("yes")), Err("must be true or false, not \"yes\"".into()));
        assert_eq!(flag(&node("\"true\"")), Err("must be true or false, not \"true\": leave the quotes out".into()));
    }

    #[test]
    fn near_words_are_offered_and_far_ones_are_not() {
        let names = ["max_iterations", "token_budget", "deadline"];
        assert_eq!(did_you_mean("max_iteration", &names), "; did you mean max_iterations?");
        assert_eq!(did_you_mean("deadlien", &names), "; did you mean deadline?");
        assert_eq!(did_you_mean("temperature", &names), "");
        assert_eq!((distance("", "abc"), distance("ab", "ba"), distance("kitten", "sitting")), (3, 1, 3));
    }

    #[test]
    fn units_get_the_value_and_the_advice() {
        let read = duration(Duration::from_millis(1), Duration::from_secs(60));
        assert_eq!(read(&node("15s")), Ok(Duration::from_secs(15)));
        assert_eq!(
            read(&node("15")),
            Err("must be a duration such as 500ms, 15s or 10m, not \"15\": name the unit, 15s or 15ms".into())
        );
        assert_eq!(read(&node("2m")), Err("must be from 1ms to 1m, not \"2m\"".into()));
    }
}
