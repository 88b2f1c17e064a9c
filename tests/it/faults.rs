//! A machine that lets the program down: a full disk, a disk that is read-only, a collector that
//! is dead, lines that nobody can write. What is lost is said, and nothing else is lost.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::process::{Answer, Home, Running, skip};

const QUESTION: &str = "Сколько я потратил на такси в сентябре?";
const ANSWER: &str = "Такси в сентябре: 2 поездки, 5000 ₸.";

/// An agent that thinks long enough for the disk to fill up meanwhile.
const CONFIG: &str = "
agents:
  slow: {system_prompt: Wait., model: slow, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
models:
  slow: {provider: scripted, script: slow.yaml}
tools:
  txn_sum: {builtin: txn_sum}
";
const SCRIPT: &str = "
name: slow
rules:
  - when: {task_matches: quick}
    text: Quick.
  - when: {step: 1, task_matches: warm up}
    call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}
  - when: {step: 1}
    delay: 500ms
    call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}
  - text: '{{ result.total_kzt }}'
";

/// A small file system of its own, which can be filled and made read-only.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Nothing, said aloud, where nothing may be mounted.
    fn mount(home: &Home) -> Option<Self> {
        let folder = home.path("disk");
        fs::create_dir(&folder).unwrap();
        let mounted = quietly("mount", &["-t", "tmpfs", "-o", "size=4m", "tmpfs"], &folder);
        if !mounted {
            skip("no file system can be mounted here, so no disk can be full or read-only");
            return None;
        }
        Some(Self { folder })
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut ballast = fs::OpenOptions::new().create(true).append(true).open(self.ballast()).unwrap();
        for size in [65_536, 4096, 1] {
            let piece = vec![0; size];
            while ballast.write_all(&piece).is_ok() {}
        }
    }

    /// Gives the room back.
    fn relieve(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn make_read_only(&self) {
        assert!(quietly("mount", &["-o", "remount,ro"], &self.folder), "the disk can be made read-only");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if !quietly("umount", &[], &self.folder) {
            quietly("umount", &["-l"], &self.folder);
        }
    }
}

fn quietly(program: &str, arguments: &[&str], folder: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A home with its data on a disk of its own; the disk is given up after the home's programs.
fn on_a_disk(config: &str) -> Option<(Home, Disk)> {
    let home = Home::configured(config);
    home.write("slow.yaml", SCRIPT);
    let disk = Disk::mount(&home)?;
    let data = disk.folder.join("data");
    Some((home.data_in(data), disk))
}

#[test]
fn a_disk_that_is_full_from_the_start_is_said() {
    let Some((home, disk)) = on_a_disk(CONFIG) else { return };
    disk.fill();
    for arguments in [["run", "quick"].as_slice(), &["serve", "--listen", "127.0.0.1:0"]] {
        let finished = home.run(arguments);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.err.contains("the journal cannot be opened") || finished.err.contains("the data folder"));
        assert!(finished.err.contains("no room on the disk"), "{}", finished.err);
        assert!(finished.err.contains("data"), "it names the place: {}", finished.err);
        assert_eq!(finished.out, "");
    }
    disk.relieve();
    assert_eq!(home.run(&["run", "quick"]).code, Some(0), "with room it works");
}

#[test]
fn a_disk_that_fills_up_ends_a_run_with_its_reason() {
    let Some((home, disk)) = on_a_disk(CONFIG) else { return };
    let mut process = home.start(&["run", "slowly"]);
    process.out.until(|line| line.starts_with("● slow"));
    disk.fill();
    let finished = process.end();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.err.contains("the journal cannot write"), "{}", finished.err);
    assert!(finished.err.contains("glassbox.db") && finished.err.contains("no room on the disk"), "{}", finished.err);
    assert!(!finished.out.contains("5000"), "an answer that is not kept is not given: {}", finished.out);
    disk.relieve();
    let listed: Value = serde_json::from_str(&home.ask(&["session", "list", "--json"])).unwrap();
    assert_eq!(listed["status"], "running", "what was written is kept, and it can go on: {listed}");
}

