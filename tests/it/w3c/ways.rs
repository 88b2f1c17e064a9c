//! A joined trace on all three ways out (models, HTTP tools, MCP servers), before and after the
//! process is killed: the caller's trace and flag, the call's own span, no baggage.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::joined::hex;
use crate::{
    auth::{ask, hash_of_key, key},
    collector::{Collector, Manner},
    kinds::service::{Asked, Service},
    mcp::server::Fake,
    process::{Home, PATIENCE, Server},
};

/// A trace that the caller records, and one that it does not.
const SAMPLED: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const UNSAMPLED: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "00f067aa0ba902b7";

/// The two services of the test, and whether the model answers what follows the first calls.
struct Outside {
    model: Service,
    tool: Service,
    fake: Fake,
    ready: Arc<AtomicBool>,
}

/// Trace, span and flags of a `traceparent`.
type Parent = (String, String, String);

impl Outside {
    async fn new() -> Self {
        let ready = Arc::new(AtomicBool::new(false));
        let now = ready.clone();
        let model = Service::answering(move |asked| play(asked, now.load(Ordering::SeqCst))).await;
        Self { model, tool: Service::saying(200, json!({"sky": "clear"})).await, fake: Fake::new(), ready }
    }

    fn home(&self, sampling: &str, collector: &Collector) -> Home {
        let config = format!(
            "
agents:
  one: {{system_prompt: Help., model: one, language: en, tools: [weather, fake_echo], task_types: [other]}}
models:
  one: {{provider: openai, model: m-1, base_url: '{}', stream: false}}
tools:
  weather:
    http: {{method: GET, url: '{}'}}
    description: The weather.
    effect: read
    scopes: []
    parameters: {{type: object, properties: {{}}, additionalProperties: false}}
mcp_servers:
{}
auth:
  api_keys:
    gateway: {{hash: '{}', principal: {{id: gate-1}}}}
  join_traces: [gate-1]
server: {{lease: 1s}}
telemetry: {{sampling: {sampling}}}
",
            self.model.url("/v1"),
            self.tool.url("/weather"),
            self.fake.yaml("scopes: []\n"),
            hash_of_key("owner"),
        );
        Home::configured(&config).variable("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http())
    }

    /// What went out with baggage or state of others; nothing should.
    fn with_baggage(&self) -> usize {
        let asked = [self.model.asked(), self.tool.asked()].concat();
        let of_http = asked.iter().filter(|one| one.header("baggage").is_some() || one.header("tracestate").is_some());
        let heard = self.fake.heard();
        let of_mcp = heard.iter().filter(|one| one.to_string().contains("planted"));
        of_http.count() + of_mcp.count()
    }

    /// The parents that went out to the model, to the HTTP tool and to the MCP server.
    fn parents(&self) -> [Vec<Parent>; 3] {
        let of_http = |service: &Service| {
            let asked = service.asked();
            asked.iter().map(|one| parent(one.header("traceparent").expect("a parent"))).collect::<Vec<_>>()
        };
        let heard = self.fake.heard();
        let calls = heard.iter().filter(|one| one["method"] == "tools/call");
        let of_mcp = calls.map(|one| parent(one["params"]["_meta"]["traceparent"].as_str().expect("a parent")));
        [of_http(&self.model), of_http(&self.tool), of_mcp.collect()]
    }
}

fn parent(header: &str) -> Parent {
    let [version, trace, span, flags]: [&str; 4] = header.split('-').collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(version, "00", "{header}");
    (trace.to_owned(), span.to_owned(), flags.to_owned())
}

/// Both tools in each of two steps, then an answer; nothing after the first step before it is time.
fn play(asked: &Asked, ready: bool) -> (u16, Vec<(&'static str, String)>, String) {
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    let results = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool").count();
    if results > 0 && !ready {
        return (429, vec![("retry-after", "20".to_owned())], String::new());
    }
    let call = |name: &str, arguments: Value| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        json!({"id": format!("{name}_{results}"), "type": "function", "function": function})
    };
    let calls = json!([call("weather", json!({})), call("fake_echo", json!({"text": format!("after {results}")}))]);
    let message = match results {
        0 | 2 => json!({"role": "assistant", "content": null, "tool_calls": calls}),
        _ => json!({"role": "assistant", "content": "Sunny."}),
    };
    let reply = json!({"id": "r", "object": "chat.completion", "model": "m-1",
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    (200, vec![("content-type", "application/json".to_owned())], reply.to_string())
}

fn begin(server: &Server<'_>, trace: &str, flags: &str) -> String {
    let (bearer, parent) = (format!("Bearer {}", key("owner")), format!("00-{trace}-{CALLER}-{flags}"));
    let headers = [
        ("content-type", "application/json"),
        ("authorization", &bearer),
        ("traceparent", &parent),
        ("tracestate", "vendor=planted-state"),
        ("baggage", "customer=planted-baggage"),
    ];
    let answer = server.request("POST", "/v1/sessions", &headers, &json!({"task": "Sky?"}).to_string());
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["session_id"].as_str().unwrap().to_owned()
}

/// The span of each call of a session, by the sort of call, as its journal has them.
fn calls(server: &Server<'_>, id: &str) -> BTreeMap<&'static str, BTreeSet<String>> {
    let journal = ask(server, Some("owner"), "GET", &format!("/v1/sessions/{id}/journal"), "").json();
    let mut calls = BTreeMap::<_, BTreeSet<_>>::new();
    for entry in journal["facts"].as_array().unwrap() {
        let (model, tool) = (&entry["fact"]["model_call_started"], &entry["fact"]["tool_call_started"]);
        let sort = match tool["call"]["tool"].as_str() {
            Some("weather") => "weather",
            Some(_) => "fake_echo",
            None => "model",
        };
        if let Some(span) = model["op"].as_str().or(tool["op"].as_str()) {
            calls.entry(sort).or_default().insert(span.to_owned());
        }
    }
    calls
}

/// Two sessions that are killed between their steps and resumed; gives the spans of their calls.
fn lives(outside: &Outside, home: &Home) -> [(String, BTreeMap<&'static str, BTreeSet<String>>); 2] {
    let first = home.serve();
    let ids = [begin(&first, SAMPLED, "01"), begin(&first, UNSAMPLED, "00")];
    // Each has asked again with what its tools said, and waits.
    for _ in 0..PATIENCE.as_millis() / 10 {
        if outside.model.asked().len() >= 4 {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(outside.model.asked().len(), 4);
    // What is asked may be a moment before it is kept, and what is not kept is asked as another call.
    for id in &ids {
        first.get_until("/healthz", |_| calls(&first, id)["model"].len() == 2);
    }
    first.process.signal("KILL");
    drop(first);
    outside.ready.store(true, Ordering::SeqCst);

    let second = home.serve();
    let of_each = ids.map(|id| {
        let status = |id: &str| ask(&second, Some("owner"), "GET", &format!("/v1/sessions/{id}"), "").json();
        second.get_until("/healthz", |_| status(&id)["status"] == "done");
        let calls = calls(&second, &id);
        (id, calls)
    });
    assert_eq!(second.stop().code, Some(0));
    of_each
}

/// What went out in a trace is what its session called, under one flag.
fn check(parents: &[Vec<Parent>; 3], trace: &str, flags: &str, calls: &BTreeMap<&'static str, BTreeSet<String>>) {
    for (way, (sort, parents)) in ["model", "weather", "fake_echo"].into_iter().zip(parents).enumerate() {
        let here: Vec<_> = parents.iter().filter(|(of, ..)| of == trace).collect();
        // The model was asked before and after the kill what it did not answer before.
        assert_eq!(here.len(), [4, 2, 2][way], "{sort}: {parents:?}");
        assert!(here.iter().all(|(.., flag)| flag == flags), "{sort}: {here:?}");
        let spans: BTreeSet<_> = here.iter().map(|(_, span, _)| span.clone()).collect();
        assert_eq!(spans, calls[sort], "{sort}: the spans of its calls");
    }
}

async fn on_all_ways_out(sampling: &'static str) {
    let (collector, outside) = (Collector::start(Manner::Accept).await, Arc::new(Outside::new().await));
    let home = outside.home(sampling, &collector);
    let around = outside.clone();
    let [(_, sampled), (other, unsampled)] = tokio::task::spawn_blocking(move || lives(&around, &home)).await.unwrap();
    let parents = outside.parents();
    check(&parents, SAMPLED, "01", &sampled);
    check(&parents, UNSAMPLED, "00", &unsampled);
    let traces: BTreeSet<_> = parents.iter().flatten().map(|(trace, ..)| trace.as_str()).collect();
    assert_eq!(traces, BTreeSet::from([SAMPLED, UNSAMPLED]), "never a trace of the session's own");
    assert_eq!(outside.with_baggage(), 0);

    let spans = collector.spans();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == SAMPLED), "nothing of {other}");
    let sent: BTreeSet<_> = spans.iter().map(|span| hex(&span.span_id)).collect();
    let called: BTreeSet<_> = sampled.into_values().flatten().collect();
    // Under tail a session that went well is sent by its share, which is all of them here.
    assert!(called.is_subset(&sent), "{called:?} in {sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joined_trace_goes_out_with_every_call_also_after_a_kill() {
    on_all_ways_out("head").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_tail_the_callers_flag_goes_out_as_it_came() {
    on_all_ways_out("tail").await;
}
