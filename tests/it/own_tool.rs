//! Code that a program brings along: the example runs, its journal and metrics name its tools,
//! and what is for nobody is refused.

use std::path::Path;

use glassbox::{
    Config, Effect, FnTool, Runtime, Setup, Task, ToolReply, ToolSpec,
    config::Events,
    core::{Fact, SessionStatus, StreamId, ToolOutcome, port::SessionFilter},
    model::Scripted,
    runtime::open_store,
    session::Ended,
};
use serde_json::json;

#[path = "../../examples/own_tool.rs"]
mod example;

#[tokio::test]
async fn the_example_answers_from_both_of_its_tools() {
    let folder = tempfile::tempdir().expect("a folder");
    let end = example::ask(folder.path()).await.expect("the example runs");
    assert_eq!(end.status, SessionStatus::Done);
    let answer = end.answer.expect("an answer").into_inner();
    assert_eq!(answer, "A dollar is 521.5 tenge. You may change 300000 tenge more today.");
    assert_eq!((end.steps, end.tools_called), (2, vec!["exchange_rate".to_owned(), "daily_limit".to_owned()]));
}

#[tokio::test]
async fn the_example_leaves_a_journal_in_which_both_calls_are_ok() {
    let folder = tempfile::tempdir().expect("a folder");
    example::ask(folder.path()).await.expect("the example runs");
    let store = open_store(&Config::embedded().store, folder.path()).expect("the journal of the example");
    let sessions = store.sessions(&SessionFilter::default()).expect("a list");
    let [session] = sessions.as_slice() else { panic!("one session, not {}", sessions.len()) };
    let entries = store.load(StreamId::Session(session.id)).expect("a journal");
    let outcomes: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.fact {
            Fact::ToolCallFinished { end, .. } => Some(end.outcome),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [ToolOutcome::Ok, ToolOutcome::Ok]);
}

fn ping(effect: Effect) -> impl glassbox::Tool {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let spec = ToolSpec::new("ping", "Answers.", schema).effect(effect);
    FnTool::new(spec, |_, _| async { Ok(ToolReply::Text("pong".into())) })
}

#[tokio::test]
async fn own_tools_and_models_are_labels_from_the_start_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config::embedded();
    let script = "name: t\nrules:\n- {when: {last: user}, call: {tool: ping, arguments: {}}}\n- {text: done}\n";
    let mut info = config.models["bank"].info("bank");
    info.provider = "mine".into();
    let setup = Setup::run(folder.path())
        .with_tool(["bank"], ping(Effect::Read))
        .with_model(Scripted::from_yaml(info, script).expect("a script"));
    let runtime = Runtime::start(&config, setup).expect("a runtime");
    let before = runtime.metrics().render();
    assert!(before.contains(r#"glassbox_tool_calls_total{outcome="ok",tool="ping"} 0"#), "{before}");

    let task = Task::new("go", config.auth.default_principal.clone());
    let ended = runtime.open(task).await.expect("begun").ended().await.expect("durable");
    runtime.stop(std::time::Duration::from_secs(5)).await.expect("closed");
    assert!(matches!(&ended, Ended::Finished(end) if end.status == SessionStatus::Done), "{ended:?}");
    let after = runtime.metrics().render();
    assert!(after.contains(r#"glassbox_tool_calls_total{outcome="ok",tool="ping"} 1"#), "{after}");
    assert!(after.contains(r#"gen_ai_provider_name="mine""#), "{after}");
}

#[tokio::test]
async fn a_tool_for_no_agent_is_refused_with_the_names_that_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { events: Events::Off, ..Setup::serve(folder.path()) }.with_tool(["bnak"], ping(Effect::Read));
    let error = Runtime::start(&Config::embedded(), setup).err().expect("a refusal").to_string();
    assert_eq!(error, r#"tool "ping" is for agent "bnak"; the configuration declares agents bank and models bank"#);
}

#[test]
fn the_two_ways_to_begin_differ_where_they_must() {
    let (run, serve) = (Setup::run("a"), Setup::serve("a"));
    assert_eq!((run.surface, serve.surface), ("run", "serve"));
    assert_eq!((run.events, serve.events), (Events::Off, Events::Stdout));
    assert_eq!(run.data_dir, Path::new("a"));
}

#[test]
fn the_readme_shows_the_tool_of_the_example_as_it_is() {
    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::read_to_string(path).expect("a file of the repository")
    };
    let (readme, example) = (read("README.md"), read("examples/own_tool.rs"));
    let (_, block) = readme.split_once("```rust\n").expect("a block of Rust");
    let (tool, _) = block.split_once("\n}\n").expect("a whole function");
    assert!(example.contains(tool), "README.md shows another tool than examples/own_tool.rs:\n{tool}");
}
