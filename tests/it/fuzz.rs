//! Whatever comes in, nothing panics, hangs or swells: arguments under arbitrary schemas,
//! configuration files, scripts.
//!
//! A few hundred cases each time; with `GLASSBOX_TEST_FULL=1` as many as fit into
//! `GLASSBOX_FUZZ_SECONDS` (200 if it is not set) for each of the three.

mod shapes;

use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt::Debug,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use glassbox::{
    config::{Config, DEFAULT_YAML},
    core::{
        Arguments, Message, Model, ModelRequest, SpanId, ToolCall, TraceId,
        fact::ModelInfo,
        port::{ModelCallInput, Nobody, TraceContext},
        spec::ToolDefinition,
    },
    model::scripted::{BANK, Scripted},
    tool::{Schema, Strict},
};
use proptest::{
    prelude::*,
    test_runner::{Config as Cases, TestCaseError, TestRunner},
};
use serde_json::{Value, json};

/// Cases of a short run, and of one round of a long one.
const CASES: u32 = 300;
/// A case that takes longer each time it is tried is a hang.
const PATIENCE: Duration = Duration::from_secs(1);
/// What goes back to a model or a person is never longer.
const MOST_WORDS: usize = 64 * 1024;
/// What a small input is turned into is never bigger.
const MOST_BYTES: usize = 1024 * 1024;

/// Runs cases: one round of them, or rounds until the time of the long run is over.
fn fuzz<S: Strategy>(name: &str, strategy: &S, check: impl Fn(&S::Value) -> Result<(), TestCaseError>)
where
    S::Value: Debug,
{
    let full = std::env::var_os("GLASSBOX_TEST_FULL").is_some();
    let seconds = std::env::var("GLASSBOX_FUZZ_SECONDS").map_or(200, |text| text.parse().expect("whole seconds"));
    let (began, budget) = (Instant::now(), Duration::from_secs(seconds));
    let count = Cell::new(0_u64);
    loop {
        let cases = Cases { cases: CASES, failure_persistence: None, max_shrink_time: 60_000, ..Cases::default() };
        let result = TestRunner::new(cases).run(strategy, |input| {
            count.set(count.get() + 1);
            in_time(|| check(&input))
        });
        if let Err(error) = result {
            panic!("{name}, case {}: {error}", count.get());
        }
        if !full || began.elapsed() >= budget {
            break;
        }
    }
    report(&format!("{name}: {} cases in {:.1?}", count.get(), began.elapsed()));
}

#[expect(clippy::print_stdout, reason = "how much was tried shows with --nocapture")]
fn report(line: &str) {
    println!("{line}");
}

/// A busy machine may hold up one try, hardly three.
fn in_time(check: impl Fn() -> Result<(), TestCaseError>) -> Result<(), TestCaseError> {
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        check()?;
        quickest = quickest.min(began.elapsed());
        if quickest < PATIENCE {
            return Ok(());
        }
    }
    Err(TestCaseError::fail(format!("takes {quickest:?} each time")))
}

fn check_arguments(schema: &Value, arguments: &Arguments) -> Result<(), TestCaseError> {
    for strict in [Strict::Close, Strict::Refuse] {
        match Schema::compile(schema, strict) {
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                for error in errors {
                    prop_assert!(error.to_string().len() < MOST_WORDS, "{}", error);
                }
            }
            Ok(compiled) => match compiled.check(arguments) {
                Ok(passed) => {
                    prop_assert!(passed.to_string().len() < MOST_BYTES);
                    prop_assert_eq!(compiled.check(&Arguments::Json(passed.clone())), Ok(passed));
                }
                Err(errors) => {
                    prop_assert!(!errors.problems.is_empty() && errors.problems.len() <= 20);
                    prop_assert!(errors.to_string().len() < MOST_WORDS, "{} bytes", errors.to_string().len());
                }
            },
        }
    }
    Ok(())
}

#[test]
fn no_arguments_panic_hang_or_swell() {
    fuzz("arguments", &shapes::schema_and_arguments(), |(schema, arguments)| check_arguments(schema, arguments));
}

