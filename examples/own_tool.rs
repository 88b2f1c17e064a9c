//! Two tools of your own, one by the trait and one by a closure, beside the scripted model.
//!
//! `cargo run --example own_tool` needs no key, no server and no network.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use glassbox::{
    Config, Effect, Fault, FaultKind, FnTool, Runtime, Setup, Task, Tool, ToolContext, ToolReply, ToolSpec,
    async_trait, core::fact::SessionEnd, model::Scripted, session::Ended,
};
use serde_json::{Value, json};

/// One agent. The model is declared here and made in code below.
const CONFIG: &str = "
agents:
  exchange:
    system_prompt: You help customers of a bank with exchange rates.
    language: en
    model: desk
models:
  desk: {provider: scripted, script: bank}
";

/// What the model says: it asks for both tools at once, then answers from their results.
const SCRIPT: &str = r#"
name: exchange
rules:
  - when: {last: user}
    calls:
      - {tool: exchange_rate, arguments: {currency: USD}}
      - {tool: daily_limit, arguments: {}}
  - when: {last: tool_result}
    text: "A dollar is {{ results.0.tenge }} tenge. You may change {{ results.1.tenge }} tenge more today."
"#;

/// A tool with state of its own: a table of rates.
struct ExchangeRate {
    spec: ToolSpec,
    rates: BTreeMap<&'static str, f64>,
}

impl ExchangeRate {
    fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"currency": {"type": "string", "enum": ["USD", "EUR"]}},
            "required": ["currency"],
            "additionalProperties": false
        });
        let spec = ToolSpec::new("exchange_rate", "Tenge for one unit of a currency.", schema)
            .effect(Effect::Read)
            .timeout(Duration::from_secs(10));
        Self { spec, rates: BTreeMap::from([("USD", 521.5), ("EUR", 605.1)]) }
    }
}

#[async_trait]
impl Tool for ExchangeRate {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
        // The arguments fit the schema when this runs.
        let currency = arguments["currency"].as_str().unwrap_or_default();
        let rate =
            self.rates.get(currency).ok_or_else(|| Fault::new(FaultKind::Refused, "no rate for this currency"))?;
        Ok(ToolReply::Json(json!({"tenge": rate})))
    }
}

/// A tool that is a closure. Who the customer is comes from the login, never from the model.
fn daily_limit() -> impl Tool {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let spec = ToolSpec::new("daily_limit", "Tenge that the customer may still change today.", schema);
    FnTool::new(spec.effect(Effect::Read), |cx, _arguments| async move {
        let tenge = if cx.principal.id == "C-001" { 300_000 } else { 100_000 };
        Ok(ToolReply::Json(json!({"tenge": tenge})))
    })
}

/// Runs one session; its journal stays in `data_dir`.
pub(crate) async fn ask(data_dir: &Path) -> anyhow::Result<SessionEnd> {
    let config = Config::from_text("own_tool", CONFIG.as_bytes(), data_dir, &BTreeMap::new())?;
    let model = Scripted::from_yaml(config.models["desk"].info("desk"), SCRIPT)?;
    let setup = Setup::run(data_dir)
        .with_model(model)
        .with_tool(["exchange"], ExchangeRate::new())
        .with_tool(["exchange"], daily_limit());
    let runtime = Runtime::start(&config, setup)?;
    let task = Task::new("How much is a dollar, and how much may I change?".to_owned(), config.auth.default_principal);
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
    let end = ask(Path::new(".glassbox")).await?;
    let answer = end.answer.context("the session ended without an answer")?;
    println!("{}", answer.expose());
    println!("steps {}, tools called: {}", end.steps, end.tools_called.join(", "));
    Ok(())
}
