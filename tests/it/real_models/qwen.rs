//! A real model that calls a tool and answers from its result: as it was recorded once, and, in
//! the longer checks, as it is.

use std::path::Path;

use glassbox::{
    Config, Effect, FnTool, Setup, ToolReply, ToolSpec,
    core::{Fact, SessionStatus, Usage, message::Arguments, outcome::ToolOutcome},
};
use serde_json::{Value, json};

use super::Ran;
use crate::real_parts::{self, Weights};

const TASK: &str = "What is the weather in Rome right now?";

fn config(url: &str, stream: bool) -> Config {
    let text = format!(
        "agents:\n  weather: {{system_prompt: You are a helpful assistant. Use the tools., model: qwen, language: en, task_types: [other]}}\n\
         models:\n  qwen: {{provider: openai, base_url: '{url}/v1', model: qwen, stream: {stream}, context_window: 4096, max_output_tokens: 200, timeout: 4m}}\n"
    );
    let read = Config::from_text("test.yaml", text.as_bytes(), Path::new(""), &Default::default());
    read.unwrap_or_else(|report| panic!("{report}"))
}

/// The tool of the recording, with the result of the recording.
fn with_weather(setup: Setup) -> Setup {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    let spec = ToolSpec::new("get_weather", "The current weather in a city.", schema).effect(Effect::Read);
    let weather = FnTool::new(spec, |_, arguments| async move {
        Ok(ToolReply::Json(json!({"city": arguments["city"], "celsius": 21, "sky": "sunny"})))
    });
    setup.with_tool(["weather"], weather)
}

/// The arguments of the tool calls.
fn arguments(ran: &Ran) -> Vec<Value> {
    let arguments = |fact: &Fact| match fact {
        Fact::ToolCallStarted { call, .. } => match &call.arguments {
            Arguments::Json(value) => Some(value.clone()),
            Arguments::Raw(_) => None,
        },
        _ => None,
    };
    ran.facts.iter().filter_map(arguments).collect()
}

#[tokio::test]
async fn a_recorded_dialog_of_a_real_model_is_a_whole_session() {
    let Some(aimock) = real_parts::aimock(&["qwen.json"], &[]) else { return };
    for stream in [false, true] {
        let ran = Ran::of(&config(&aimock.url, stream), TASK, with_weather).await;
        assert_eq!(ran.answer(), "The current weather in Rome is 21 degrees Celsius with a sunny sky.");
        assert_eq!((ran.end.status, ran.end.steps, ran.calls()), (SessionStatus::Done, 2, vec![ToolOutcome::Ok]));
        assert_eq!(arguments(&ran), [json!({"city": "Rome"})]);
        // The tokens from the cache are in the recording, but aimock does not play them.
        assert_eq!(ran.end.usage, Usage { input: 450, output: 35, ..Usage::default() }, "{stream}");
    }
}

#[tokio::test]
async fn a_real_model_calls_a_tool_and_answers_from_its_result() {
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/real-llm/qwen-json.jinja");
    let template = template.to_str().expect("a path of plain letters");
    // The bias keeps the model from writing its call as a code block.
    let options = ["--ctx-size", "4096", "--parallel", "1", "--jinja", "--chat-template-file", template];
    let options: Vec<_> = options.into_iter().chain(["--logit-bias", "73594-100", "--temp", "0"]).collect();
    let Some(llama) = real_parts::llama_server(Weights::Qwen, &options) else { return };
    let ran = Ran::of(&config(&llama.url, true), TASK, with_weather).await;
    assert_eq!((ran.end.status, ran.calls()), (SessionStatus::Done, vec![ToolOutcome::Ok]), "{:?}", ran.end);
    assert_eq!(arguments(&ran)[0]["city"], "Rome");
    assert!(ran.answer().contains("21"), "{}", ran.answer());
    assert!(!ran.end.usage.estimated && ran.end.usage.input > 300, "{:?}", ran.end.usage);
}
