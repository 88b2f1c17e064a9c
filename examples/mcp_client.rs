//! Every tool of an MCP server called once, in one session: the server's address is the last
//! argument. It needs no key: the model is a few lines that make arguments up.
//!
//! `cargo run --example mcp_client -- http://127.0.0.1:3001/mcp`
//!
//! The official conformance suite for clients is run against this program.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use glassbox::{
    Config, Fault, Runtime, Setup, Task, async_trait,
    core::{
        Arguments, Message, Model, ModelReply, ModelRequest, ToolCall, ToolDefinition,
        fact::{ModelInfo, SessionEnd},
        port::ModelCallInput,
    },
    session::Ended,
};
use serde_json::{Map, Value, json};

/// Asks for each tool once, one a step.
struct Curious(ModelInfo);

#[async_trait]
impl Model for Curious {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        serde_json::to_vec(request).unwrap_or_default()
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        let ModelRequest { messages, tools, .. } = call.request;
        let asked = messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        let call = |tool: &ToolDefinition| ToolCall {
            id: String::new(),
            name: tool.name.clone(),
            arguments: Arguments::Json(made_up(tool)),
        };
        let read = messages.iter().filter_map(|message| match message {
            Message::Tool { content, .. } => Some(content.as_str()),
            _ => None,
        });
        let text = read.collect::<Vec<_>>().join("\n");
        Ok(ModelReply { text, calls: tools.get(asked).map(call).into_iter().collect(), ..ModelReply::default() })
    }
}

/// Arguments that fit a plain schema.
fn made_up(tool: &ToolDefinition) -> Value {
    let Some(fields) = tool.input_schema["properties"].as_object() else { return json!({}) };
    let value = |schema: &Value| match schema["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("x"),
    };
    Value::Object(fields.iter().map(|(name, schema)| (name.clone(), value(schema))).collect::<Map<_, _>>())
}

fn config(url: &str) -> anyhow::Result<Config> {
    let yaml = format!(
        "agents:\n  test: {{system_prompt: Try every tool., model: curious, tools: [theirs_*]}}\n\
         models:\n  curious: {{provider: scripted, script: bank}}\n\
         mcp_servers:\n  theirs: {{url: '{url}', effect: read, timeout: 30s, strict: close}}\n"
    );
    Ok(Config::from_text("mcp_client", yaml.as_bytes(), Path::new(""), &BTreeMap::new())?)
}

/// One session that tries every tool of the server. Its answer is all that the tools said.
///
/// # Errors
/// Where the session could not be held, or did not end.
pub async fn try_every_tool(url: &str, folder: &Path) -> anyhow::Result<SessionEnd> {
    let config = config(url)?;
    let model = Curious(config.models["curious"].info("curious"));
    let runtime = Runtime::start(&config, Setup::run(folder).with_model(model))?;
    let task = Task::new("Try every tool.", config.auth.default_principal.clone());
    let ended = runtime.open(task).await?.ended().await;
    runtime.stop(Duration::from_secs(5)).await.context("the journal could not be closed")?;
    match ended? {
        Ended::Finished(end) => Ok(*end),
        Ended::Suspended | Ended::AwaitingConfirmation(_) | Ended::TakenOver => bail!("the session was suspended"),
    }
}

#[tokio::main]
#[allow(clippy::print_stdout, dead_code, reason = "prints its answer; a test uses the rest of this file as a module")]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().next_back().filter(|argument| argument.starts_with("http"));
    let url = url.context("the last argument must be the address of a server")?;
    let end = try_every_tool(&url, Path::new(".glassbox")).await?;
    println!("{} in {} steps: {}", end.status, end.steps, end.tools_called.join(", "));
    println!("{}", end.answer.or(end.partial).map(|text| text.into_inner()).unwrap_or_default());
    Ok(())
}
