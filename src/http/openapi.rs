//! The document of the API, made of the routes themselves and served at `/openapi.json`.
//!
//! A handler says what is its own: its parameters, its answers, its errors. What may happen to
//! any request (a limit, a stop, a panic) is added here. It must never describe a route that it
//! was not given.

use std::sync::Arc;

use axum::{
    Extension,
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use utoipa::{
    Modify, OpenApi,
    openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
};

use super::problem::{Members, PROBLEM_JSON};

/// The document as text, made once.
#[derive(Clone)]
pub(super) struct Document(Arc<str>);

#[derive(OpenApi)]
#[openapi(
    info(
        title = "glassbox",
        description = "Sessions of LLM agents: begin them, follow them, decide on what waits for a person.\n\n\
            Every error is a problem+json (RFC 9457), and every answer names its request in `x-request-id`. \
            Answers carry no CORS headers: pages of other sites cannot read them.",
    ),
    components(schemas(Members)),
    modifiers(&Security),
    tags(
        (name = "sessions", description = "Begin, follow and stop sessions"),
        (name = "confirmations", description = "Calls that wait for a person"),
        (name = "handovers", description = "What a person has to look at"),
        (name = "catalogue", description = "Agents and tools"),
        (name = "circuits", description = "Circuit breakers"),
        (name = "data", description = "What is kept of people"),
        (name = "operation", description = "What probes and scrapers ask"),
    ),
)]
struct Frame;

struct Security;

/// The document without any route.
pub(super) fn frame() -> utoipa::openapi::OpenApi {
    Frame::openapi()
}

/// This document
#[utoipa::path(
    get, path = "/openapi.json", tag = "operation", operation_id = "read_openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json"))
)]
pub(super) async fn document(Extension(Document(text)): Extension<Document>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}

impl Modify for Security {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key, or a token of the login service. Without a login nothing is asked for."))
            .build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        let key = ApiKeyValue::with_description("x-api-key", "An API key, where a proxy keeps `authorization`.");
        components.add_security_scheme("api_key", SecurityScheme::ApiKey(ApiKey::Header(key)));
    }
}

impl Document {
    pub(super) fn of(openapi: utoipa::openapi::OpenApi) -> Self {
        let mut document = serde_json::to_value(openapi).expect("a document is plain data");
        // One of them: without a login nothing is asked for.
        document["security"] = json!([{}, {"bearer": []}, {"api_key": []}]);
        for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
            for (method, operation) in item.as_object_mut().into_iter().flatten() {
                complete(method, path, operation);
            }
        }
        Self(document.to_string().into())
    }
}

/// Adds the answers that any such request may get, and gives every error its form.
fn complete(method: &str, path: &str, operation: &mut Value) {
    let has = |part: &str| operation.get(part).is_some();
    let (body, input) = (has("requestBody"), has("requestBody") || has("parameters"));
    let everywhere = [
        (true, 408, "It took longer than `server.request_timeout` allows"),
        (true, 421, "The host is not one that this service is called by"),
        (true, 500, "A mistake of the service"),
        (input, 400, "The request cannot be read"),
        (true, 401, "There is no login, or not one that is known; probes and scrapers need none unless configured"),
        (method != "get", 403, "A page of another site sent it"),
        (body, 413, "The body is larger than `server.max_body_bytes` allows"),
        (body, 415, "The body is not called JSON"),
        (body, 422, "The request says what cannot be"),
        (
            path.starts_with("/v1/") || path == "/readyz",
            503,
            "The service stops, is full, or its journal is out of reach",
        ),
    ];
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (_, status, description) in everywhere.into_iter().filter(|(applies, ..)| *applies) {
        responses.entry(status.to_string()).or_insert_with(|| json!({ "description": description }));
    }
    for (status, response) in responses.iter_mut() {
        let Some(response) = response.as_object_mut() else { continue };
        headers(status, response);
        if status.starts_with(['4', '5']) {
            response.insert(
                "content".into(),
                json!({ PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}} }),
            );
        }
    }
    responses.sort_keys();
}

fn headers(status: &str, response: &mut Map<String, Value>) {
    let headers = response.entry("headers").or_insert_with(|| json!({}));
    headers["x-request-id"] = json!({"description": "The name of the request", "schema": {"type": "string"}});
    if status == "429" {
        headers["ratelimit-policy"] = json!({"description": "The limits of the caller, as draft-ietf-httpapi-ratelimit-headers has them", "schema": {"type": "string"}});
        headers["ratelimit"] = json!({"description": "What is left of them", "schema": {"type": "string"}});
    }
    if ["409", "429", "503"].contains(&status) {
        headers["retry-after"] = json!({"description": "Seconds after which it may be tried again", "schema": {"type": "integer", "minimum": 0}});
    }
}
