//! Content of spans: its form by the JSON Schemas of the GenAI conventions, its truth by the
//! journal, and that it is not there where nobody asked for it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use glassbox::{
    Config, Runtime, Setup, Task,
    config::{Otlp, Protocol},
    core::{
        Arguments, Entry, Fact, Message, ModelReply, ModelRequest, SessionId, ToolOutcome,
        fact::{EraseCause, SpanContent},
    },
    machine::{Prompt, transcript::transcript},
    signal::spans::{Contents, MAX_CONTENT_BYTES, SpanFold},
};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value, json};

use crate::{
    collector::{Collector, Manner},
    process::{Home, Server},
    scenarios::prompted_journals,
};

const GRACE: Duration = Duration::from_secs(20);

/// The attributes whose form is a schema, and that.
const SCHEMAS: [(&str, &str); 4] = [
    ("gen_ai.input.messages", include_str!("../data/semconv-genai/gen-ai-input-messages.json")),
    ("gen_ai.output.messages", include_str!("../data/semconv-genai/gen-ai-output-messages.json")),
    ("gen_ai.system_instructions", include_str!("../data/semconv-genai/gen-ai-system-instructions.json")),
    ("gen_ai.tool.definitions", include_str!("../data/semconv-genai/gen-ai-tool-definitions.json")),
];

/// Every attribute that holds content.
const CONTENT: [&str; 6] = [
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
];

/// The spans of a journal that show so much of it.
pub(crate) fn shown(entries: &[Entry], mode: SpanContent, prompt: &Prompt) -> Vec<SpanData> {
    let prompt = prompt.clone();
    let mut fold = SpanFold::showing(Contents { mode, prompts: Arc::new(move |_| Some(prompt.clone())) });
    entries.iter().filter_map(|entry| fold.apply(entry)).collect()
}

fn text(span: &SpanData, key: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key.as_str() == key)?;
    Some(attribute.value.as_str().into_owned())
}

fn value(span: &SpanData, key: &str) -> Option<Value> {
    text(span, key).map(|text| serde_json::from_str(&text).unwrap_or_else(|error| panic!("{key}: {error}: {text}")))
}

/// The validators of the schemas; of a definition of a tool, the strict form that ours have.
fn validators() -> BTreeMap<&'static str, jsonschema::Validator> {
    let build = |(key, schema): (&'static str, &str)| {
        let mut schema: Value = serde_json::from_str(schema).unwrap();
        if key == "gen_ai.tool.definitions" {
            // The other alternative would take anything that has a type and a name.
            schema["items"] = json!({"$ref": "#/$defs/FunctionToolDefinition"});
            // What the schema refers to outside of itself is asked by `check_parameters`.
            schema["$defs"]["FunctionToolDefinition"]["properties"]["parameters"] = json!({});
        } else if key != "gen_ai.system_instructions" {
            let message = if key == "gen_ai.input.messages" { "ChatMessage" } else { "OutputMessage" };
            let parts = &mut schema["$defs"][message]["properties"]["parts"]["items"]["anyOf"];
            parts.as_array_mut().unwrap().retain(|part| part["$ref"] != "#/$defs/GenericPart");
        }
        (key, jsonschema::validator_for(&schema).unwrap())
    };
    SCHEMAS.into_iter().map(build).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_has_the_form_of_the_conventions() {
    let validators = validators();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (name, entries, prompt) in prompted_journals().await {
        for mode in [SpanContent::Masked, SpanContent::Full] {
            for span in shown(&entries, mode, &prompt) {
                for key in CONTENT {
                    let Some(shown) = text(&span, key) else { continue };
                    assert!(shown.len() <= MAX_CONTENT_BYTES, "{name}: {key}");
                    *seen.entry(format!("{} {key}", span.name.split(' ').next().unwrap())).or_default() += 1;
                    if let Some(validator) = validators.get(key) {
                        let value = value(&span, key).unwrap();
                        let wrong: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
                        assert!(wrong.is_empty(), "{name}: {key}: {wrong:?} in {shown}");
                        check_parameters(&name, &value);
                    }
                }
                assert_eq!(text(&span, "glassbox.content.truncated"), None, "{name}: all has room");
                let mode_of_root = span.name.starts_with("invoke_agent").then(|| mode.label().to_owned());
                assert_eq!(text(&span, "glassbox.content.mode"), mode_of_root, "{name}");
            }
        }
    }
    let sorts: BTreeSet<_> = seen.keys().map(String::as_str).collect();
    let expected = [
        "chat gen_ai.input.messages",
        "chat gen_ai.output.messages",
        "chat gen_ai.system_instructions",
        "chat gen_ai.tool.definitions",
        "execute_tool gen_ai.tool.call.arguments",
        "execute_tool gen_ai.tool.call.result",
        "invoke_agent gen_ai.input.messages",
        "invoke_agent gen_ai.output.messages",
        "invoke_agent gen_ai.system_instructions",
        "invoke_agent gen_ai.tool.definitions",
    ];
    assert_eq!(sorts, BTreeSet::from(expected));
    assert!(seen.values().all(|count| *count > 30), "{seen:?}");
}

