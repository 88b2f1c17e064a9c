//! What stands around a tool, whatever its kind: one table of cases, which requests, statements,
//! programs, MCP servers and functions in Rust all go through in whole sessions. Each tool does the
//! same: it answers, or it never does.

use std::{collections::BTreeMap, future::pending, path::Path, time::Duration};

use async_trait::async_trait;
use axum::{Router, routing::get};
use glassbox::{
    Config, Effect, Fault, FnTool, Principal, Runtime, Setup, Task, ToolReply, ToolSpec,
    config::ToolRate,
    core::{
        Arguments, Fact, Message, Model, ModelReply, SessionId, StreamId, ToolCall,
        ToolOutcome::{self, CircuitOpen, Denied, InvalidArguments, Ok as Fine, RateLimited, Timeout, UnknownOutcome},
        fact::ModelInfo,
        port::ModelCallInput,
        spec::{ArgumentRule, ArgumentTest, Confirm},
    },
    session::{Ended, Say},
};
use serde_json::{Value, json};

use crate::{
    collector::{Collector, Manner},
    mcp::server::Fake,
};

const KINDS: [&str; 5] = ["http", "sql", "command", "mcp", "own"];
const TOOL: &str = "fake_either";

/// What a case declares of the tool.
#[derive(Clone, Default)]
struct Rules {
    effect: Option<Effect>,
    scopes: bool,
    /// A time that is soon over.
    short: bool,
    /// A person is asked where it is to answer.
    confirm: bool,
    one_slot: bool,
    once_a_minute: bool,
}

/// A runtime with one tool of some kind.
struct Place {
    runtime: Runtime,
    folder: tempfile::TempDir,
    collector: Collector,
    _fake: Fake,
}

/// A model that asks for everything that the task lists at once.
struct AtOnce(ModelInfo);

#[async_trait]
impl Model for AtOnce {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn encode(&self, request: &glassbox::core::ModelRequest) -> Vec<u8> {
        serde_json::to_vec(request).expect("plain data")
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        let [Message::User { content }] = &call.request.messages[..] else {
            return Ok(ModelReply { text: "done".into(), ..ModelReply::default() });
        };
        let call = |(count, line): (usize, &str)| ToolCall {
            id: format!("call_{count}"),
            name: TOOL.into(),
            arguments: Arguments::from_text(line),
        };
        Ok(ModelReply { calls: content.lines().enumerate().map(call).collect(), ..ModelReply::default() })
    }
}

impl Rules {
    fn reads() -> Self {
        Self { effect: Some(Effect::Read), ..Self::default() }
    }

    /// As keys of configuration.
    fn yaml(&self) -> String {
        let lines = [
            self.effect.map(|effect| format!("effect: {}", effect.label())),
            self.scopes.then(|| "scopes: [either:use]".to_owned()),
            self.short.then(|| "timeout: 300ms".to_owned()),
            self.confirm.then(|| "confirm: {when: {pointer: /how, equals: answer}, then: suspend}".to_owned()),
            self.one_slot.then(|| "max_concurrent: 1".to_owned()),
        ];
        lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// As a function of a program declares them.
    fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec::new(TOOL, "Either.", schema()).effect(self.effect.unwrap_or(Effect::Unsafe));
        if self.scopes {
            spec = spec.scopes(["either:use"]);
        }
        if self.short {
            spec = spec.timeout(Duration::from_millis(300));
        }
        if self.confirm {
            let rule = ArgumentRule { pointer: "/how".into(), test: ArgumentTest::Equals(json!("answer")) };
            spec = spec.confirm(Confirm::Suspend).confirm_when(rule);
        }
        if self.one_slot { spec.max_concurrent(1) } else { spec }
    }
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"],
        "additionalProperties": false})
}

/// Answers after a moment, or never.
async fn either(how: &str) -> &'static str {
    if how == "hang" {
        pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    "answered"
}

