//! Faults on purpose (`inject`): what is configured is what happens, through the whole program.

use std::{path::Path, time::Duration};

use glassbox::config::{Config, Sources};

use crate::process::Home;

const TASK: &str = "Сколько я потратил на такси в сентябре?";

/// A home in which nothing waits before it tries again.
fn home(variables: &[(&str, &str)]) -> Home {
    let quick =
        [("GLASSBOX__LLM_RETRY_POLICY__INITIAL_DELAY_MS", "1"), ("GLASSBOX__TOOL_RETRY_POLICY__INITIAL_DELAY_MS", "1")];
    quick.iter().chain(variables).fold(Home::new(), |home, (name, value)| home.variable(name, *value))
}

#[test]
fn a_model_that_always_fails_ends_the_session_after_its_retries() {
    let home = home(&[("GLASSBOX__MODELS__BANK__INJECT__FAILURES", "1")]);
    let finished = home.run(&["run", "--json", TASK]);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let report: serde_json::Value = serde_json::from_str(finished.out.lines().last().unwrap()).unwrap();
    assert_eq!((&report["status"], &report["reason"]), (&"error".into(), &"model_unavailable".into()), "{report}");
    let journal = home.ask(&["session", "show", "--json", report["session_id"].as_str().unwrap()]);
    // Three attempts, and the call that they belong to.
    assert_eq!(journal.matches("status 429 on purpose (inject)").count(), 4, "{journal}");
}

#[test]
fn a_tool_that_always_fails_is_an_observation() {
    let home = home(&[("GLASSBOX__TOOLS__TXN_SUM__INJECT__FAILURES", "1")]);
    let answer = home.ask(&["run", TASK]);
    assert!(answer.contains("Не получилось: "), "{answer}");
    assert!(answer.contains("503 on purpose"), "{answer}");
}

#[test]
fn what_fails_on_purpose_is_told_by_check_and_serve() {
    let home = home(&[("GLASSBOX__MODELS__BANK__INJECT__LATENCY", "5ms")]);
    let told = "models.bank.inject: is slow or fails on purpose";
    let finished = home.run(&["check"]);
    assert!(finished.code == Some(0) && (finished.out + &finished.err).contains(told));
    let server = home.serve();
    let seen = server.process.err.seen.join("\n");
    let stopped = server.stop();
    assert!((seen + &stopped.err).contains(told));
}

#[test]
fn the_rule_is_read_with_its_defaults_and_its_mistakes() {
    let load = |text: &str| Config::from_text("x.yaml", text.as_bytes(), Path::new(""), &Sources::default().env);
    let text = |rule: &str| {
        format!(
            "agents:\n  a: {{system_prompt: Help., model: m}}\nmodels:\n  m: {{provider: scripted, script: bank, inject: \
             {rule}}}\n"
        )
    };
    let config = load(&text("{failures: 0.25, latency: 3ms}")).unwrap();
    let rule = config.models["m"].inject.unwrap();
    assert_eq!((rule.failures, rule.status, rule.latency, rule.seed), (0.25, 429, Duration::from_millis(3), 0));
    let again = load(&config.effective_yaml()).unwrap();
    assert_eq!(again.models, config.models, "what is shown is configuration again");
    for (rule, word) in [
        ("{failures: 2}", "must be a number from 0 to 1"),
        ("{status: 200}", "must be a whole number from 400 to 599"),
        ("{latency: 3}", "name the unit"),
        ("{often: 1}", "often"),
    ] {
        let report = load(&text(rule)).unwrap_err().to_string();
        assert!(report.contains(word) && report.contains("models.m.inject"), "{rule}: {report}");
    }
}
