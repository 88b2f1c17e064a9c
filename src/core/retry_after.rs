//! The wait that a service asks for: `retry-after-ms`, or `Retry-After` in seconds or as a date.
//!
//! It must never know what is done with it. What cannot be read, or lies behind us, is no wish.

use std::time::{Duration, UNIX_EPOCH};

use super::Timestamp;

/// The wait, if a readable one is asked for. `header` gives the text of a header by its name.
pub fn asked<'a>(header: impl Fn(&str) -> Option<&'a str>, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| header(name).map(str::trim);
    let exact = text("retry-after-ms").and_then(|text| seconds(text, 1000.0));
    exact.or_else(|| text("retry-after").and_then(|text| seconds(text, 1.0).or_else(|| until(text, now))))
}

/// A number of parts of a second, `parts` of which make one.
fn seconds(text: &str, parts: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number / parts).ok().filter(|wait| !wait.is_zero())
}

/// The time left until an HTTP date.
fn until(text: &str, now: Timestamp) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    date.checked_sub(Duration::from_nanos(now.as_nanos())).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(headers: &[(&str, &'static str)]) -> Option<Duration> {
        let text = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        // 2015-10-21T07:28:00Z, the date of the examples in the standard.
        asked(text, Timestamp::from_nanos(1_445_412_480_000_000_000))
    }

    #[test]
    fn seconds_dates_and_milliseconds() {
        let seconds = |number| Some(Duration::from_secs(number));
        assert_eq!(wait(&[("retry-after", "30")]), seconds(30));
        assert_eq!(wait(&[("retry-after", " 1.5 ")]), Some(Duration::from_millis(1500)));
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2015 07:29:00 GMT")]), seconds(60));
        assert_eq!(wait(&[("retry-after", "Wednesday, 21-Oct-15 07:28:05 GMT")]), seconds(5));
        assert_eq!(wait(&[("retry-after-ms", "250"), ("retry-after", "1")]), Some(Duration::from_millis(250)));
        assert_eq!(wait(&[("retry-after-ms", "soon"), ("retry-after", "1")]), seconds(1));
    }

    #[test]
    fn junk_the_past_and_nothing_are_no_wish() {
        for text in ["", "soon", "-5", "0", "NaN", "inf", "1e300", "Wed, 21 Oct 2015 07:27:00 GMT", "2015-10-21"] {
            assert_eq!(wait(&[("retry-after", text)]), None, "{text}");
        }
        assert_eq!(wait(&[]), None);
    }
}
