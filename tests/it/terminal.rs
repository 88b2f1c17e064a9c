//! What text of a model can do to a terminal, which is nothing, and what becomes of a command
//! whose output or terminal goes away.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{fs::OpenOptions, process::Stdio};

use serde_json::Value;

use crate::process::{Finished, Home, Running};

const QUESTION: &str = "Сколько я потратил на такси в сентябре?";

/// A model that would like to have the terminal.
const CONFIG: &str = "
agents:
  bad: {system_prompt: Wait., model: bad, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
models:
  bad: {provider: scripted, script: bad.yaml}
tools:
  txn_sum: {builtin: txn_sum}
";
const SCRIPT: &str = r#"
name: bad
rules:
  - when: {call_count: 0}
    call: {tool: "txn\e[2J\n_sum\x9b2J\u202e", arguments: {category: "\e]0;x\a"}}
  - text: "first\e[2J\r\n\tsecond\a\u009b2J \u202edrow"
"#;
const SLOW_SCRIPT: &str = "
name: slow
rules:
  - {delay: 30s, text: Too late.}
";

fn home(script: &str) -> Home {
    let home = Home::configured(CONFIG);
    home.write("bad.yaml", script);
    home
}

fn assert_harmless(shown: &str) {
    let moves = |letter: char| letter != '\n' && letter != '\t' && letter.is_control();
    let turns = |letter: char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!shown.contains(|letter| moves(letter) || turns(letter)), "{shown:?}");
}

#[test]
fn text_of_a_model_cannot_control_the_terminal() {
    let home = home(SCRIPT);
    let out = home.ask(&["run", "hello"]);
    assert_harmless(&out);
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[2].starts_with(r"│  ├─ txn\u{1b}[2J _sum\u{9b}2J\u{202e}("), "a name stays on its line: {lines:#?}");
    assert!(out.ends_with("first\\u{1b}[2J\n\tsecond\\u{7}\\u{9b}2J \\u{202e}drow"), "{out}");

    let row = home.ask(&["session", "list", "--json"]);
    let row: Value = serde_json::from_str(&row).unwrap();
    let id = row["session_id"].as_str().unwrap();
    assert_eq!(home.ask(&["session", "show", id]), out);
    for more in [&["--raw"][..], &["--json"], &["--raw", "--json"]] {
        let shown = home.ask(&[&["session", "show", id], more].concat());
        assert_harmless(&shown);
        assert!(!shown.contains("NOT the bytes"), "{shown}");
    }
    let shown: Value = serde_json::from_str(&home.ask(&["session", "show", id, "--json"])).unwrap();
    let answer = "first\u{1b}[2J\r\n\tsecond\u{7}\u{9b}2J \u{202e}drow";
    assert_eq!(shown["session"]["answer"], answer, "JSON keeps the value");
}

/// Runs a command whose standard output is a full disk.
fn on_a_full_disk(home: &Home, arguments: &[&str]) -> Finished {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    Running::start_with(&mut home.command(arguments), Stdio::from(full)).end()
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let home = Home::new();
    home.ask(&["run", QUESTION]);
    let row = home.ask(&["session", "list", "--json"]);
    let id = row.split('"').find(|text| text.starts_with("sess_")).unwrap();
    for arguments in [
        &["run", QUESTION][..],
        &["run", "--json", QUESTION],
        &["session", "list"],
        &["session", "list", "--json"],
        &["session", "show", id],
        &["session", "show", id, "--raw"],
        &["check"],
        &["--version"],
    ] {
        let finished = on_a_full_disk(&home, arguments);
        assert_eq!(finished.code, Some(1), "{arguments:?}: {finished:?}");
        assert_eq!(finished.err.lines().count(), 1, "{arguments:?}: {finished:?}");
        assert!(finished.err.contains("cannot be written: No space left"), "{arguments:?}: {}", finished.err);
    }
    let rows = home.ask(&["session", "list", "--status", "done", "--json"]);
    assert_eq!(rows.lines().count(), 3, "the sessions themselves are whole");
}

/// A reader that went away, as `| head -1` does, is no failure and cuts no session.
#[test]
fn a_closed_pipe_is_quiet() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let finished = Running::start_with(&mut home.command(&["run", QUESTION]), Stdio::from(writer)).end();
    assert_eq!((finished.code, finished.err.as_str()), (Some(0), ""));
    assert!(home.ask(&["session", "list", "--json"]).contains("\"done\""));
}

#[test]
fn a_termination_and_a_hangup_stop_the_session_for_good() {
    for signal in ["TERM", "HUP"] {
        let home = home(SLOW_SCRIPT);
        let mut process = home.start(&["run", "hello"]);
        process.out.until(|line| line.starts_with("● bad sess_"));
        process.signal(signal);
        let finished = process.end();
        assert_eq!(finished.code, Some(3), "{signal}: {finished:?}");
        assert!(finished.out.contains("└─ cancelled · 0 steps"), "{signal}: {}", finished.out);
        assert!(home.ask(&["session", "list", "--json"]).contains("\"cancelled\""), "{signal}");
    }
}

/// Whoever starts it with `nohup` wants it to outlive the terminal.
#[cfg(target_os = "linux")]
#[test]
fn an_ignored_hangup_stays_ignored() {
    let home = home(SLOW_SCRIPT);
    let mut command = std::process::Command::new("sh");
    home.dress(&mut command);
    command.args(["-c", "trap '' HUP; exec \"$0\" run hello", env!("CARGO_BIN_EXE_glassbox")]);
    let mut process = Running::start(&mut command);
    process.out.until(|line| line.starts_with("● bad sess_"));
    process.signal("HUP");
    process.signal("TERM");
    let finished = process.end();
    // Two signals that are heard would leave at once.
    assert_eq!(finished.code, Some(3), "{finished:?}");
}
