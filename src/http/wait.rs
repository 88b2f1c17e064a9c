//! The time that a caller waits for the end of a session: `?wait=30s`.

use std::time::Duration;

use axum::http::StatusCode;

use super::problem::Problem;

/// `500ms`, `30s` or `1m`.
pub(super) fn parse(text: &str) -> Result<Duration, Problem> {
    let number = |digits: &str| digits.parse::<u64>().ok();
    let parsed = if let Some(digits) = text.strip_suffix("ms") {
        number(digits).map(Duration::from_millis)
    } else if let Some(digits) = text.strip_suffix('s') {
        number(digits).map(Duration::from_secs)
    } else {
        let minutes = text.strip_suffix('m').and_then(number);
        minutes.and_then(|minutes| minutes.checked_mul(60)).map(Duration::from_secs)
    };
    let detail = "wait must be a whole number with its unit, such as 500ms, 30s or 1m";
    parsed.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_need_their_unit() {
        assert_eq!(parse("30s").ok(), Some(Duration::from_secs(30)));
        assert_eq!(parse("500ms").ok(), Some(Duration::from_millis(500)));
        assert_eq!(parse("2m").ok(), Some(Duration::from_secs(120)));
        assert!(parse("18446744073709551615m").is_err());
        assert!(parse("1h").is_err());
        assert!(parse("30").is_err());
        assert!(parse("-1s").is_err());
        assert!(parse("ms").is_err());
    }
}
