//! The W3C headers: which come in, which go out, and which do neither.

mod joined;
mod ways;

use prost::Message as _;
use serde_json::json;

use crate::{
    collector::{Collector, Manner},
    kinds::service::Service,
    process::Home,
};

fn config(tool: &str, model: &str) -> String {
    format!(
        "
agents:
  one: {{system_prompt: Help., model: one, language: en, tools: [weather], task_types: [other]}}
models:
  one: {{provider: openai, model: m-1, base_url: '{model}', api_key: {{env: MODEL_KEY}}, stream: false}}
tools:
  weather:
    http: {{method: GET, url: '{tool}'}}
    description: The weather.
    effect: read
    parameters: {{type: object, properties: {{}}, additionalProperties: false}}
"
    )
}

/// A model that calls the tool, then answers.
fn reply(asked: &str) -> String {
    let message = if asked.contains("\"tool\"") && asked.contains("tool_call_id") {
        json!({"role": "assistant", "content": "Sunny."})
    } else {
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]})
    };
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12});
    json!({"id": "r", "object": "chat.completion", "model": "m-1", "usage": usage,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    .to_string()
}

/// A caller's baggage is neither kept nor handed on: whoever may open a session must not reach a
/// provider's headers. Its tracestate belongs to its own trace, which a session does not join.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_callers_trace_is_linked_and_its_baggage_goes_nowhere() {
    let collector = Collector::start(Manner::Accept).await;
    let tool = Service::saying(200, json!({"sky": "clear"})).await;
    let json_type = || vec![("content-type", "application/json".to_owned())];
    let model = Service::answering(move |asked| (200, json_type(), reply(&String::from_utf8_lossy(&asked.body)))).await;
    let config = config(&tool.url("/weather"), &model.url("/v1"));
    let endpoint = collector.http();
    let id = tokio::task::spawn_blocking(move || {
        let home =
            Home::configured(&config).variable("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).variable("MODEL_KEY", "key");
        let server = home.serve();
        let headers = [
            ("content-type", "application/json"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ("tracestate", "vendor=planted-state"),
            ("baggage", "customer=planted-baggage"),
        ];
        let answer = server.request("POST", "/v1/sessions?wait=15s", &headers, &json!({"task": "Sky?"}).to_string());
        assert_eq!((answer.status, &answer.json()["answer"]), (200, &json!("Sunny.")), "{answer:?}");
        let id = answer.json()["session_id"].as_str().unwrap().to_owned();
        let journal = server.get(&format!("/v1/sessions/{id}/journal")).body;
        assert!(!journal.contains("planted"), "{journal}");
        assert_eq!(server.stop().code, Some(0));
        id
    })
    .await
    .unwrap();

    let trace = id.trim_start_matches("sess_").to_owned();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let spans = collector.spans();
    let span = |prefix: &str| spans.iter().find(|span| span.name.starts_with(prefix)).expect(prefix);
    let root = span("invoke_agent");
    assert_eq!(hex(&root.trace_id), trace, "a trace of its own");
    assert_eq!(hex(&root.links[0].trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    let sent = |service: &Service, prefix: &str| {
        for asked in service.asked() {
            assert!(asked.header("baggage").is_none() && asked.header("tracestate").is_none(), "{asked:?}");
            let parent = asked.header("traceparent").expect("the session's own").to_owned();
            let ids: Vec<_> = parent.split('-').collect();
            assert_eq!((ids[0], ids[1], ids[3]), ("00", trace.as_str(), "01"), "{parent}");
            let own = spans.iter().filter(|span| span.name.starts_with(prefix));
            assert!(own.into_iter().any(|span| hex(&span.span_id) == ids[2]), "{parent} is the call's span");
        }
    };
    sent(&tool, "execute_tool");
    sent(&model, "chat");
    assert_eq!((tool.asked().len(), model.asked().len()), (1, 2));
    let bytes: Vec<u8> = collector.resources().iter().flat_map(|one| one.encode_to_vec()).collect();
    assert!(!String::from_utf8_lossy(&bytes).contains("planted"));
}
