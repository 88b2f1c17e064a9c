//! The request of one attempt: the plan with its holes filled, and the headers that say which
//! trace and which call it belongs to.

use reqwest::{
    Request, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{Body, Header, Method, Plan, address::MAX_BYTES};
use crate::{
    core::{Effect, Fault, FaultKind, id::hex, port::ToolContext},
    tool::template::{Template, refused},
};

/// The header that makes a service recognise a repeat.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(super) fn build(
    plan: &Plan,
    effect: Effect,
    cx: &ToolContext,
    values: &Map<String, Value>,
) -> Result<Request, Fault> {
    let mut url = plan.address.fill(values)?;
    append_query(&mut url, plan, values)?;
    let mut request = Request::new(method(plan.method), url);
    let (kind, body) = body(plan, values)?;
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert("traceparent", fixed(&cx.trace.traceparent()));
    if effect != Effect::Read {
        headers.insert(IDEMPOTENCY_KEY, key(cx));
    }
    if let Some(kind) = kind {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Some(bearer) = &plan.bearer {
        headers.insert(AUTHORIZATION, secret(&format!("Bearer {}", bearer.expose()))?);
    }
    insert_declared(headers, plan, values)?;
    *request.body_mut() = body.map(Into::into);
    Ok(request)
}

fn append_query(url: &mut Url, plan: &Plan, values: &Map<String, Value>) -> Result<(), Fault> {
    for (name, template) in &plan.query {
        if let Some(value) = template.fill_plain(values)? {
            url.query_pairs_mut().append_pair(name, &value);
        }
    }
    if url.query().is_some_and(|query| query.len() > MAX_BYTES) {
        return Err(refused(format!("the arguments are too long for an address, {MAX_BYTES} bytes are allowed")));
    }
    Ok(())
}

fn insert_declared(headers: &mut HeaderMap, plan: &Plan, values: &Map<String, Value>) -> Result<(), Fault> {
    for (name, header) in &plan.headers {
        let value = match header {
            Header::Secret(value) => Some(secret(value.expose())?),
            Header::Text(template) => {
                template.fill_plain(values)?.map(|text| argument(name, template, &text)).transpose()?
            }
        };
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Fault::new(FaultKind::Internal, format!("{name} is no name of a header")))?;
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    Ok(())
}

fn body(plan: &Plan, values: &Map<String, Value>) -> Result<(Option<&'static str>, Option<Vec<u8>>), Fault> {
    Ok(match &plan.body {
        None => (None, None),
        Some(Body::Json(shape)) => (Some("application/json"), Some(shape.fill(values)?.to_string().into_bytes())),
        Some(Body::Form(fields)) => {
            let mut form = Url::parse("http://form/").expect("an address");
            for (name, template) in fields {
                if let Some(value) = template.fill_plain(values)? {
                    form.query_pairs_mut().append_pair(name, &value);
                }
            }
            let body = form.query().unwrap_or_default().as_bytes().to_vec();
            (Some("application/x-www-form-urlencoded"), Some(body))
        }
    })
}

/// A header's value with an argument in it: one line of plain letters.
fn argument(name: &str, template: &Template, text: &str) -> Result<HeaderValue, Fault> {
    // The type itself would let other letters through as bytes, which services read as they like.
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    plain.then(|| HeaderValue::from_str(text).ok()).flatten().ok_or_else(|| {
        let arguments = template.names().collect::<Vec<_>>().join(", ");
        refused(format!(
            "the argument {arguments} must be one line of plain letters, for it goes into the header {name}"
        ))
    })
}

fn secret(text: &str) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Fault::new(FaultKind::Internal, "a credential holds characters that no header may hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn fixed(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("hexadecimal digits and dashes fit into a header")
}

/// The call's key; the id of a call comes from a model and may be no header, its hash always is.
fn key(cx: &ToolContext) -> HeaderValue {
    HeaderValue::from_str(&cx.idempotency_key)
        .unwrap_or_else(|_| fixed(&hex(&Sha256::digest(cx.idempotency_key.as_bytes()))))
}

const fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
    }
}
