//! What a provider says instead of a reply: the status, and the body in the forms that providers
//! have for it, reduced to a kind and one short phrase.
//!
//! It must never let a credential, or what looks like one, into a phrase.

use serde_json::Value;

use crate::core::{Fault, FaultKind, Sensitive};

/// Letters of a provider's own words that are kept.
const MAX_WORDS: usize = 200;
/// Beginnings of what is a key, or a part of one, in the words of the usual providers.
const KEYS: [&str; 5] = ["sk-", "sk_", "gsk_", "xai-", "AIza"];

/// A provider's word of an error, as far as it has one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Word<'a> {
    /// `type` or `code`, such as `overloaded_error`.
    name: &'a str,
    /// The text for people.
    message: &'a str,
    /// A status inside the body, which gateways repeat there.
    status: Option<u16>,
}

/// The fault of an answer with an error status.
pub(super) fn of_response(status: u16, body: &[u8], secrets: &[Sensitive<String>]) -> Fault {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let word = word(&body);
    let kind = match FaultKind::of_status(status) {
        Some(FaultKind::Refused) if context_too_long(word.name, word.message) => FaultKind::ContextTooLong,
        Some(FaultKind::Refused) if declines(word.name) => FaultKind::Declined,
        Some(kind) => kind,
        None => {
            let text = format!("the provider answers {status}, a redirect; base_url must name the address itself");
            return Fault::new(FaultKind::Refused, text).status(status);
        }
    };
    Fault::new(kind, say(&format!("the provider answers {status}"), kind, &word, secrets)).status(status)
}

/// The fault of an error that stands where a reply should, in a body or a stream with status 200.
/// None where the text is no error.
pub(in crate::model) fn error_in(text: &str, secrets: &[Sensitive<String>]) -> Option<Fault> {
    // Most events are pieces of text: they are not worth a second parse.
    if !text.contains("\"error\"") {
        return None;
    }
    let body: Value = serde_json::from_str(text).ok()?;
    body.get("error").filter(|error| !error.is_null())?;
    let word = word(&body);
    let (kind, status) = meaning(&word);
    let fault = Fault::new(kind, say("the provider breaks off with an error", kind, &word, secrets));
    Some(Fault { status, ..fault })
}

/// Whether an error says that the request is longer than the model's context.
fn context_too_long(name: &str, message: &str) -> bool {
    const NAMES: [&str; 3] = ["context_length_exceeded", "exceed_context_size_error", "request_too_large"];
    const WORDS: [&str; 5] =
        ["maximum context length", "prompt is too long", "context size", "context window", "context limit"];
    let message = message.to_ascii_lowercase();
    NAMES.contains(&name) || WORDS.iter().any(|words| message.contains(words))
}

/// Whether an error says that a filter of the provider did not let the request through.
fn declines(name: &str) -> bool {
    matches!(name, "content_filter" | "content_policy_violation" | "ResponsibleAIPolicyViolation")
}

/// Text as one line without control characters, of a bounded length.
pub(in crate::model) fn phrase(text: &str, secrets: &[Sensitive<String>]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().map(|secret| secret.expose().as_str()).filter(|secret| secret.len() >= 4) {
        text = text.replace(secret, "[key]");
    }
    let plain = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let words: Vec<&str> =
        plain.map(|word| if KEYS.iter().any(|key| word.contains(key)) { "[key]" } else { word }).collect();
    let text = words.join(" ");
    match text.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn say(what: &str, kind: FaultKind, word: &Word<'_>, secrets: &[Sensitive<String>]) -> String {
    // What is said about a refused credential may repeat a part of it.
    let message = if kind == FaultKind::Auth { "the credential is refused" } else { word.message };
    let words = [word.name, message].map(|text| phrase(text, secrets));
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    if words.is_empty() { what.to_owned() } else { format!("{what}: {}", words.join(": ")) }
}

/// `{error: {type, code, message}}`, `{error: "text"}`, `{message}` or `{detail}`.
fn word(body: &Value) -> Word<'_> {
    let error = body.get("error").unwrap_or(body);
    let message = error.as_str().or_else(|| ["message", "detail"].iter().find_map(|key| text_of(error, key)));
    let code = text_of(error, "code").filter(|code| !code.is_empty());
    let kind = text_of(error, "type").filter(|kind| *kind != "error");
    let status = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
    Word {
        name: code.or(kind).unwrap_or_default(),
        message: message.unwrap_or_default(),
        status: status.and_then(|status| u16::try_from(status).ok()).filter(|status| *status >= 400),
    }
}

fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// The kind of an error that came with status 200, and the status that the same error has where
/// it comes as an answer of its own.
fn meaning(word: &Word<'_>) -> (FaultKind, Option<u16>) {
    if context_too_long(word.name, word.message) {
        return (FaultKind::ContextTooLong, None);
    }
    if declines(word.name) {
        return (FaultKind::Declined, None);
    }
    let status = word.status.or(match word.name {
        "overloaded_error" | "overloaded" | "engine_overloaded" => Some(529),
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" | "requests" | "tokens" => Some(429),
        "authentication_error" | "invalid_api_key" => Some(401),
        "permission_error" => Some(403),
        "invalid_request_error" | "billing_error" => Some(400),
        "not_found_error" | "model_not_found" => Some(404),
        "timeout_error" => Some(504),
        "api_error" | "server_error" | "internal_server_error" => Some(500),
        _ => None,
    });
    match status.and_then(FaultKind::of_status) {
        Some(kind) => (kind, status),
        None if word.message.to_ascii_lowercase().contains("overloaded") => (FaultKind::Overloaded, Some(529)),
        None => (FaultKind::Server, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Fault {
        of_response(status, body.as_bytes(), &[Sensitive::from("hunter2-hunter2")])
    }

    #[test]
    fn the_words_of_providers_become_one_phrase() {
        for (status, body, kind, detail) in [
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                FaultKind::Overloaded,
                "the provider answers 529: overloaded_error: Overloaded",
            ),
            (
                429,
                r#"{"error":{"message":"Slow\n down","type":"requests","code":"rate_limit_exceeded"}}"#,
                FaultKind::RateLimited,
                "the provider answers 429: rate_limit_exceeded: Slow down",
            ),
            (
                404,
                r#"{"error":"model 'x' not found"}"#,
                FaultKind::Refused,
                "the provider answers 404: model 'x' not found",
            ),
            (400, r#"{"detail":"no"}"#, FaultKind::Refused, "the provider answers 400: no"),
            (502, "<html><body>Bad gateway</body></html>", FaultKind::Server, "the provider answers 502"),
            (500, "", FaultKind::Server, "the provider answers 500"),
            (
                302,
                "",
                FaultKind::Refused,
                "the provider answers 302, a redirect; base_url must name the address itself",
            ),
        ] {
            let fault = of(status, body);
            assert_eq!((fault.kind, fault.detail.as_str(), fault.status), (kind, detail, Some(status)));
        }
    }

    #[test]
    fn the_words_for_a_context_that_is_too_long() {
        for body in [
            r#"{"error":{"message":"too many","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 213423 tokens > 200000 maximum"}}"#,
            r#"{"error":{"code":400,"message":"the request exceeds","type":"exceed_context_size_error"}}"#,
            r#"{"message":"This model's maximum context length is 4096 tokens."}"#,
        ] {
            assert_eq!(of(400, body).kind, FaultKind::ContextTooLong, "{body}");
        }
        assert_eq!(of(400, r#"{"error":{"message":"bad tool schema"}}"#).kind, FaultKind::Refused);
    }

    #[test]
    fn no_phrase_holds_a_credential() {
        for body in [
            r#"{"error":{"message":"Incorrect API key provided: sk-abc***xyz.","code":"invalid_api_key"}}"#,
            r#"{"error":{"message":"the key hunter2-hunter2 and 'gsk_123' are known here"}}"#,
        ] {
            for status in [400, 401, 500] {
                let detail = of(status, body).detail;
                assert!(["sk-abc", "xyz", "hunter2", "gsk_"].iter().all(|part| !detail.contains(part)), "{detail}");
            }
        }
        let long = of(400, &format!(r#"{{"message":"{}"}}"#, "я".repeat(5000)));
        assert_eq!(long.detail.chars().filter(|c| *c == 'я').count(), 200);
    }

    #[test]
    fn errors_that_stand_in_a_reply_mean_what_they_mean_alone() {
        for (body, kind, status) in [
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                FaultKind::Overloaded,
                Some(529),
            ),
            (r#"{"error":{"type":"rate_limit_error"}}"#, FaultKind::RateLimited, Some(429)),
            (r#"{"error":{"code":502,"message":"upstream"}}"#, FaultKind::Server, Some(502)),
            (r#"{"error":{"code":"server_error","message":"x"}}"#, FaultKind::Server, Some(500)),
            (r#"{"error":{"message":"The engine is currently overloaded"}}"#, FaultKind::Overloaded, Some(529)),
            (r#"{"error":{"message":"prompt is too long"}}"#, FaultKind::ContextTooLong, None),
            (r#"{"error":"nobody knows"}"#, FaultKind::Server, None),
            (r#"{"type":"error","error":{"type":"authentication_error"}}"#, FaultKind::Auth, Some(401)),
        ] {
            let fault = error_in(body, &[]).unwrap_or_else(|| panic!("{body} is an error"));
            assert_eq!((fault.kind, fault.status), (kind, status), "{body}");
        }
        assert_eq!(error_in(r#"{"error":null,"choices":[]}"#, &[]), None);
        assert_eq!(error_in(r#"{"delta":{"text":"\"error\""}}"#, &[]), None);
    }
}
