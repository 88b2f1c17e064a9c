//! Tools that people declare: requests, statements, programs. Each test looks at what the other
//! side really got, not at what was meant to be sent.

mod cached;
mod commands;
mod examples;
mod injection;
mod postgres;
pub mod postgres_server;
mod requests;
pub(crate) mod service;
mod sessions;
mod table;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use glassbox::{
    Effect, Fault, Tool, ToolContext, ToolReply, ToolSpec,
    core::{Arguments, SpanId, ToolCall, ToolOutcome, port::TraceContext},
    tool::{CommandTool, HttpTool, Refusal, Registration, Registry, Template, command, http},
};
use serde_json::{Value, json};

use crate::world;

fn context() -> ToolContext {
    let session = world::session_id();
    let trace = TraceContext { trace_id: session.trace_id(), span_id: SpanId::of_fact(session, 3), sampled: true };
    ToolContext::new(session, Arc::new(world::principal()), "call_1_1", trace)
}

/// A spec whose arguments are these texts, all of them required.
fn spec(effect: Effect, arguments: &[&str]) -> ToolSpec {
    let properties: serde_json::Map<_, _> =
        arguments.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let schema =
        json!({"type": "object", "properties": properties, "required": arguments, "additionalProperties": false});
    ToolSpec::new("tool", "A tool of the test.", schema).effect(effect)
}

fn template(text: &str) -> Template {
    Template::parse(text).expect("a good template")
}

fn templates(fields: &[(&str, &str)]) -> BTreeMap<String, Template> {
    fields.iter().map(|(name, text)| ((*name).to_owned(), template(text))).collect()
}

fn http_tool(spec: ToolSpec, plan: http::Plan) -> HttpTool {
    let client = http::Client::new(Arc::new(glassbox::runtime::SystemClock)).expect("a client");
    HttpTool::new(spec, plan, client).expect("a tool")
}

fn command_plan(argv: &[&str]) -> command::Plan {
    command::Plan {
        argv: argv.iter().map(|word| template(word)).collect(),
        env: BTreeMap::new(),
        inherited: BTreeMap::new(),
        cwd: Path::new("/").to_owned(),
        stdin: None,
        json: false,
        refused: Vec::new(),
        tool_error: Vec::new(),
        max_bytes: command::DEFAULT_OUTPUT_BYTES,
    }
}

fn command_tool(plan: command::Plan, arguments: &[&str]) -> CommandTool {
    CommandTool::new(spec(Effect::Read, arguments), plan)
}

/// A call's whole way: admission as the loop does it, then one attempt.
async fn ask(tool: Arc<dyn Tool>, arguments: Value) -> Result<Result<ToolReply, Fault>, Refusal> {
    let name = tool.spec().name().to_owned();
    let tools = Registry::new(vec![Registration::new(tool.clone())]).expect("a good tool").all();
    let call = ToolCall { id: "call_1_1".into(), name, arguments: Arguments::Json(arguments) };
    let admitted = tools.admit(&call, &context())?;
    let arguments = admitted.into_arguments();
    Ok(tool.call(&context(), arguments).await)
}

/// How a fault of a tool ends a call that is read only.
fn outcome(fault: &Fault) -> ToolOutcome {
    ToolOutcome::of_fault(fault.kind)
}