/// The conventions ask for JSON Schemas of draft 7.
fn check_parameters(name: &str, shown: &Value) {
    for parameters in shown.as_array().into_iter().flatten().filter_map(|tool| tool.get("parameters")) {
        assert!(jsonschema::draft7::meta::is_valid(parameters), "{name}: {parameters}");
    }
}

/// A message of a request, as (role, texts), worked out by hand.
fn said(message: &Message) -> (String, Vec<String>) {
    let (role, texts) = match message {
        Message::User { content } => ("user", vec![content.clone()]),
        Message::Tool { call_id, content, .. } => ("tool", vec![call_id.clone(), content.clone()]),
        Message::Assistant { content, calls } => {
            let text = Some(content.clone()).filter(|content| !content.is_empty());
            let calls = calls.iter().flat_map(|call| {
                let arguments = match &call.arguments {
                    Arguments::Json(value) => value.to_string(),
                    Arguments::Raw(text) => json!(text).to_string(),
                };
                [call.id.clone(), call.name.clone(), arguments]
            });
            ("assistant", text.into_iter().chain(calls).collect())
        }
    };
    (role.to_owned(), texts)
}

/// The same of a message as a span shows it.
fn shown_message(message: &Value) -> (String, Vec<String>) {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let texts = message["parts"].as_array().unwrap().iter().flat_map(|part| match part["type"].as_str().unwrap() {
        "text" => vec![word(&part["content"])],
        "tool_call" => vec![word(&part["id"]), word(&part["name"]), part["arguments"].to_string()],
        "tool_call_response" => vec![word(&part["id"]), word(&part["response"])],
        other => panic!("no part of ours: {other}"),
    });
    (word(&message["role"]), texts.collect())
}

fn check_request(name: &str, span: &SpanData, request: &ModelRequest) {
    let expected: Vec<_> = request.messages.iter().map(said).collect();
    let input = value(span, "gen_ai.input.messages").unwrap();
    let input: Vec<_> = input.as_array().unwrap().iter().map(shown_message).collect();
    assert_eq!(input, expected, "{name}");
    let system = json!([{"type": "text", "content": request.system}]);
    assert_eq!(value(span, "gen_ai.system_instructions"), Some(system), "{name}");
    let tools: Vec<_> = request.tools.iter().map(|tool| json!({"type": "function", "name": tool.name})).collect();
    assert_eq!(value(span, "gen_ai.tool.definitions"), (!tools.is_empty()).then(|| tools.into()), "{name}");
}

fn check_reply(name: &str, span: &SpanData, reply: Option<&ModelReply>) {
    let reply =
        reply.map(|reply| said(&Message::Assistant { content: reply.text.clone(), calls: reply.calls.clone() }));
    let output = value(span, "gen_ai.output.messages");
    assert_eq!(output.map(|output| shown_message(&output[0])), reply, "{name}");
}

/// What spans show is what went over the wire: the requests are those whose bodies the journal
/// proves by their hashes, which the scenarios hold.
#[tokio::test(start_paused = true)]
async fn a_call_shows_what_was_sent_and_what_came_back() {
    let mut calls = 0;
    for (name, entries, prompt) in prompted_journals().await {
        let spans = shown(&entries, SpanContent::Full, &prompt);
        let chats: Vec<_> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
        let exchanges = transcript(&entries, &prompt);
        assert_eq!(chats.len(), exchanges.len(), "{name}");
        for (span, exchange) in chats.into_iter().zip(&exchanges) {
            check_request(&name, span, &exchange.request);
            check_reply(&name, span, exchange.end.as_ref().and_then(|end| end.reply.as_ref()));
            calls += 1;
        }
        check_root(&name, &entries, spans.last().unwrap());
        check_tools(&name, &entries, &spans);
    }
    assert!(calls > 80, "only {calls} calls");
}

