//! The web service of the demo bank: exchange rates over HTTP, and its branches as an MCP server.
//! It stands in for what a real bank has on its network, so that the demonstration has a tool of
//! each kind and needs none.
//!
//! It runs in a thread of its own, on a free port of the loopback, and only where a configuration
//! names `http://bank.localhost`. It must never know a customer: everybody is told the same.

use std::{
    borrow::Cow,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Mutex, PoisonError},
    thread,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::Path,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

/// The address that stands for the service; names under `localhost` belong to this machine.
const PLACE: &str = "http://bank.localhost";

/// Tenge for one unit.
const RATES: [(&str, f64); 3] = [("USD", 521.5), ("EUR", 605.1), ("RUB", 6.4)];

/// City, street, hours.
const BRANCHES: [(&str, &str, &str); 3] = [
    ("Алматы", "проспект Абая, 10", "09:00-18:00"),
    ("Алматы", "улица Толе би, 59", "09:00-20:00"),
    ("Астана", "проспект Кабанбай батыра, 5", "10:00-19:00"),
];

/// Where the service of this process listens, once somebody needed it.
static LISTENING: Mutex<Option<SocketAddr>> = Mutex::new(None);

/// An address that can be reached: the service in the place of `http://bank.localhost`, which is
/// started for it, and any other address as it is.
///
/// # Errors
/// Where the service cannot listen.
pub fn reachable(address: &str) -> io::Result<Cow<'_, str>> {
    match address.strip_prefix(PLACE) {
        Some(path) if path.starts_with('/') => Ok(format!("http://{}{path}", listen()?).into()),
        _ => Ok(address.into()),
    }
}

/// Listens, unless it does already.
fn listen() -> io::Result<SocketAddr> {
    let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(address) = *listening {
        return Ok(address);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    thread::Builder::new().name("bank-service".to_owned()).spawn(move || {
        runtime.block_on(async {
            // It serves until the process ends; there is nobody to tell that it could not.
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                let _ = axum::serve(listener, routes()).await;
            }
        });
    })?;
    Ok(*listening.insert(address))
}

fn routes() -> Router {
    Router::new().route("/rates/{currency}", get(rate)).route("/mcp", post(hear))
}

async fn rate(Path(currency): Path<String>) -> Response {
    match RATES.iter().find(|(known, _)| *known == currency) {
        Some((currency, tenge)) => Json(json!({"currency": currency, "tenge": tenge})).into_response(),
        None => (StatusCode::NOT_FOUND, Json(json!({"message": "no such currency"}))).into_response(),
    }
}

/// One message of the Model Context Protocol. The server keeps no sessions and tells nothing by
/// itself, so each request has its answer and that is all.
async fn hear(body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Value>(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let params = &message["params"];
    let answer = match message["method"].as_str() {
        Some("initialize") => Ok(json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bank", "version": env!("CARGO_PKG_VERSION")},
        })),
        Some("tools/list") => Ok(json!({ "tools": [definition()] })),
        Some("tools/call") if params["name"] == "find" => Ok(find(&params["arguments"]["city"])),
        Some("tools/call") => Err(json!({"code": -32602, "message": "no such tool"})),
        Some("ping") => Ok(json!({})),
        _ => Err(json!({"code": -32601, "message": "no such method"})),
    };
    let (key, value) = match answer {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    Json(json!({"jsonrpc": "2.0", "id": id, key: value})).into_response()
}

fn definition() -> Value {
    json!({
        "name": "find",
        "description": "Branches of the bank in one city, with address and opening hours.",
        "inputSchema": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The city, in Russian: Алматы, Астана."}},
            "required": ["city"],
        },
        "annotations": {"readOnlyHint": true},
    })
}

fn find(city: &Value) -> Value {
    let of_city = BRANCHES.iter().filter(|(place, ..)| city == place);
    let branches: Vec<_> = of_city.map(|(_, address, hours)| json!({"address": address, "hours": hours})).collect();
    let found = json!({ "branches": branches });
    json!({"content": [{"type": "text", "text": found.to_string()}], "structuredContent": found})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_place_is_moved_and_always_to_the_same_port() {
        for other in ["http://bank.localhost.example/x", "http://bank.localhost:8099/x", "https://bank.localhost/x"] {
            assert_eq!(reachable(other).expect("as it is"), other);
        }
        let first = reachable("http://bank.localhost/rates/USD").expect("a port");
        assert!(first.starts_with("http://127.0.0.1:") && first.ends_with("/rates/USD"), "{first}");
        assert_eq!(reachable("http://bank.localhost/rates/USD").expect("the same port"), first);
    }
}
