//! The command line as a person or a script meets it: what it prints, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use serde_json::Value;

use crate::process::{Home, Running, have};

const QUESTION: &str = "Сколько я потратил на такси в сентябре?";
const ANSWER: &str = "Такси в сентябре: 2 поездки, 5000 ₸.";

/// A model that never answers in time.
const SLOW: &str = "
agents:
  slow: {system_prompt: Wait., model: slow, language: en, tools: [], task_types: [other], limits: {token_budget: 50000}}
models:
  slow: {provider: scripted, script: slow.yaml}
";
const SLOW_SCRIPT: &str = "
name: slow
rules:
  - {delay: 30s, text: Too late.}
";

fn ids(home: &Home) -> Vec<String> {
    let listed = home.ask(&["session", "list", "--json"]);
    listed.lines().map(|line| json(line)["session_id"].as_str().unwrap().to_owned()).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_question_gets_its_answer_in_two_steps() {
    let home = Home::new();
    let finished = home.run(&["run", QUESTION]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.err, "", "nothing to complain of");
    assert!(!finished.out.contains('\u{1b}'), "a pipe gets plain lines: {:?}", finished.out);
    let lines: Vec<_> = finished.out.lines().collect();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert!(lines[0].starts_with("● bank sess_"), "{}", lines[0]);
    assert!(lines[1].starts_with("├─ step 1 bank · ok · "), "{}", lines[1]);
    assert!(lines[2].starts_with("│  ├─ txn_sum(category: \"taxi\", month: \"2026-09\") · ok · "), "{}", lines[2]);
    assert!(lines[3].starts_with("├─ step 2 bank · ok · ") && lines[3].ends_with("answers"), "{}", lines[3]);
    assert!(lines[4].starts_with("└─ done · 2 steps · "), "{}", lines[4]);
    assert_eq!(lines[5], ANSWER);
}

#[test]
fn json_is_one_line_in_the_words_of_the_api() {
    let home = Home::new();
    let out = home.ask(&["run", "--json", QUESTION]);
    assert_eq!(out.lines().count(), 1, "{out}");
    let report = json(&out);
    assert_eq!(report["answer"], ANSWER);
    assert_eq!(report["status"], "done");
    assert_eq!(report["reason"], Value::Null);
    assert_eq!(report["total_steps"], 2);
    assert_eq!(report["tools_called"], serde_json::json!(["txn_sum"]));
    let id = report["session_id"].as_str().unwrap();
    assert_eq!(id.strip_prefix("sess_"), report["trace_id"].as_str());
    let shown = json(&home.ask(&["session", "show", id, "--json"]));
    for (key, value) in report.as_object().unwrap() {
        assert_eq!(&shown["session"][key], value, "{key} is the same in both");
    }
}

#[test]
fn a_wrong_command_line_ends_with_64_and_says_what_would_be_right() {
    let home = Home::new();
    for (arguments, word) in [
        (["run", "", "--json"].as_slice(), "the task is empty"),
        (&["run", "  \n", "--json"], "the task is empty"),
        (&["run", "--agent", "nobody", "hello"], "declared are: bank"),
        (&["run", "--task-type", "war", "hello"], "declared are: spending, card, other"),
        (&["run", "--colour", "hello"], "--colour"),
        (&["run"], "<TASK>"),
        (&["fly"], "fly"),
        (&["session", "list", "--status", "happy"], "max_iterations"),
        (&["serve", "--listen", "0.0.0.0:0"], "loopback"),
    ] {
        let finished = home.run(arguments);
        assert_eq!(finished.code, Some(64), "{arguments:?}: {finished:?}");
        assert!(finished.err.contains(word), "{arguments:?}: {}", finished.err);
        assert_eq!(finished.out, "", "{arguments:?}");
    }
    let finished = home.run(&["session", "show", "sess_00000000000000000000000000000000"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.err.contains("there is no session"), "{}", finished.err);
    assert_eq!(home.run(&["--help"]).code, Some(0));
    assert_eq!(home.run(&["--version"]).out, format!("glassbox {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_task_that_turns_in_circles_is_stopped_and_says_so() {
    let finished = Home::new().run(&["run", "зациклись"]);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let lines: Vec<_> = finished.out.lines().collect();
    assert!(lines.contains(&"├─ limit no_progress (4)"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("└─ error (no_progress) · 4 steps · ")), "{lines:#?}");
    let last = *lines.last().unwrap();
    assert!(last.contains("4 из 15 шагов") && last.contains("частичный") && last.contains("оператору"), "{last}");
}

#[test]
fn the_limit_of_steps_gives_what_is_known_so_far() {
    let home = Home::new().variable("GLASSBOX__AGENTS__BANK__LIMITS__MAX_ITERATIONS", "2");
    let finished = home.run(&["run", "loop"]);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    assert!(finished.out.contains("└─ max_iterations · 2 steps · "), "{}", finished.out);
    assert!(finished.out.contains("\nПока известно только это: "), "the partial answer: {}", finished.out);
    assert!(finished.out.contains("2 из 2 шагов"), "{}", finished.out);
}

#[test]
fn an_interrupt_stops_the_session_for_good() {
    let home = Home::configured(SLOW);
    home.write("slow.yaml", SLOW_SCRIPT);
    let mut process = home.start(&["run", "hello"]);
    process.out.until(|line| line.starts_with("● slow sess_"));
    process.signal("INT");
    let finished = process.end();
    assert_eq!(finished.code, Some(3), "{finished:?}");
    assert!(finished.out.contains("├─ stop asked for"), "{}", finished.out);
    assert!(finished.out.contains("└─ cancelled · 0 steps"), "{}", finished.out);
    let row = json(&home.ask(&["session", "list", "--json"]));
    assert_eq!(row["status"], "cancelled");
}

#[test]
fn sessions_can_be_looked_at_afterwards() {
    let home = Home::new();
    assert!(home.ask(&["session", "list"]).contains("no sessions yet"));
    assert_eq!(home.ask(&["session", "list", "--json"]), "");
    let shown_live = home.ask(&["run", QUESTION]);
    home.run(&["run", "loop"]);
    let rows = home.ask(&["session", "list", "--json"]);
    let rows: Vec<_> = rows.lines().map(json).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["status"], &rows[0]["reason"]), (&"error".into(), &"no_progress".into()), "newest first");
    assert_eq!((&rows[1]["status"], &rows[1]["total_steps"]), (&"done".into(), &2.into()));
    assert_eq!(home.ask(&["session", "list", "--status", "done", "--json"]).lines().count(), 1);
    assert_eq!(home.ask(&["session", "list", "--agent", "nobody", "--json"]), "");
    assert_eq!(home.ask(&["session", "list", "--limit", "1", "--json"]).lines().count(), 1);

    let id = rows[1]["session_id"].as_str().unwrap();
    let table = home.ask(&["session", "list"]);
    assert!(table.lines().nth(2).unwrap().starts_with(id), "{table}");
    assert_eq!(home.ask(&["session", "show", id]), shown_live, "the same tree, live and later");
    assert_eq!(home.ask(&["session", "show", &id[..20]]), shown_live, "the beginning of an id is enough");
    assert_eq!(home.ask(&["session", "show", &id["sess_".len()..]]), shown_live, "and so is a trace id");
    assert_eq!(ids(&home).len(), 2, "looking changes nothing");
}

#[test]
fn raw_prompts_are_proved() {
    let home = Home::new();
    home.ask(&["run", QUESTION]);
    let id = ids(&home).remove(0);
    let raw = home.ask(&["session", "show", &id, "--raw"]);
    assert_eq!(raw.matches("(proved)").count(), 2, "{raw}");
    assert!(!raw.contains("NOT the bytes"), "{raw}");
    assert!(raw.contains(QUESTION) && raw.contains(ANSWER), "{raw}");
    let exchanges: Vec<_> = home.ask(&["session", "show", &id, "--raw", "--json"]).lines().map(json).collect();
    assert_eq!(exchanges.len(), 2);
    let second = json(exchanges[1]["request"].as_str().unwrap());
    let roles: Vec<_> = second["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    assert_eq!(exchanges[1]["end"]["reply"]["text"], ANSWER);
}

#[test]
fn check_prints_what_takes_effect_and_no_secret() {
    let home = Home::configured(
        "
agents:
  bank: {system_prompt: Hello., model: m, tools: [txn_sum], task_types: [a], limits: {token_budget: 777}}
models:
  m: {provider: scripted, script: bank}
tools:
  txn_sum: {builtin: txn_sum}
telemetry:
  otlp: {endpoint: 'http://127.0.0.1:1', headers: {authorization: {env: TOKEN_OF_TEST}}}
privacy:
  hash_key: {env: KEY_OF_TEST}
",
    )
    .variable("TOKEN_OF_TEST", "Bearer swordfish-1")
    .variable("KEY_OF_TEST", "swordfish-2-and-some-more")
    .variable("GLASSBOX__SERVER__MAX_SESSIONS", "12");
    let out = home.ask(&["check"]);
    assert!(!out.contains("swordfish"), "{out}");
    assert!(out.contains("token_budget: 777"), "{out}");
    assert!(out.contains("max_sessions: 12"), "{out}");
    assert!(out.contains("min_calls: 5"), "defaults are shown: {out}");
    assert!(!home.data().exists(), "looking at the configuration makes no data folder");
}

#[test]
fn five_mistakes_are_five_lines() {
    let home = Home::configured(
        "agents:
  bank:
    system_prompt: Hello.
    model: missing
    tools: [txn_sum]
    task_types: [a]
    limits: {token_budget: -3}
models:
  m: {provider: scripted, script: bank, colour: red}
tools:
  txn_sum: {builtin: txn_sum, timeout: 15}
server:
  listen: 0.0.0.0:80
",
    );
    for arguments in [["check"].as_slice(), &["run", "hello"], &["serve"], &["session", "list"]] {
        let finished = home.run(arguments);
        assert_eq!(finished.code, Some(64), "{finished:?}");
        let places: Vec<_> =
            finished.err.lines().filter_map(|line| line.split("glassbox.yaml:").nth(1)?.split(':').next()).collect();
        assert_eq!(places, ["4", "7", "9", "11", "13"], "{}", finished.err);
        for key in ["model", "token_budget", "colour", "timeout", "listen"] {
            assert!(finished.err.contains(key), "{key}: {}", finished.err);
        }
        assert!(finished.err.ends_with("5 mistakes in the configuration"), "{}", finished.err);
    }
    assert!(!home.data().exists(), "a wrong configuration starts nothing");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let home = Home::new().variable("GLASSBOX_CONFIG", "missing.yaml");
    let finished = home.run(&["check"]);
    assert_eq!(finished.code, Some(64), "{finished:?}");
    assert!(finished.err.contains("missing.yaml"), "{}", finished.err);
}

/// On a real terminal: a tree in colour over a spinner that is gone in the end.
#[test]
fn a_terminal_shows_a_live_tree() {
    if !have("script") {
        return;
    }
    let home = Home::new();
    let mut command = std::process::Command::new("script");
    home.dress(&mut command);
    let run = format!("{} run '{QUESTION}'", env!("CARGO_BIN_EXE_glassbox"));
    command.args(["-qec", &run, "/dev/null"]).env("TERM", "xterm-256color");
    let finished = Running::start(&mut command).end();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let out = &finished.out;
    assert!(out.contains("\u{1b}[32mdone\u{1b}[0m"), "the good end is green: {out:?}");
    assert!(out.contains("\u{1b}[36mtxn_sum\u{1b}[0m"), "tools have their colour: {out:?}");
    assert!(out.contains("\u{1b}[2K"), "the spinner's line is taken away: {out:?}");
    let last = out.lines().rev().find(|line| !line.trim().is_empty()).unwrap();
    assert!(last.trim_end().ends_with(ANSWER), "the answer stands last: {last:?}");
}