fn check_root(name: &str, entries: &[Entry], root: &SpanData) {
    let Fact::SessionStarted(start) = &entries[0].fact else { panic!("{name}: no start") };
    let Some(Fact::SessionFinished(end)) = entries.last().map(|entry| &entry.fact) else { return };
    let message = |role: &str, text: &str| (role.to_owned(), vec![text.to_owned()]);
    let input = value(root, "gen_ai.input.messages").unwrap();
    assert_eq!(shown_message(&input[0]), message("user", start.task.expose()), "{name}");
    let answer = end.answer.as_ref().or(end.partial.as_ref()).map(|text| message("assistant", text.expose()));
    let output = value(root, "gen_ai.output.messages").map(|output| shown_message(&output[0]));
    assert_eq!(output, answer.filter(|(_, texts)| !texts[0].is_empty()), "{name}");
}

fn check_tools(name: &str, entries: &[Entry], spans: &[SpanData]) {
    let span = |op| spans.iter().find(|span| span.span_context.span_id().to_string() == format!("{op}")).unwrap();
    for entry in entries {
        match &entry.fact {
            Fact::ToolCallStarted { op, call } => {
                let arguments = match &call.arguments {
                    Arguments::Json(value) => value.to_string(),
                    Arguments::Raw(text) => text.clone(),
                };
                assert_eq!(text(span(op), "gen_ai.tool.call.arguments"), Some(arguments), "{name}");
            }
            Fact::ToolCallFinished { op, end } => {
                let result = (end.outcome == ToolOutcome::Ok).then(|| end.observation.content.clone());
                assert_eq!(text(span(op), "gen_ai.tool.call.result"), result, "{name}");
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn content_is_there_where_session_and_process_both_ask_for_it() {
    let (name, mut entries, prompt) = prompted_journals().await.swap_remove(0);
    let mut begun_with = |mode| {
        let Fact::SessionStarted(start) = &mut entries[0].fact else { panic!("{name}: no start") };
        start.trace.content = mode;
        entries.clone()
    };
    for session in SpanContent::ALL {
        let entries = begun_with(session);
        for process in SpanContent::ALL {
            let spans = shown(&entries, process, &prompt);
            let has_content = |span: &SpanData| CONTENT.iter().any(|key| text(span, key).is_some());
            let asked = session != SpanContent::Off && process != SpanContent::Off;
            assert_eq!(spans.iter().all(has_content), asked, "{session:?} {process:?}");
            assert_eq!(spans.iter().any(has_content), asked, "{session:?} {process:?}");
            let weaker = [session, process].map(SpanContent::label);
            let weaker = if weaker.contains(&"masked") { "masked" } else { "full" };
            let mode = text(spans.last().unwrap(), "glassbox.content.mode");
            assert_eq!(mode, asked.then(|| weaker.to_owned()), "{session:?} {process:?}");
        }
        let mut fold = SpanFold::new();
        let plain: Vec<_> = entries.iter().filter_map(|entry| fold.apply(entry)).collect();
        assert_eq!(plain, shown(&entries, SpanContent::Off, &prompt), "off is as if there were no such thing");
    }
    let entries = begun_with(SpanContent::Full);
    let mut fold = SpanFold::showing(Contents { mode: SpanContent::Full, prompts: Arc::new(|_| None) });
    let spans: Vec<_> = entries.iter().filter_map(|entry| fold.apply(entry)).collect();
    let without = |span: &SpanData| CONTENT.iter().all(|key| text(span, key).is_none());
    assert!(spans.len() > 1 && spans.iter().all(without), "texts that cannot be had cost their content, no span");
}

fn config(collector: &Collector) -> Config {
    let mut config = Config::embedded();
    config.privacy.span_content = SpanContent::Full;
    config.server.lease = Duration::from_secs(1);
    config.telemetry.otlp = Some(Otlp {
        endpoint: collector.grpc(),
        protocol: Protocol::Grpc,
        headers: BTreeMap::new(),
        timeout: Duration::from_secs(5),
        gzip: false,
        // Shorter than what live spans keep to themselves of a long one.
        queue_size: 512,
        batch_size: 128,
    });
    config
}

async fn answer(runtime: &Runtime, task: &str) -> SessionId {
    let mut handle = runtime.open(Task::new(task, Config::embedded().auth.default_principal)).await.unwrap();
    tokio::time::timeout(GRACE, handle.ended()).await.unwrap().unwrap();
    handle.id()
}

fn of(spans: &[Span], session: SessionId) -> BTreeMap<Vec<u8>, Span> {
    let own = spans.iter().filter(|span| span.trace_id == session.trace_id().to_bytes());
    own.map(|span| (span.span_id.clone(), span.clone())).collect()
}

/// One life of a service on this folder; what it sent, also in the end.
async fn life<T>(folder: &Path, collector: &Collector, live: impl AsyncFnOnce(&Runtime) -> T) -> T {
    let runtime = Runtime::start(&config(collector), Setup::serve(folder)).unwrap();
    let lived = live(&runtime).await;
    runtime.stop(GRACE).await.unwrap();
    lived
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_again_is_the_same_and_what_was_erased_is_not_sent() {
    let first = Collector::start(Manner::Accept).await;
    let folder = tempfile::tempdir().unwrap();
    let (kept, erased) = life(folder.path(), &first, async |runtime: &Runtime| {
        (
            answer(runtime, "Сколько я потратил на такси в сентябре?").await,
            answer(runtime, "Сколько я потратил на кафе в сентябре?").await,
        )
    })
    .await;
    let before = first.spans();
    let payload = format!("{before:?}");
    for text in ["на такси в сентябре?", "на кафе в сентябре?", "Такси в сентябре: 2 поездки, 5000 ₸."]
    {
        assert!(payload.contains(text), "{text}");
    }

    // As after a crash before the collector's word was noted.
    let file = rusqlite::Connection::open(folder.path().join("glassbox.db")).unwrap();
    assert_eq!(file.execute("UPDATE session SET exported = 0", []), Ok(2));
    drop(file);
    let second = Collector::start(Manner::Accept).await;
    life(folder.path(), &second, async |runtime: &Runtime| {
        let gone = runtime.erase(vec![erased], EraseCause::Request).await.unwrap();
        assert_eq!(gone.erased, 1);
        runtime.keep_sessions();
        second.wait_for(of(&before, kept).len()).await;
    })
    .await;
    let again = second.spans();
    assert_eq!(of(&again, kept), of(&before, kept));
    assert_eq!(of(&again, erased), BTreeMap::new());
    assert_eq!(again.len(), of(&before, kept).len(), "each once");
}

/// Who starts a service whose traces show what people say is told so, and cannot change it by a
/// reload: sessions of one process begin alike.
#[test]
fn a_service_says_at_its_start_what_its_traces_show_and_keeps_to_it() {
    let config = |mode: &str| {
        format!(
            "agents:
  echo: {{system_prompt: Hello., model: echo, language: en, task_types: [other], limits: {{token_budget: 50000}}}}
models:
  echo: {{provider: scripted, script: echo.yaml}}
telemetry: {{otlp: {{endpoint: 'http://127.0.0.1:1'}}}}
privacy: {{span_content: {mode}}}
"
        )
    };
    let home = Home::configured(&config("masked"));
    home.write("echo.yaml", "{name: echo, rules: [{text: hello}]}");
    let shown = home.run(&["check", "config"]);
    assert!(
        shown.out.contains("span_content: masked") && shown.out.contains("# hint: privacy.span_content: "),
        "{shown:?}"
    );
    let mut server = home.serve();
    home.write("glassbox.yaml", &config("full"));
    server.process.signal("HUP");
    let said = server.process.err.until(|line| line.contains("the configuration was read again"));
    assert!(said.contains("these changes need a restart: privacy"), "{said}");
    let warned = |server: &Server<'_>, words: &str| {
        let seen = &server.process.err.seen;
        assert!(seen.iter().any(|line| line.contains("WARN") && line.contains(words)), "{seen:?}");
    };
    warned(&server, "masked, by its shape");
    server.stop();
    warned(&home.serve(), "what people say, as it is");
}
