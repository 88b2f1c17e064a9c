//! `glassbox check`.

use clap::Args;
use console::style;
use serde_json::json;

use super::{
    Global,
    check_tools::{self, ByHand},
    exit,
    output::{complain, line, say, say_json},
    run::{close, start},
};
use crate::runtime::ModelCheck;

/// Digits of a hash that tell it apart at a glance.
const SHORT_HASH: usize = 12;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// What to look at.
    #[arg(value_enum, default_value_t = What::Config)]
    what: What,
    /// With `tools`: call this one, through all that a session's call goes through, and show what comes
    /// of it. The arguments are JSON; without them none are given. No session is recorded.
    #[arg(long, num_args = 1..=2, value_names = ["TOOL", "ARGUMENTS"])]
    call: Option<Vec<String>>,
    /// Do not ask before a call that changes something.
    #[arg(long, requires = "call")]
    yes: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// The configuration as it takes effect, secrets hidden.
    Config,
    /// Whether every model takes the tool definitions of its agents: each is asked once, no tool runs.
    Models,
    /// Whether every tool can be called: schema, server, database or program, circuit. None runs.
    Tools,
}

pub(super) fn run(global: Global, options: Options) -> anyhow::Result<u8> {
    if options.call.is_some() && !matches!(options.what, What::Tools) {
        complain("glassbox: --call is for `check tools`");
        return Ok(exit::USAGE);
    }
    match options.what {
        What::Config => check_config(&global),
        What::Models => super::block_on(check_models(global)),
        What::Tools => super::block_on(check_tools::run(global, options.by_hand())),
    }
}

impl Options {
    /// The call that is asked for.
    fn by_hand(self) -> Option<ByHand> {
        let mut words = self.call?.into_iter();
        let tool = words.next()?;
        Some(ByHand { tool, arguments: words.next().unwrap_or_default(), yes: self.yes })
    }
}

fn check_config(global: &Global) -> anyhow::Result<u8> {
    let config = global.load()?;
    say(config.effective_yaml().trim_end());
    for hint in config.hints() {
        say(format!("# hint: {hint}"));
    }
    Ok(exit::OK)
}

async fn check_models(global: Global) -> anyhow::Result<u8> {
    let config = global.load()?;
    let runtime = start(&global, &config, "check")?;
    let checks = runtime.check_models().await;
    let code = checks.map_err(anyhow::Error::from).map(|checks| {
        tell(&checks, global.json);
        if checks.iter().all(|check| check.result.is_ok()) { exit::OK } else { exit::FAILURE }
    });
    close(&runtime, code).await
}

fn tell(checks: &[ModelCheck], json: bool) {
    if json {
        checks.iter().for_each(|check| say_json(&as_json(check)));
        return;
    }
    say(style(row(["AGENT", "MODEL", "PROVIDER", "DEFINITIONS", "RESULT", "WHAT IT SAID"])).dim().to_string());
    for check in checks {
        let role = if check.fallback { " (fallback)" } else { "" };
        let (result, said) = match &check.result {
            Ok(model) => ("ok", format!("answers as {model}")),
            Err(fault) => (fault.kind.label(), fault.detail.clone()),
        };
        let hash = check.tools_hash.to_string();
        let hash = hash.trim_start_matches("sha256:");
        let hash = hash.get(..SHORT_HASH).unwrap_or(hash);
        let model = format!("{}{role}", check.model.name);
        say(row([&check.agent, &model, &check.model.provider, hash, result, &line(&said)]));
    }
}

fn row([agent, model, provider, hash, result, said]: [&str; 6]) -> String {
    format!("{agent:<16} {model:<28} {provider:<10} {hash:<SHORT_HASH$} {result:<16} {said}")
}

fn as_json(check: &ModelCheck) -> serde_json::Value {
    let fault = check.result.as_ref().err();
    json!({
        "agent": check.agent,
        "model": check.model.name,
        "fallback": check.fallback,
        "provider": check.model.provider,
        "request_model": check.model.request_model,
        "tools_hash": check.tools_hash,
        "ok": fault.is_none(),
        "response_model": check.result.as_ref().ok(),
        "fault": fault.map(|fault| fault.kind.label()),
        "detail": fault.map(|fault| &fault.detail),
    })
}
