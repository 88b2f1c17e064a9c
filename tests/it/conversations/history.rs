//! A follow-up in the built program: what its model reads, its trace, and what stays of it.

use serde_json::{Value, json};

use super::{id, say};
use crate::{
    collector::{Collector, Manner},
    models::provider::{Play, Provider},
    process::{Home, Server},
};

/// A provider that counts its answers.
async fn provider() -> Provider {
    Provider::start(|number, _| {
        let answer = json!({
            "id": "r-1", "object": "chat.completion", "model": "m-1",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": format!("Answer {number}.")},
                "finish_reason": "stop",
            }],
            "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
        });
        Play::json(200, answer)
    })
    .await
}

fn home(provider: &Provider, collector: &Collector) -> Home {
    Home::configured(&format!(
        "
agents:
  help: {{system_prompt: Help., model: m, language: en, task_types: [other], limits: {{token_budget: 50000}}}}
models:
  m: {{provider: openai, model: m-1, base_url: '{}/v1', api_key: {{env: MODEL_KEY}}, stream: false}}
auth:
  default_principal: {{id: C-001, roles: [user, operator]}}
telemetry: {{events: events.jsonl, otlp: {{endpoint: '{}', protocol: http/protobuf}}}}
",
        provider.url,
        collector.http()
    ))
    .variable("MODEL_KEY", "k-1")
}

/// A session of the conversation `c-1` that ends; gives its report.
fn told(server: &Server<'_>, task: &str) -> Value {
    let answer = say(server, "/v1/sessions?wait=20s", "c-1", task);
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("done")), "{answer:?}");
    answer.json()
}

