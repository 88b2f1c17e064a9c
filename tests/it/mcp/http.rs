//! A server over streamable HTTP that loses its sessions, in every way that servers do.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use glassbox::core::ToolOutcome;
use serde_json::{Value, json};

use super::{World, told};

/// What a server answers that does not know a session.
#[derive(Clone, Copy, Default, PartialEq)]
enum Unknown {
    /// As the protocol says.
    #[default]
    NotFound,
    /// As some servers do: 400 with an error that answers no request.
    BadRequest,
}

#[derive(Default)]
pub struct Book {
    sessions: BTreeSet<String>,
    unknown: Unknown,
    /// Whether every call is answered as one of an unknown session.
    forgetful: bool,
    /// Sessions begun.
    begun: usize,
    /// Headers of the last call.
    headers: HeaderMap,
}

pub type Shared = Arc<Mutex<Book>>;

/// The server's address and its book.
pub async fn serve() -> (String, Shared) {
    let book = Shared::default();
    let app = Router::new().route("/mcp", post(hear).delete(|| async { StatusCode::OK })).with_state(book.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    (format!("http://{address}/mcp"), book)
}

async fn hear(State(book): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).expect("JSON");
    let mut book = book.lock().expect("no panic");
    let method = message["method"].as_str().unwrap_or_default();
    if method == "initialize" {
        book.begun += 1;
        let session = format!("session-{}", book.begun);
        book.sessions.insert(session.clone());
        let version = &message["params"]["protocolVersion"];
        let result = json!({"protocolVersion": version, "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"}});
        return ([("mcp-session-id", session)], answer(&message["id"], result)).into_response();
    }
    let session = headers.get("mcp-session-id").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let known = book.sessions.contains(session) && !(book.forgetful && method == "tools/call");
    if !known {
        return match book.unknown {
            Unknown::NotFound => StatusCode::NOT_FOUND.into_response(),
            Unknown::BadRequest => {
                let error = json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": "no such session"}});
                (StatusCode::BAD_REQUEST, axum::Json(error)).into_response()
            }
        };
    }
    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    match method {
        "tools/list" => answer(&message["id"], json!({"tools": [{"name": "echo", "inputSchema": text}]})),
        "tools/call" => {
            book.headers = headers.clone();
            answer(&message["id"], json!({"content": [], "structuredContent": message["params"]["arguments"]}))
        }
        "ping" => answer(&message["id"], json!({})),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

fn answer(id: &Value, result: Value) -> Response {
    axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

pub fn yaml(url: &str) -> String {
    format!(
        "  fake:\n    url: {url}\n    headers: {{Authorization: Bearer demo-token}}\n    effect: read\n    timeout: 1s\n\
         circuit_breaker: {{min_calls: 1000}}\n"
    )
}

#[tokio::test]
async fn a_lost_session_is_begun_anew_once_and_nobody_notices() {
    let (url, book) = serve().await;
    let world = World::new(&yaml(&url));
    let echo = json!({"text": "a"});
    assert_eq!(told(&world.call("fake_echo", echo.clone()).await), (ToolOutcome::Ok, r#"{"text":"a"}"#));
    assert_eq!(book.lock().expect("no panic").headers["authorization"], "Bearer demo-token");
    book.lock().expect("no panic").sessions.clear();
    let end = world.call("fake_echo", echo).await;
    assert_eq!((end.outcome, end.attempts), (ToolOutcome::Ok, 1));
    assert_eq!(book.lock().expect("no panic").begun, 2);
    world.stop().await;
}

#[tokio::test]
async fn a_session_that_is_lost_again_at_once_is_a_fault() {
    let (url, book) = serve().await;
    let world = World::new(&yaml(&url));
    book.lock().expect("no panic").forgetful = true;
    let end = world.call("fake_echo", json!({"text": "a"})).await;
    assert_eq!(end.outcome, ToolOutcome::Failed);
    let content = &end.observation.content;
    assert!(content.contains("connection: the MCP server fake"), "{content}");
    book.lock().expect("no panic").forgetful = false;
    world.call_until_ok("fake_echo", json!({"text": "b"})).await;
    world.stop().await;
}

#[tokio::test]
async fn an_answer_that_answers_nothing_is_not_waited_for_and_the_way_is_made_anew() {
    let (url, book) = serve().await;
    let world = World::new(&yaml(&url));
    world.call("fake_echo", json!({"text": "a"})).await;
    {
        let mut book = book.lock().expect("no panic");
        book.sessions.clear();
        book.unknown = Unknown::BadRequest;
    }
    let end = world.call("fake_echo", json!({"text": "b"})).await;
    assert_ne!(end.outcome, ToolOutcome::Ok);
    let end = world.call_until_ok("fake_echo", json!({"text": "c"})).await;
    assert_eq!(told(&end), (ToolOutcome::Ok, r#"{"text":"c"}"#));
    world.stop().await;
}

#[tokio::test]
async fn a_server_that_nobody_listens_for_is_down_and_says_so() {
    let (url, _) = serve().await;
    let world = World::new(&yaml(&url));
    world.call("fake_echo", json!({"text": "a"})).await;
    let store = world.stop().await;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let nobody = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    drop(listener);
    let world = World::on(store, &yaml(&nobody));
    let end = world.call("fake_echo", json!({"text": "a"})).await;
    let expected = "Error: fake_echo failed (connection: the MCP server fake is not there: it cannot be reached). \
                    Try something else or answer with what you know.";
    assert_eq!(told(&end), (ToolOutcome::Failed, expected));
    world.stop().await;
}
