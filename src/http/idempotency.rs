//! `Idempotency-Key`: a request that a client sends again begins no second session.

use axum::http::{HeaderMap, HeaderName, StatusCode};
use serde_json::Value;

use super::problem::Problem;
use crate::runtime::{Opened, Runtime, Task};

/// The header that names a request.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that says that the session was begun by the same request before.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest key.
const LONGEST: usize = 255;

/// The key of a request, if it has one.
fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut given = headers.get_all(KEY).iter();
    let Some(first) = given.next() else { return Ok(None) };
    let text = first.to_str().ok().filter(|text| (1..=LONGEST).contains(&text.len()));
    match (text, given.next()) {
        (Some(text), None) => Ok(Some(text)),
        _ => {
            let detail = format!("idempotency-key must be one value of 1 to {LONGEST} printable ASCII characters");
            Err(Problem::new(StatusCode::BAD_REQUEST, detail))
        }
    }
}

/// Begins the session, or finds the one that the same request began before.
pub(super) async fn open(runtime: &Runtime, headers: &HeaderMap, task: Task, body: &[u8]) -> Result<Opened, Problem> {
    let Some(key) = key(headers)? else {
        let (handle, hour) = runtime.open_counted(task).await?;
        return Ok(Opened::Now(handle, hour));
    };
    // What was read as a task is an object.
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("the body must be JSON: {error}")))?;
    Ok(runtime.open_once(task, key, &body).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Option<String>, ()> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = axum::http::HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
            headers.append(KEY, value);
        }
        key(&headers).map(|key| key.map(str::to_owned)).map_err(drop)
    }

    #[test]
    fn a_key_is_one_short_printable_value() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["8e03978e-40d5"]), Ok(Some("8e03978e-40d5".into())));
        assert_eq!(read(&[&"k".repeat(255)]), Ok(Some("k".repeat(255))));
        assert_eq!(read(&[&"k".repeat(256)]), Err(()));
        assert_eq!(read(&[""]), Err(()));
        assert_eq!(read(&["ключ"]), Err(()));
        assert_eq!(read(&["a", "a"]), Err(()));
    }
}