fn messages(said: &[(&str, &str)]) -> Value {
    let said = said.iter().map(|(role, content)| json!({"role": role, "content": content}));
    std::iter::once(json!({"role": "system", "content": "Help."})).chain(said).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_knows_what_was_said_also_after_a_restart() {
    let (provider, collector) = (provider().await, Collector::start(Manner::Accept).await);
    let home = home(&provider, &collector);
    let server = home.serve();
    let first = told(&server, "Who are you?");
    assert_eq!((&first["answer"], &first["follows"]), (&json!("Answer 0."), &json!(null)));
    server.stop();
    let server = home.serve();
    let second = told(&server, "And I?");
    assert_eq!(second["follows"], first["session_id"]);

    let asked = provider.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].body["messages"], messages(&[("user", "Who are you?")]));
    let mut expected = asked[0].body.clone();
    expected["messages"] = messages(&[("user", "Who are you?"), ("assistant", "Answer 0."), ("user", "And I?")]);
    assert_eq!(asked[1].body, expected);

    let spans = collector.wait_for(4).await;
    let root = |report: &Value| {
        let own = |span: &&opentelemetry_proto::tonic::trace::v1::Span| {
            span.name == "invoke_agent help" && json!(hex(&span.trace_id)) == report["trace_id"]
        };
        spans.iter().find(own).unwrap_or_else(|| panic!("no root in {spans:?}"))
    };
    let links: Vec<_> = root(&second).links.iter().map(|link| (&link.trace_id, &link.span_id)).collect();
    assert_eq!(links, [(&root(&first).trace_id, &root(&first).span_id)]);
    assert!(root(&first).links.is_empty());
    for span in &spans {
        let conversation = span.attributes.iter().find(|attribute| attribute.key == "gen_ai.conversation.id");
        assert!(format!("{conversation:?}").contains("\"c-1\""), "{span:?}");
    }
    server.stop();
    let lines = std::fs::read_to_string(home.path("events.jsonl"))
        .or_else(|_| std::fs::read_to_string(home.data().join("events.jsonl")))
        .unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let begun = lines.filter(|line| line["event"] == "agent_session_started");
    let before: Vec<_> = begun.map(|line| line["previous_session_id"].clone()).collect();
    assert_eq!(before, [json!(null), first["session_id"].clone()]);
    let shown = home.ask(&["session", "show", second["session_id"].as_str().unwrap()]);
    let line = format!("├─ follows {} · 1 earlier session(s) shown", first["session_id"].as_str().unwrap());
    assert!(shown.contains(&line), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_erased_is_carried_no_further_and_missed_by_nobody() {
    let (provider, collector) = (provider().await, Collector::start(Manner::Accept).await);
    let home = home(&provider, &collector);
    let server = home.serve();
    let (first, second) = (told(&server, "Who are you?"), told(&server, "And I?"));
    let delete = |path: &str| server.request("DELETE", path, &[], "");
    assert_eq!(delete(&format!("/v1/sessions/{}", first["session_id"].as_str().unwrap())).status, 204);

    let second = second["session_id"].as_str().unwrap();
    let shown: Value = serde_json::from_str(&home.ask(&["session", "show", "--raw", "--json", second])).unwrap();
    assert_eq!(shown["proof"], "proved");
    assert!(shown["request"].as_str().unwrap().contains("Who are you?"), "{shown}");
    let export = home.ask(&["session", "export", second]);
    let texts = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let texts: Vec<_> = texts.filter_map(|line| line["text"].as_str().map(str::to_owned)).collect();
    for text in ["Who are you?", "Answer 0."] {
        assert!(texts.iter().any(|kept| kept == text), "{text}: {texts:?}");
    }

    let third = told(&server, "Still there?");
    assert_eq!(third["follows"], second);
    let expected = messages(&[("user", "And I?"), ("assistant", "Answer 1."), ("user", "Still there?")]);
    assert_eq!(provider.asked()[2].body["messages"], expected);

    assert_eq!(delete("/v1/principals/C-001").json(), json!({"erased": 2}));
    let files = std::fs::read_dir(home.data()).unwrap().map(|file| std::fs::read(file.unwrap().path()));
    let kept = files.flatten().any(|bytes| String::from_utf8_lossy(&bytes).contains("Who are you?"));
    assert!(!kept, "no byte of it is left");
    assert_eq!(told(&server, "Anybody?")["follows"], json!(null));
    assert_eq!(provider.asked()[3].body["messages"], messages(&[("user", "Anybody?")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_goes_on_with_a_conversation() {
    let (provider, collector) = (provider().await, Collector::start(Manner::Accept).await);
    let home = home(&provider, &collector);
    let run = |task: &str| home.ask(&["run", "--json", "--conversation", "c-1", task]);
    let first: Value = serde_json::from_str(&run("Who are you?")).unwrap();
    run("And I?");
    let expected = messages(&[("user", "Who are you?"), ("assistant", "Answer 0."), ("user", "And I?")]);
    assert_eq!(provider.asked()[1].body["messages"], expected);
    let server = home.serve();
    let rows = server.get("/v1/sessions?conversation_id=c-1").json();
    assert_eq!(rows["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(rows["sessions"][1]["session_id"], first["session_id"]);
}

/// Two processes on one folder, of which one stops in the middle of a session. The other would look
/// for it in minutes.
#[test]
fn a_session_that_was_left_is_taken_up_when_somebody_asks() {
    let home = Home::configured(&format!("{}server: {{lease: 10m, grace_period: 1s}}\n", super::config("C-001")));
    home.write("talk.yaml", super::SCRIPT);
    let (one, other) = (home.serve(), home.serve());
    let begun = say(&one, "/v1/sessions", "c-1", "for ever");
    let (session, place) = (id(&begun), format!("/v1/sessions/{}", id(&begun)));
    let resume = |server: &Server<'_>| server.post(&format!("{place}/resume"), "");
    let refused = |server: &Server<'_>, why: &str| {
        let answer = resume(server);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (409, Some("application/problem+json")),
            "{answer:?}"
        );
        assert!(answer.json()["detail"].as_str().unwrap().contains(&format!("{session} {why}")), "{answer:?}");
    };
    refused(&one, "runs");
    refused(&other, "is driven by proc_");
    one.stop();

    assert_eq!(say(&other, "/v1/sessions", "c-1", "hi").status, 409, "it has not ended");
    let resumed = resume(&other);
    assert_eq!((resumed.status, &resumed.json()["status"]), (202, &json!("running")), "{resumed:?}");
    refused(&other, "runs");
    super::end(&other, &session);
    refused(&other, "has ended");
    assert_eq!(other.post(&format!("/v1/sessions/sess_{}/resume", "0".repeat(32)), "").status, 404);

    let next = say(&other, "/v1/sessions?wait=15s", "c-1", "hi").json();
    assert_eq!((&next["status"], &next["follows"]), (&json!("done"), &json!(session)));
}

#[test]
fn a_session_that_waits_for_a_person_keeps_its_conversation() {
    let home = Home::configured(&glassbox::config::DEFAULT_YAML.replace("confirm: ask_customer", "confirm: suspend"));
    let server = home.serve();
    let waits = say(&server, "/v1/sessions?wait=15s", "c-1", "Заблокируй мою карту");
    assert_eq!(waits.json()["status"], "awaiting_confirmation", "{waits:?}");
    let busy = say(&server, "/v1/sessions", "c-1", "hi");
    assert_eq!((busy.status, id(&busy)), (409, id(&waits)), "{busy:?}");
    let resumed = server.post(&format!("/v1/sessions/{}/resume", id(&waits)), "");
    assert_eq!(resumed.status, 409, "{resumed:?}");
    assert!(resumed.json()["detail"].as_str().unwrap().contains("waits for a person"), "{resumed:?}");
}
