//! What a caller may still ask for, in the header fields of draft-ietf-httpapi-ratelimit-headers.
//!
//! It must never decide anything: it tells what the runtime counts.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode},
    response::Response,
};

use super::{Api, why::Why};
use crate::runtime::{Quota, Refused};

/// What the limits are.
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What is left of them.
const LEFT: HeaderName = HeaderName::from_static("ratelimit");

/// Adds what is left to an answer to somebody who began a session, or was refused one for that. How
/// much of the hour is used comes with the answer, where it was read for it.
pub(super) async fn tell(api: &Api, principal: &str, mut answer: Response) -> Response {
    if !(answer.status().is_success() || answer.status() == StatusCode::TOO_MANY_REQUESTS) {
        return answer;
    }
    // The answer is worth more than what is left: where that cannot be read, it is not told.
    let hour = match answer.extensions().get() {
        Some(Why::NotBegun(Refused::TooManySessions { hour, .. })) => Some(*hour),
        _ => answer.extensions().get().copied(),
    };
    let quotas = api.runtime.quotas(principal, hour).await.unwrap_or_default();
    for (name, text) in [(POLICY, list(&quotas, policy)), (LEFT, list(&quotas, left))] {
        if let Some(value) = HeaderValue::from_str(&text).ok().filter(|_| !text.is_empty()) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// A list of structured fields (RFC 9651).
fn list(quotas: &[Quota], item: impl Fn(&Quota) -> String) -> String {
    quotas.iter().map(item).collect::<Vec<_>>().join(", ")
}

fn policy(quota: &Quota) -> String {
    let how = match quota.window {
        Some(window) => format!("w={}", window.as_secs()),
        None => "qu=\"concurrent-requests\"".to_owned(),
    };
    format!("\"{}\";q={};{how}", quota.name, quota.limit)
}

fn left(quota: &Quota) -> String {
    // A started second counts: whoever comes a moment early is refused.
    let more = quota.more_in.map(|more| format!(";t={}", more.as_secs() + 1)).unwrap_or_default();
    format!("\"{}\";r={}{more}", quota.name, quota.left)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_fields_are_as_the_draft_has_them() {
        let (hour, second) = (Some(Duration::from_secs(3600)), Some(Duration::from_millis(1500)));
        let quotas = [
            Quota { name: "sessions-per-hour", limit: 600, left: 0, window: hour, more_in: second },
            Quota { name: "concurrent-sessions", limit: 10, left: 9, window: None, more_in: None },
        ];
        let expected = r#""sessions-per-hour";q=600;w=3600, "concurrent-sessions";q=10;qu="concurrent-requests""#;
        assert_eq!(list(&quotas, policy), expected);
        assert_eq!(list(&quotas, left), r#""sessions-per-hour";r=0;t=2, "concurrent-sessions";r=9"#);
    }
}