#[test]
fn a_service_on_a_full_disk_goes_red_waits_and_recovers() {
    let Some((home, disk)) = on_a_disk(CONFIG) else { return };
    let server = home.serve();
    // The demo bank lies in the same folder and is made on first use.
    assert_eq!(server.run("warm up")["answer"], "5000");
    let waiting = server.begin("slowly");
    disk.fill();
    let place = format!("/v1/sessions/{waiting}");
    let red = server.get_until("/readyz", |answer| answer.status != 200);
    assert_eq!(red.status, 503, "{red:?}");
    assert_eq!(red.header("content-type"), Some("application/problem+json"));
    assert!(red.json()["detail"].as_str().unwrap().contains("the journal cannot write"), "{red:?}");
    server.get_until("/metrics", |answer| is_full(&answer.body));
    // A small write may find a last bit of room and clear the fault: then a task is taken, waits for
    // room like the others, and the next one is refused.
    let ask = || server.post("/v1/sessions", &json!({"task": "quick"}).to_string());
    let (mut taken, mut refused) = (0, ask());
    while taken < 4 && refused.header("retry-after") == Some("30") {
        (taken, refused) = (taken + 1, ask());
    }
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")), "{refused:?}");
    assert!(refused.json()["detail"].as_str().unwrap().contains("the journal cannot write"), "{refused:?}");
    assert_eq!(server.get("/healthz").status, 200, "a restart would not help");
    let word = server.get(&place).json();
    assert_eq!(word["status"], "suspended", "it goes on by itself, which is the process's word only");

    disk.relieve();
    server.get_until("/readyz", |answer| answer.status == 200);
    let done = server.get_until(&place, |answer| answer.json()["finished_at"].is_string()).json();
    assert_eq!((&done["status"], &done["answer"]), (&json!("done"), &json!("5000")), "{done}");
    assert_eq!(server.run("quick")["answer"], "Quick.");
    let all_done = |answer: &Answer| answer.json()["sessions"].as_array().unwrap().len() == 3 + taken;
    server.get_until("/v1/sessions?status=done", all_done);
    let finished = server.stop();
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    let mut seen = std::collections::BTreeSet::new();
    for line in finished.out.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let place = (event["session_id"].to_string(), event["seq"].as_u64().unwrap());
        assert!(seen.insert(place), "a line came twice: {line}");
    }
}

/// Whoever finds the disk full first waits for room, and nobody is told of what is not kept.
#[test]
fn a_task_that_finds_the_disk_full_begins_when_there_is_room() {
    let Some((home, disk)) = on_a_disk(CONFIG) else { return };
    let server = home.serve();
    assert_eq!(server.run("quick")["answer"], "Quick.");
    disk.fill();
    let begun = std::thread::scope(|scope| {
        let client = *server;
        let asking = scope.spawn(move || client.begin("quick"));
        server.get_until("/metrics", |answer| is_full(&answer.body));
        assert!(!asking.is_finished(), "nothing is promised that is not kept");
        disk.relieve();
        asking.join().unwrap()
    });
    server.get_until(&format!("/v1/sessions/{begun}"), |answer| answer.json()["status"] == "done");
}

/// Whether a commit failed for want of room.
fn is_full(metrics: &str) -> bool {
    let counter = "glassbox_journal_errors_total{kind=\"full\"}";
    metrics.lines().any(|line| line.starts_with(counter) && !line.ends_with(" 0"))
}

#[test]
fn a_folder_that_cannot_be_written_is_said_at_the_start() {
    let Some((home, disk)) = on_a_disk(CONFIG) else { return };
    let fresh = disk.folder.join("fresh");
    home.ask(&["run", "quick"]);
    disk.make_read_only();
    let fresh = fresh.to_str().unwrap();
    for arguments in
        [["run", "quick"].as_slice(), &["serve", "--listen", "127.0.0.1:0"], &["run", "quick", "--data-dir", fresh]]
    {
        let finished = home.run(arguments);
        assert_eq!(finished.code, Some(1), "{arguments:?}: {finished:?}");
        let said = ["cannot be written", "cannot be made"].iter().any(|words| finished.err.contains(words));
        assert!(said, "{arguments:?}: {}", finished.err);
        assert!(finished.err.contains(disk.folder.to_str().unwrap()), "{arguments:?}: {}", finished.err);
        assert_eq!(finished.err.lines().count(), 1, "one line is enough: {}", finished.err);
    }
}

