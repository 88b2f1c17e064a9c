//! `glassbox load` as people run it: the program, a service that it starts or finds, and its
//! report.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::net::TcpListener;

use serde_json::Value;

use crate::process::{Finished, Home};

/// Waits that a test has no use for.
const QUICK: [&str; 8] =
    ["--model-latency", "5ms", "--tool-latency", "1ms", "--warm-up", "0s", "--session-timeout", "50s"];

/// Models try again soon: what is looked at is that they do, and not how long they wait.
fn home() -> Home {
    Home::new().variable("GLASSBOX__LLM_RETRY_POLICY__INITIAL_DELAY_MS", "10")
}

fn load(home: &Home, arguments: &[&str]) -> Finished {
    home.run(&[&["load"], arguments].concat())
}

fn report(home: &Home, arguments: &[&str]) -> (Finished, Value) {
    let finished = load(home, &[&["--json"], arguments].concat());
    let report = serde_json::from_str(&finished.out).unwrap_or_else(|error| panic!("{error}: {finished:?}"));
    (finished, report)
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

/// The number of the 200 sessions of the closed run: as few as a real process may see and still
/// meet each fault many times.
#[test]
fn two_hundred_sessions_with_faults_lose_nothing() {
    let home = home();
    let page = home.path("report.html");
    let arguments = [
        QUICK.as_slice(),
        &["--sessions", "200", "--concurrency", "50", "--tool-failures", "0.3", "--model-429", "0.1"],
        &["--html", page.to_str().unwrap(), "--fail-if", "lost>0", "--fail-if", "success<0.9"],
        &["--fail-if", "missing_spans>0", "--fail-if", "dropped>0", "--fail-if", "refused>0", "--fail-if", "failed>0"],
    ];
    let arguments: Vec<_> = arguments.concat().into_iter().filter(|word| !["--warm-up", "0s"].contains(word)).collect();
    let (finished, report) = report(&home, &arguments);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let stage = &report["stages"][0];
    assert_eq!(stage["sessions"], 200);
    assert_eq!(sum(&stage["statuses"]), 200, "{stage:#}");
    assert_eq!((&stage["accepted"]["count"], &stage["end_to_end"]["count"]), (&200.into(), &200.into()));
    let telemetry = &stage["telemetry"];
    assert_eq!(telemetry["spans_expected"], telemetry["spans_arrived"]);
    // A root and a model call at the least; most sessions have a tool call and a second model call.
    assert!(telemetry["spans_expected"].as_u64().unwrap() > 600, "{telemetry}");
    let ms = |key: &str| stage["end_to_end"][key].as_f64().unwrap();
    assert!(ms("p50_ms") >= 5.0, "a model call takes that long: {stage:#}");
    assert!(ms("p50_ms") <= ms("p99_ms") && ms("p99_ms") <= ms("max_ms"));
    assert!(stage["server"]["resident_peak_mib"].as_f64().unwrap() > 5.0, "{stage:#}");
    assert!(stage["server"]["cpu_seconds"].as_f64().unwrap() > 0.0, "{stage:#}");
    assert!(report["own_server"].as_str().unwrap().contains("10 % 429"), "{report:#}");
    assert!(std::fs::read_to_string(page).unwrap().ends_with("</html>\n"));
}

#[test]
fn the_plain_rate_and_four_times_it_stand_side_by_side() {
    let home = home();
    let stages = ["--rate", "10", "--times", "4", "--duration", "2s", "--arrivals", "constant"];
    let finished = load(&home, &[QUICK.as_slice(), &stages].concat());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let row = |label: &str| {
        let line = finished.out.lines().find(|line| line.starts_with(label));
        let line = line.unwrap_or_else(|| panic!("no {label} in {}", finished.out));
        line[label.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("sessions wanted"), ["10/s", "40/s"]);
    assert_eq!(row("sessions  "), ["20", "80"]);
    assert_eq!(row("success"), ["100.00", "%", "100.00", "%"]);
    assert_eq!(row("lost"), ["0", "0"]);
    assert!(row("end to end p99 ").last().unwrap().starts_with('x'), "{}", finished.out);
}

#[test]
fn a_service_that_is_there_is_used_and_its_quota_named() {
    let home = Home::new().variable("GLASSBOX__RATE_LIMITS__SESSIONS_PER_USER_PER_HOUR", "30");
    let server = home.serve();
    let url = format!("http://{}", server.address());
    let arguments = ["--server", &url, "--sessions", "40", "--concurrency", "1", "--fail-if", "refused>=10"];
    let (finished, report) = report(&home, &arguments);
    assert_eq!(finished.code, Some(5), "beyond a condition: {finished:?}");
    let stage = &report["stages"][0];
    assert_eq!((&stage["refused"]["429"], &stage["statuses"]["done"]), (&10.into(), &30.into()), "{report:#}");
    assert_eq!(stage["lost"], Value::Array(Vec::new()));
    assert!(report["notes"][0].as_str().unwrap().contains("raise rate_limits.sessions_per_user_per_hour"));
    assert_eq!(report["beyond"][0]["threshold"], "refused>=10");
    assert_eq!(report["own_server"], Value::Null);
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let home = Home::new();
    let refuses = |arguments: &[&str], code: i32, word: &str| {
        let finished = load(&home, arguments);
        assert_eq!(finished.code, Some(code), "{arguments:?}: {finished:?}");
        assert!(finished.err.contains(word), "{arguments:?}: {finished:?}");
    };
    // A port that was free a moment ago and that nobody has yet.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    refuses(&["--server", &format!("http://{closed}")], 1, "cannot be reached");
    refuses(&["--fail-if", "p98>1s"], 64, "those that can be judged are success, p50");
    refuses(&["--fail-if", "p99>1"], 64, "name the unit, 1s or 1ms");
    refuses(&["--tool-failures", "10"], 64, "a share from 0 to 1");
    refuses(&["--server", "http://127.0.0.1:1", "--model-429", "0.5"], 64, "cannot be used with");
    refuses(&["--sessions", "10", "--times", "10"], 64, "cannot be used with");
    refuses(&["--html", "no/such/folder/x.html"], 1, "the report no/such/folder/x.html cannot be written");
    refuses(&["--task", "0* taxi"], 1, "--task");
}

#[test]
fn a_key_is_asked_for_and_a_wrong_one_refused() {
    let config = "\
agents:
  bank: {system_prompt: Help., model: bank}
models:
  bank: {provider: scripted, script: bank}
auth:
  api_keys:
    app:
      hash: sha256:0000000000000000000000000000000000000000000000000000000000000000
      principal: {id: C-002}
";
    let home = Home::configured(config);
    let server = home.serve();
    let url = format!("http://{}", server.address());
    let none = load(&home, &["--server", &url]);
    assert!(none.code == Some(1) && none.err.contains("asks for a key: put one into GLASSBOX_API_KEY"), "{none:?}");
    let wrong = home.command(&["load", "--server", &url]).env("GLASSBOX_API_KEY", "gbx_wrong").output().unwrap();
    let words = String::from_utf8_lossy(&wrong.stderr);
    assert!(words.contains("refuses the key"), "{words}");
    assert!(!words.contains("gbx_wrong"), "{words}");
}
