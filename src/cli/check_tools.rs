//! `glassbox check tools`: the table of all tools, or one of them called by hand.

use std::io::IsTerminal as _;

use anyhow::bail;
use console::style;
use serde_json::{Value, json};

use super::{
    Global, confirm, exit,
    output::{line, say, say_json, text},
    run::{close, start},
    stops::Stops,
};
use crate::{
    config::Config,
    core::{Arguments, Effect, spec::Confirm},
    runtime::{Runtime, ToolCheck, ToolsReport, Trial, Tried},
};

/// The heads of the columns.
const HEADS: [&str; 8] = ["TOOL", "KIND", "EFFECT", "NEEDS", "SCHEMA", "CIRCUIT", "AGENTS", "RESULT"];

/// A call that somebody asks for by hand.
pub(super) struct ByHand {
    pub(super) tool: String,
    /// JSON, as a model would write it.
    pub(super) arguments: String,
    /// Whether it runs without a question.
    pub(super) yes: bool,
}

pub(super) async fn run(global: Global, call: Option<ByHand>) -> anyhow::Result<u8> {
    let config = global.load()?;
    let mut stops = Stops::catch()?;
    let runtime = start(&global, &config, "check")?;
    let code = {
        let work = async {
            match call {
                None => table(&runtime, global.json).await,
                Some(call) => by_hand(&runtime, &config, call, global.json).await,
            }
        };
        tokio::select! {
            code = work => code,
            code = stops.next() => Ok(code),
        }
    };
    close(&runtime, code).await
}

async fn table(runtime: &Runtime, json: bool) -> anyhow::Result<u8> {
    let report = runtime.check_tools().await?;
    if json {
        report.tools.iter().for_each(|check| say_json(&as_json(check)));
        report.faults.iter().for_each(|fault| say_json(&json!({ "ok": false, "fault": fault })));
    } else {
        tell(&report);
    }
    Ok(if report.is_good() { exit::OK } else { exit::FAILURE })
}

fn tell(report: &ToolsReport) {
    let rows: Vec<_> = report.tools.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADS[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    let fit = |cells: &[String; 8]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    say(style(fit(&HEADS.map(str::to_owned))).dim().to_string());
    rows.iter().for_each(|row| say(fit(row)));
    report.faults.iter().for_each(|fault| say(format!("{} {}", style("fault:").red(), line(fault))));
}

fn row(check: &ToolCheck) -> [String; 8] {
    let spec = &check.spec;
    let roles = (!spec.roles.is_empty()).then(|| format!("role:{}", spec.roles.join("|")));
    let schema = if check.closed { "closed by us" } else { "strict" };
    let open = if check.maps.is_empty() { String::new() } else { format!(", open: {}", check.maps.join(" ")) };
    let state = check.state.map_or("unused", |state| state.label());
    let result = match &check.result {
        Ok(()) => "ok".to_owned(),
        Err(fault) => format!("{}: {}", fault.kind.label(), fault.detail),
    };
    [
        spec.name().to_owned(),
        check.kind.to_owned(),
        spec.effect.label().to_owned(),
        or_dash(spec.scopes.iter().cloned().chain(roles).collect()),
        format!("{schema}{open}"),
        format!("{} {state}", check.circuit),
        or_dash(check.agents.clone()),
        result,
    ]
    .map(|cell| line(&cell))
}

fn or_dash(words: Vec<String>) -> String {
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}

fn as_json(check: &ToolCheck) -> Value {
    let (spec, fault) = (&check.spec, check.result.as_ref().err());
    json!({
        "tool": spec.name(),
        "kind": check.kind,
        "effect": spec.effect,
        "confirm": spec.confirm,
        "scopes": spec.scopes,
        "roles": spec.roles,
        "closed": check.closed,
        "open_maps": check.maps,
        "circuit": check.circuit.to_string(),
        "circuit_state": check.state,
        "upstream": spec.upstream_id().map(|id| id.to_string()),
        "fallback_tool": spec.fallback_tool,
        "cached": spec.cache_for(Confirm::Never).is_some(),
        "agents": check.agents,
        "ok": fault.is_none(),
        "fault": fault.map(|fault| fault.kind.label()),
        "detail": fault.map(|fault| &fault.detail),
    })
}

async fn by_hand(runtime: &Runtime, config: &Config, call: ByHand, json: bool) -> anyhow::Result<u8> {
    let agreed = call.yes || agrees(runtime, &call, json).await?;
    if !agreed {
        say(format!("{} was not called", line(&call.tool)));
        return Ok(exit::FAILURE);
    }
    let trial = Trial {
        tool: call.tool.clone(),
        arguments: Arguments::from_text(&call.arguments),
        principal: config.auth.default_principal.clone(),
        approve: true,
    };
    let tried = runtime.try_tool(trial).await?;
    if json {
        say_json(&tried_json(&call.tool, &tried))
    } else {
        tell_tried(&call.tool, &tried)
    }
    Ok(if tried.end.observation.is_error { exit::FAILURE } else { exit::OK })
}

/// Whether the call may be made: asked where it changes something each time, or where a session
/// would ask a person too.
async fn agrees(runtime: &Runtime, call: &ByHand, json: bool) -> anyhow::Result<bool> {
    let Some(spec) = runtime.tool_spec(&call.tool).await? else { return Ok(true) };
    if spec.effect != Effect::Unsafe && spec.confirm == Confirm::Never {
        return Ok(true);
    }
    let (tool, effect) = (line(&call.tool), spec.effect.label());
    if json || !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        bail!("{tool} has effect {effect} and confirm {}: --yes lets it run", spec.confirm.label());
    }
    say(format!("{} {} {} · effect {effect}", style("?").yellow(), style(tool).cyan().bold(), line(&call.arguments)));
    Ok(confirm::typed().await.unwrap_or(false))
}

fn tell_tried(tool: &str, tried: &Tried) {
    for (number, attempt) in (1..).zip(&tried.attempts) {
        let error = attempt.error.as_ref().map_or(String::new(), |error| format!(" · {}", line(error.expose())));
        say(format!("attempt {number}: {}{error}", attempt.outcome));
    }
    let (outcome, millis) = (tried.end.outcome, tried.took.as_millis());
    let painted = if outcome.is_error() { style(outcome).red() } else { style(outcome).green() };
    say(format!("{} · {painted} · {} attempts · {millis} ms", line(tool), tried.end.attempts));
    say(text(&tried.end.observation.content));
}

fn tried_json(tool: &str, tried: &Tried) -> Value {
    let attempt =
        |(number, attempt): (u32, &crate::core::fact::AttemptEnd<_>)| json!({ "attempt": number, "end": attempt });
    json!({
        "tool": tool,
        "outcome": tried.end.outcome,
        "attempts": (1..).zip(&tried.attempts).map(attempt).collect::<Vec<_>>(),
        "arguments_valid": tried.end.arguments_valid,
        "observation": tried.end.observation,
        "latency_ms": u64::try_from(tried.took.as_millis()).unwrap_or(u64::MAX),
    })
}
