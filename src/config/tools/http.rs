//! `tools.<name>.http`: the request, and what its answer means.

use std::collections::BTreeMap;

use crate::{
    config::{
        otel,
        reader::Section,
        scalar::{self, Read},
        secret::Vault,
        tree::{Node, Value},
    },
    core::Sensitive,
    tool::http::{Address, Body, DEFAULT_ANSWER_BYTES, Failure, Header, Method, Plan, check_header_name},
};

use super::free;

/// Bytes that a configuration may let in.
const MOST_BYTES: u64 = 64 << 20;

pub(super) fn read(section: &Section<'_>, vault: Vault<'_>) -> Option<Plan> {
    let method = section.get("method", scalar::word(&Method::ALL)).unwrap_or(Method::Get);
    let address = section.need("url", |node| Address::parse(&scalar::text(node)?));
    let query = section.map("query", free::plain_name, free::template);
    let headers = section.map("headers", header_name, |node| header(node, vault));
    let bearer = section.get("bearer", |node| header_value(vault.pointed(node)?));
    let body = body(section, method);
    let result = section.get("result", free::pointer);
    let failure = failure(section);
    let max_bytes = section.get("max_bytes", scalar::bytes(1..=MOST_BYTES)).unwrap_or(DEFAULT_ANSWER_BYTES);
    if bearer.is_some() && headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        section.wrong("bearer", "must not stand beside a header authorization");
    }
    let headers = headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    Some(Plan { method, address: address?, query, headers, bearer, body, result, failure, max_bytes })
}

fn body(section: &Section<'_>, method: Method) -> Option<Body> {
    let json = section.get("json", free::shape).map(Body::Json);
    let form: BTreeMap<_, _> = section.map("form", free::plain_name, free::template);
    for key in ["json", "form"].into_iter().filter(|key| section.has(key)) {
        if method == Method::Get {
            section.wrong(key, "is for POST, PUT, PATCH and DELETE; write method: POST, or query");
        }
    }
    if section.has("json") && section.has("form") {
        section.wrong("form", "must not stand beside json");
    }
    json.or_else(|| section.has("form").then_some(Body::Form(form)))
}

fn failure(section: &Section<'_>) -> Option<Failure> {
    let rule = section.section("failure");
    let equals = rule.get("equals", free::json);
    let message = rule.get("message", free::pointer);
    let pointer = rule.get("pointer", free::pointer);
    if section.has("failure") && !rule.has("pointer") {
        rule.wrong("pointer", "is missing; write the place of the word that means failure, such as /ok");
    }
    Some(Failure { pointer: pointer?, equals, message })
}

fn header_name(name: &str) -> Read<()> {
    otel::header_name(name)?;
    check_header_name(name)
}

/// Text with holes, or a secret by `{ env: NAME }` or `{ file: PATH }`.
fn header(node: &Node, vault: Vault<'_>) -> Read<Header> {
    match &node.value {
        Value::Map(_) => Ok(Header::Secret(header_value(vault.pointed(node)?)?)),
        Value::Scalar { .. } | Value::List(_) => {
            let template = free::template(node)?;
            let fits = template.source().bytes().all(|byte| (0x20..0x7f).contains(&byte));
            if fits {
                Ok(Header::Text(template))
            } else {
                Err("holds characters that no HTTP header may hold".to_owned())
            }
        }
    }
}

fn header_value(secret: Sensitive<String>) -> Read<Sensitive<String>> {
    let fits = secret.expose().bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if fits { Ok(secret) } else { Err("holds characters that no HTTP header may hold".to_owned()) }
}