#[test]
fn defaults_that_call_for_each_other_end() {
    let twice = json!({
        "type": "object",
        "properties": {"left": {"$ref": "#", "default": {}}, "right": {"$ref": "#", "default": {}}},
    });
    let deep = json!({"type": "object", "properties": {"next": {"$ref": "#", "default": {}}}});
    let many = json!({
        "type": "object",
        "properties": {"list": {"type": "array", "items": {
            "type": "object", "properties": {"text": {"type": "string", "default": "x".repeat(10_000)}},
        }}},
    });
    let empty = vec![json!({}); 10_000];
    for (schema, sent) in [(twice, json!({})), (deep, json!({})), (many, json!({"list": empty}))] {
        let schema = Schema::compile(&schema, Strict::Close).expect("it compiles");
        let passed = in_time(|| {
            let passed = schema.check(&Arguments::Json(sent.clone()));
            prop_assert_eq!(passed.as_ref(), Ok(&sent), "too much to fill in: nothing is");
            Ok(())
        });
        assert!(passed.is_ok(), "{passed:?}");
    }
}

#[test]
fn no_configuration_panics_hangs_or_swells() {
    let env = proptest::collection::btree_map("[A-Z_]{0,16}", "\\PC{0,20}", 0..3);
    fuzz("configuration", &(shapes::file(DEFAULT_YAML), env), |(bytes, env)| {
        let env: BTreeMap<_, _> = env.iter().map(|(key, value)| (format!("GLASSBOX__{key}"), value.clone())).collect();
        match Config::from_text("x", bytes, Path::new(""), &env) {
            Ok(config) => prop_assert!(config.effective_yaml().len() < MOST_BYTES),
            Err(report) => {
                prop_assert!(!report.mistakes().is_empty());
                prop_assert!(report.to_string().len() < MOST_WORDS, "{} bytes", report.to_string().len());
            }
        }
        Ok(())
    });
}

fn model_info() -> ModelInfo {
    ModelInfo {
        name: "demo".into(),
        request_model: "scripted-1".into(),
        provider: "scripted".into(),
        context_window: 100_000,
        max_output_tokens: 4096,
        prices: None,
    }
}

/// A session at its beginning, and one with a result.
fn requests() -> [ModelRequest; 2] {
    let tool = ToolDefinition { name: "txn_sum".into(), description: String::new(), input_schema: json!({}) };
    let tools: Arc<[ToolDefinition]> = [tool].into();
    let task = Message::User { content: "taxi and food, такси".into() };
    let call = ToolCall { id: "c1".into(), name: "txn_sum".into(), arguments: Arguments::Json(json!({})) };
    let history = vec![
        task.clone(),
        Message::Assistant { content: String::new(), calls: vec![call] },
        Message::Tool { call_id: "c1".into(), content: r#"{"count": 3, "list": [1, 2]}"#.into(), is_error: false },
    ];
    [vec![task], history].map(|messages| ModelRequest {
        system: "be brief".into(),
        messages,
        tools: tools.clone(),
        max_tokens: 100,
        ..ModelRequest::default()
    })
}

#[test]
fn no_script_panics_hangs_or_swells() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let requests = requests();
    fuzz("scripts", &shapes::file(BANK), |bytes| {
        let model = match Scripted::from_yaml(model_info(), &String::from_utf8_lossy(bytes)) {
            Ok(model) => model,
            Err(error) => {
                prop_assert!(error.to_string().len() < MOST_WORDS, "{} bytes", error.to_string().len());
                return Ok(());
            }
        };
        for request in &requests {
            let trace = TraceContext {
                trace_id: TraceId::from_bytes([1; 16]),
                span_id: SpanId::from_bytes([1; 8]),
                sampled: true,
            };
            let body = model.encode(request).into();
            let answer = runtime.block_on(async {
                model.call(ModelCallInput { request, body: &body, trace, progress: &Nobody }).await
            });
            if let Ok(reply) = answer {
                prop_assert!(serde_json::to_vec(&reply).expect("plain data").len() < MOST_BYTES);
            }
        }
        Ok(())
    });
}