async fn service() -> String {
    let answer = async |axum::extract::Path(how): axum::extract::Path<String>| either(&how).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let app = Router::new().route("/{how}", get(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/{{how}}")
}

impl Place {
    async fn new(kind: &str, rules: &Rules) -> Self {
        let (folder, fake) = (tempfile::tempdir().expect("a folder"), Fake::new());
        rusqlite::Connection::open(folder.path().join("empty.sqlite"))
            .expect("a file")
            .execute_batch("create table t (a)")
            .expect("a file");
        let collector = Collector::start(Manner::Accept).await;
        let declared = |means: Value| {
            let rules: String = rules.yaml().lines().map(|line| format!("    {line}\n")).collect();
            let parameters = schema();
            format!("  {TOOL}:\n    description: Either.\n    parameters: {parameters}\n    {kind}: {means}\n{rules}")
        };
        let numbers = "with recursive n (i) as (select 1 union all select i + 1 from n where :how = 'hang') \
                       select count(*) as n from n";
        let shell = "test \"$1\" != hang || exec sleep 1000; sleep 0.02; echo answered";
        let tool = match kind {
            "http" => declared(json!({"url": service().await})),
            "sql" => declared(json!({"database": "empty.sqlite", "statement": numbers})),
            "command" => declared(json!({"argv": ["sh", "-c", shell, "sh", "--", "{how}"]})).replace("$1", "$2"),
            "mcp" => format!("mcp_servers:\n{}", fake.yaml(&rules.yaml())),
            _ => String::new(),
        };
        // Another tool, so that the model is offered tools also while the circuit of this one is open.
        let tools = if kind == "own" { String::new() } else { format!(", {TOOL}") };
        let (events, endpoint) = (json!(folder.path().join("events.jsonl")), collector.http());
        let text = format!(
            "agents:\n  test: {{system_prompt: Test., model: m, language: en, tools: [txn_sum{tools}]}}\n\
             models:\n  m: {{provider: scripted, script: bank}}\n\
             tool_retry_policy: {{initial_delay_ms: 1}}\ncircuit_breaker: {{min_calls: 2}}\n\
             telemetry: {{events: {events}, otlp: {{endpoint: '{endpoint}'}}}}\n\
             tools:\n  txn_sum: {{builtin: txn_sum}}\n{tool}"
        );
        let env = std::env::vars().collect::<BTreeMap<_, _>>();
        let config = Config::from_text("table", text.as_bytes(), Path::new(""), &env);
        let mut config = config.unwrap_or_else(|report| panic!("{report}\n{text}"));
        if rules.once_a_minute {
            let rate = ToolRate { per_minute: Some(1), per_principal_per_minute: None };
            config.rate_limits.tools.insert(TOOL.into(), rate);
        }
        let mut setup = Setup::run(folder.path()).with_model(AtOnce(config.models["m"].info("m")));
        if kind == "own" {
            let tool = FnTool::new(rules.spec(), |_, arguments: Value| async move {
                Ok(ToolReply::Text(either(arguments["how"].as_str().expect("checked")).await.into()))
            });
            setup = setup.with_tool(["test"], tool);
        }
        let runtime = Runtime::start(&config, setup).expect("a runtime");
        Self { runtime, folder, collector, _fake: fake }
    }

    /// One session that makes these calls at once.
    async fn begin(&self, calls: &[Value]) -> (SessionId, Ended) {
        let principal = Principal { id: "C-1".into(), scopes: vec![], roles: vec![], attributes: BTreeMap::new() };
        let task = calls.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        let mut handle = self.runtime.open(Task::new(task, principal)).await.expect("begun");
        (handle.id(), handle.ended().await.expect("durable"))
    }

    fn facts(&self, id: SessionId) -> Vec<Fact> {
        let entries = self.runtime.store().load(StreamId::Session(id)).expect("a journal");
        entries.into_iter().map(|entry| entry.fact).collect()
    }

    /// How the calls of a session ended, and after how many attempts.
    fn ends(&self, id: SessionId) -> Vec<(ToolOutcome, u32)> {
        let end = |fact| match fact {
            Fact::ToolCallFinished { end, .. } => Some((end.outcome, end.attempts)),
            _ => None,
        };
        self.facts(id).into_iter().filter_map(end).collect()
    }

    /// One call in a session of its own.
    async fn call(&self, arguments: Value) -> (ToolOutcome, u32) {
        let (id, ended) = self.begin(&[arguments]).await;
        assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
        self.ends(id)[0]
    }

    fn metric(&self, series: &str) -> f64 {
        let text = self.runtime.metrics().render();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series}")).parse().expect("a number")
    }

    async fn stop(self) -> (tempfile::TempDir, Collector) {
        self.runtime.stop(Duration::from_secs(10)).await.expect("closed");
        (self.folder, self.collector)
    }
}

fn how(word: &str) -> Value {
    json!({ "how": word })
}

#[tokio::test]
async fn arguments_are_checked_and_what_fits_runs_and_is_seen_everywhere() {
    for kind in KINDS {
        let place = Place::new(kind, &Rules::reads()).await;
        for wrong in [json!({}), json!({"how": 1}), json!({"how": "answer", "invented": 1})] {
            assert_eq!(place.call(wrong.clone()).await, (InvalidArguments, 0), "{kind} {wrong}");
        }
        assert_eq!(place.call(how("answer")).await, (Fine, 1), "{kind}");
        for (outcome, calls, attempts) in [("ok", 1.0, 1.0), ("invalid_arguments", 3.0, 0.0)] {
            let series = |family: &str| format!(r#"glassbox_tool_{family}_total{{outcome="{outcome}",tool="{TOOL}"}}"#);
            assert_eq!(place.metric(&series("calls")), calls, "{kind}");
            assert_eq!(place.metric(&series("attempts")), attempts, "{kind}");
        }
        assert_eq!(place.metric(&format!(r#"glassbox_tool_duration_seconds_count{{tool="{TOOL}"}}"#)), 1.0, "{kind}");
        let (folder, collector) = place.stop().await;
        let lines = std::fs::read_to_string(folder.path().join("events.jsonl")).expect("events");
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let told: Vec<_> = lines.filter(|line| line["event"] == "tool_called").collect();
        let outcomes: Vec<_> = told.iter().map(|line| line["outcome"].as_str().expect("a word")).collect();
        assert_eq!(outcomes, ["invalid_arguments", "invalid_arguments", "invalid_arguments", "ok"], "{kind}");
        assert!(told.iter().all(|line| line["tool_name"] == TOOL && line["cached"] == false), "{kind}: {told:?}");
        let spans = collector.spans();
        let names = spans.iter().filter(|span| span.name == format!("execute_tool {TOOL}"));
        assert_eq!(names.count(), 4, "{kind}");
    }
}

#[tokio::test]
async fn who_lacks_the_scope_is_denied() {
    for kind in KINDS {
        let place = Place::new(kind, &Rules { scopes: true, ..Rules::reads() }).await;
        assert_eq!(place.call(how("answer")).await, (Denied, 0), "{kind}");
        place.stop().await;
    }
}

#[tokio::test]
async fn a_time_that_is_over_is_tried_again_only_where_nothing_can_have_changed() {
    for kind in KINDS {
        for (effect, end) in
            [(Effect::Read, (Timeout, 2)), (Effect::Idempotent, (Timeout, 2)), (Effect::Unsafe, (UnknownOutcome, 1))]
        {
            let place = Place::new(kind, &Rules { effect: Some(effect), short: true, ..Rules::default() }).await;
            assert_eq!(place.call(how("hang")).await, end, "{kind} {effect:?}");
            let handed = place.runtime.metrics().render();
            assert!(handed.contains(&format!(r#"outcome="timeout",tool="{TOOL}"}} {}"#, end.1)), "{kind} {effect:?}");
            place.stop().await;
        }
    }
}

#[tokio::test]
async fn the_circuit_opens_and_then_nothing_is_sent() {
    for kind in KINDS {
        let place = Place::new(kind, &Rules { short: true, ..Rules::reads() }).await;
        assert_eq!(place.call(how("hang")).await, (Timeout, 2), "{kind}");
        assert_eq!(place.call(how("answer")).await, (CircuitOpen, 0), "{kind}");
        let series = format!(r#"glassbox_circuit_state{{kind="tool",name="{TOOL}",state="open"}}"#);
        assert_eq!(place.metric(&series), 1.0, "{kind}");
        place.stop().await;
    }
}

#[tokio::test]
async fn a_rate_limit_refuses_the_second_call() {
    for kind in KINDS {
        let place = Place::new(kind, &Rules { once_a_minute: true, ..Rules::reads() }).await;
        assert_eq!(place.call(how("answer")).await, (Fine, 1), "{kind}");
        assert_eq!(place.call(how("answer")).await, (RateLimited, 0), "{kind}");
        assert_eq!(place.metric(r#"glassbox_rate_limited_total{limit="tool"}"#), 1.0, "{kind}");
        place.stop().await;
    }
}

#[tokio::test]
async fn calls_for_one_slot_run_one_after_another() {
    for kind in KINDS {
        let place = Place::new(kind, &Rules { one_slot: true, ..Rules::reads() }).await;
        let (id, _) = place.begin(&[how("answer"), how("answer"), how("answer")]).await;
        assert_eq!(place.ends(id), [(Fine, 1); 3], "{kind}");
        let moves = place.facts(id).into_iter().filter_map(|fact| match fact {
            Fact::ToolAttemptStarted { .. } => Some("begin"),
            Fact::ToolAttemptFinished { .. } => Some("end"),
            _ => None,
        });
        assert_eq!(moves.collect::<Vec<_>>(), ["begin", "end", "begin", "end", "begin", "end"], "{kind}");
        place.stop().await;
    }
}

#[tokio::test]
async fn a_rule_on_the_arguments_asks_a_person_and_their_yes_lets_it_run() {
    for kind in KINDS {
        let place = Place::new(kind, &Rules { confirm: true, short: true, ..Rules::reads() }).await;
        assert_eq!(place.call(how("hang")).await.0, Timeout, "{kind}: the rule is not met");
        place.stop().await;
        let place = Place::new(kind, &Rules { confirm: true, ..Rules::reads() }).await;
        let (id, ended) = place.begin(&[how("answer")]).await;
        assert!(matches!(&ended, Ended::AwaitingConfirmation(calls) if calls.len() == 1), "{kind}: {ended:?}");
        assert_eq!(place.ends(id), [], "{kind}");
        let yes =
            Say { call_id: "call_0".into(), approve: true, by: "C-9".into(), comment: None, arguments_hash: None };
        let mut settled = place.runtime.decide(id, yes).await.expect("decided");
        settled.handle.as_mut().expect("it goes on here").ended().await.expect("durable");
        assert_eq!(place.ends(id), [(Fine, 1)], "{kind}");
        place.stop().await;
    }
}
