//! The loop as one writes it by hand, to hold the runtime against: the same requests with the
//! same HTTP client and the same tool; no journal, no checks, no signals.

use std::time::Duration;

use serde_json::{Value, json};

use crate::loopback::{SYSTEM, definition, lookup};

/// The HTTP client with the settings that glassbox gives its own.
pub(crate) fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent("bare")
        .http1_only()
        .pool_max_idle_per_host(usize::MAX)
        .pool_idle_timeout(Duration::from_secs(50))
        .connect_timeout(Duration::from_secs(10))
        .tcp_nodelay(true)
        .build()
        .expect("a client")
}

/// One session from its task to its answer.
pub(crate) async fn session(client: &reqwest::Client, url: &str, task: &str) -> String {
    let mut messages = vec![json!({"role": "system", "content": SYSTEM}), json!({"role": "user", "content": task})];
    loop {
        let body = json!({"model": "m-1", "messages": messages, "tools": [definition()], "max_tokens": 4096,
            "stream": false});
        let request = client.post(format!("{url}/v1/chat/completions")).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.expect("an answer");
        let reply: Value = serde_json::from_slice(&response.bytes().await.expect("a body")).expect("JSON");
        let message = reply["choices"][0]["message"].clone();
        let Some(calls) = message["tool_calls"].as_array().cloned() else {
            return message["content"].as_str().unwrap_or_default().to_owned();
        };
        messages.push(message);
        for call in calls {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let result = lookup(&serde_json::from_str(arguments).expect("arguments"));
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result.to_string()}));
        }
    }
}