#[test]
fn a_file_that_is_no_journal_is_not_overwritten() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    let path = home.data().join("glassbox.db");
    let letter = "Dear diary, ".repeat(1000);
    fs::write(&path, &letter).unwrap();
    let finished = home.run(&["run", QUESTION]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.err.contains("the journal cannot be opened"), "{}", finished.err);
    assert!(finished.err.contains("glassbox.db"), "{}", finished.err);
    assert_eq!(fs::read_to_string(&path).unwrap(), letter, "it is left as it was");
}

/// A port of this machine that nobody listens on.
fn dead_endpoint() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

fn without_a_collector(protocol: &str) -> Home {
    Home::new()
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", dead_endpoint())
        .variable("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        .variable("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")
}

#[test]
fn a_dead_collector_costs_a_run_its_spans_only() {
    for protocol in ["grpc", "http/protobuf"] {
        let finished = without_a_collector(protocol).run(&["run", QUESTION]);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert_eq!(finished.out.lines().last(), Some(ANSWER));
        assert!(finished.err.contains("spans were lost"), "{protocol}: {}", finished.err);
        // One session, two model calls, one tool call, and the span that the tool opened.
        assert!(finished.err.contains("acknowledged=0"), "{protocol}: {}", finished.err);
        assert!(
            finished.err.contains("failed=5") || finished.err.contains("dropped=5"),
            "{protocol}: {}",
            finished.err
        );
        assert!(!finished.err.contains('\u{1b}'), "plain lines in a pipe: {:?}", finished.err);
    }
}

#[test]
fn a_dead_collector_is_counted_by_the_service() {
    let home = without_a_collector("http/protobuf").variable("OTEL_BSP_SCHEDULE_DELAY", "10");
    let server = home.serve();
    assert_eq!(server.run(QUESTION)["answer"], ANSWER);
    let lost = "glassbox_telemetry_dropped_total{sink=\"otlp\"} 5";
    let scraped = server.get_until("/metrics", |answer| answer.body.lines().any(|line| line == lost));
    assert!(scraped.body.lines().any(|line| line == "glassbox_spans_acknowledged_total 0"), "{}", scraped.body);
    assert_eq!(server.get("/readyz").status, 200, "telemetry makes nothing red");
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let home = Home::new().variable("GLASSBOX__TELEMETRY__EVENTS", "/dev/full");
    let server = home.serve();
    assert_eq!(server.run(QUESTION)["answer"], ANSWER);
    // Started, two model calls, one tool call, finished.
    let lost = "glassbox_telemetry_dropped_total{sink=\"lines\"} 5";
    server.get_until("/metrics", |answer| answer.body.lines().any(|line| line == lost));
    assert_eq!(server.run(QUESTION)["answer"], ANSWER);
    let stopped = server.stop();
    assert_eq!(stopped.code, Some(0));
    assert_eq!(stopped.err.matches("event lines are lost").count(), 1, "told once: {}", stopped.err);
    assert!(stopped.err.contains("No space left on device"), "{}", stopped.err);
}

#[test]
fn a_pipe_that_nobody_reads_ends_the_start_with_a_word() {
    let home = Home::new();
    let pipe = home.path("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let home = home.variable("GLASSBOX__TELEMETRY__EVENTS", &pipe);
    let refused = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let why = "nobody reads this pipe; start its reader first, or name a file or `stdout`";
    let said = format!("telemetry.events: cannot open {pipe} for event lines: {why}");
    assert!(refused.err.contains(&said), "{}", refused.err);
    assert_eq!(refused.err.matches("nobody reads").count(), 1, "{}", refused.err);
}

/// Whoever reads the output may go away; the session is brought to its end all the same.
#[test]
fn a_reader_that_goes_away_is_no_failure_of_the_service() {
    let home = Home::new();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let process = Running::start_with(&mut command, writer.into());
    let server = home.serving(process);
    assert_eq!(server.run(QUESTION)["answer"], ANSWER);
    let lost = "glassbox_telemetry_dropped_total{sink=\"lines\"} 5";
    server.get_until("/metrics", |answer| answer.body.lines().any(|line| line == lost));
    assert_eq!(server.stop().code, Some(0));
}
