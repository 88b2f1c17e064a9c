//! The built binary as a user has it: its own data folder, a clean environment, lines that are
//! waited for and not slept for, and a guard that ends its own child only.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(dead_code, reason = "shared by several test modules")]

use std::{
    io::{BufRead as _, BufReader, Read, Write as _},
    marker::PhantomData,
    net::{SocketAddr, TcpStream},
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// The longest that anything here is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A folder with a configuration and a data folder, and the program in it.
pub struct Home {
    folder: TempDir,
    data: PathBuf,
    config: Option<PathBuf>,
    variables: Vec<(String, String)>,
}

/// What a finished program left.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// A program that runs; it is killed with its value.
pub struct Running {
    child: Child,
    pub out: Lines,
    pub err: Lines,
}

/// The lines of one output, as they come.
pub struct Lines {
    incoming: Receiver<String>,
    pub seen: Vec<String>,
}

/// `glassbox serve`, ready to be asked.
pub struct Server<'home> {
    pub process: Running,
    client: Client,
    /// It cannot outlive its folder.
    home: PhantomData<&'home Home>,
}

/// Asks a service. Copies may ask from other threads.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    address: SocketAddr,
}

/// An answer of the service.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Home {
    /// The built-in configuration in an empty data folder.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        Self { folder, data, config: None, variables: Vec::new() }
    }

    /// A configuration of its own.
    pub fn configured(config: &str) -> Self {
        let mut home = Self::new();
        let path = home.write("glassbox.yaml", config);
        home.config = Some(path);
        home
    }

    /// Another data folder.
    pub fn data_in(mut self, data: impl Into<PathBuf>) -> Self {
        self.data = data.into();
        self
    }

    /// One more variable of the environment.
    pub fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Writes a file beside the data folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The program with these arguments, nothing of the caller's environment changing what it does.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glassbox"));
        self.dress(&mut command);
        command.args(arguments);
        command
    }

    /// Gives a command the folder and the clean environment of this home.
    pub fn dress(&self, command: &mut Command) {
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let starts = ["OTEL_", "GLASSBOX", "NO_COLOR", "CLICOLOR", "RUST_LOG", "SSL_CERT_"];
            let proxy = text.to_ascii_lowercase().ends_with("_proxy");
            if proxy || starts.iter().any(|start| text.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        command.env("GLASSBOX_DATA_DIR", &self.data);
        if let Some(config) = &self.config {
            command.env("GLASSBOX_CONFIG", config);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Finished {
        self.start(arguments).end()
    }

    /// Runs the program to its end, which must be a good one; gives its standard output.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let finished = self.run(arguments);
        assert_eq!(finished.code, Some(0), "{arguments:?} gives {finished:?}");
        finished.out
    }

    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(&mut self.command(arguments))
    }

    /// Starts the service on a free port and waits for its word that it listens.
    pub fn serve(&self) -> Server<'_> {
        self.serving(self.start(&["serve", "--listen", "127.0.0.1:0"]))
    }

    /// Waits for the word of a service that it listens.
    pub fn serving(&self, mut process: Running) -> Server<'_> {
        let line = process.err.until(|line| line.contains("listens on http://"));
        let address = line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
        Server { client: Client { address: address.parse().unwrap() }, process, home: PhantomData }
    }
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::piped())
    }

    /// Starts it with another standard output than one that is read here.
    pub fn start_with(command: &mut Command, out: Stdio) -> Self {
        let mut child = command.stdout(out).stderr(Stdio::piped()).spawn().unwrap();
        let out = child.stdout.take().map_or_else(|| Lines::of(std::io::empty()), Lines::of);
        let err = Lines::of(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// Sends a signal, named as the shell names it.
    pub fn signal(&self, name: &str) {
        let script = format!("kill -s {name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success(), "{script}");
    }

    /// Waits for the end, and reads what is left.
    pub fn end(mut self) -> Finished {
        let (code, out, err) = (self.wait(), self.out.seen.join("\n"), self.err.seen.join("\n"));
        Finished { code: code.code(), out, err }
    }

    /// Waits for the end. Both outputs close when the program ends.
    pub fn wait(&mut self) -> ExitStatus {
        self.err.rest();
        self.out.rest();
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lines {
    fn of(output: impl Read + Send + 'static) -> Self {
        let (sender, incoming) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(output);
            let mut bytes = Vec::new();
            while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
                let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
                bytes.clear();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { incoming, seen: Vec::new() }
    }

    /// Waits for the next line; nothing once the output is closed.
    pub fn next(&mut self) -> Option<String> {
        match self.incoming.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line within {PATIENCE:?} after {:#?}", self.seen),
        }
    }

    /// Waits for a line like this.
    pub fn until(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        while let Some(line) = self.next() {
            if wanted(&line) {
                return line;
            }
        }
        panic!("the output closed without the line: {:#?}", self.seen);
    }

    /// Reads to the end.
    pub fn rest(&mut self) {
        while self.next().is_some() {}
    }
}

impl Deref for Server<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Server<'_> {
    /// Asks it to stop, and waits until it has.
    pub fn stop(self) -> Finished {
        self.process.signal("TERM");
        self.process.end()
    }
}

impl Client {
    /// Of a service at this address.
    pub const fn of(address: SocketAddr) -> Self {
        Self { address }
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], "")
    }

    /// Posts JSON.
    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.request("POST", path, &[("content-type", "application/json")], body)
    }

    /// One request on a connection of its own.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        // A server that refuses a body may close before it has all of it; its answer counts.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes).unwrap_or_else(|| panic!("{method} {path}: no answer: {read:?}"))
    }

    /// Begins a session and gives its id.
    pub fn begin(&self, task: &str) -> String {
        let answer = self.post("/v1/sessions", &serde_json::json!({"task": task}).to_string());
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["session_id"].as_str().unwrap().to_owned()
    }

    /// Runs a session to its end and gives its report.
    pub fn run(&self, task: &str) -> Value {
        let answer = self.post("/v1/sessions?wait=15s", &serde_json::json!({"task": task}).to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Runs a session of this agent to its end and gives its report.
    pub fn run_as(&self, agent: &str, task: &str) -> Value {
        let answer = self.post("/v1/sessions?wait=15s", &serde_json::json!({"agent": agent, "task": task}).to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Asks again until the answer is as wanted, and not so often that asking is a load.
    pub fn get_until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        let mut last = None;
        for _ in 0..4000 {
            let answer = self.get(path);
            if wanted(&answer) {
                return answer;
            }
            last = Some(answer);
            thread::sleep(Duration::from_millis(5));
        }
        panic!("{path} never answers as wanted: {last:?}");
    }
}

impl Answer {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Self { status, headers, body: body.to_owned() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = joined(bytes)?;
        }
        Some(answer)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The body of a whole answer that came in chunks; their lengths count bytes.
fn joined(answer: &[u8]) -> Option<String> {
    let begin = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let (mut rest, mut body) = (&answer[begin..], Vec::new());
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?, 16).ok()?;
        if length == 0 {
            return Some(String::from_utf8_lossy(&body).into_owned());
        }
        body.extend_from_slice(rest.get(end + 2..end + 2 + length)?);
        rest = rest.get(end + 2 + length + 2..)?;
    }
}

/// Whether a tool of the machine is there. In CI it must be; elsewhere its lack is said aloud.
pub fn have(tool: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::vars_os().all(|(name, _)| name != "CI"), "{tool} is not installed, which CI must have");
    skip(&format!("{tool} is not installed"));
    false
}

/// Says that something cannot be tested here.
pub fn skip(why: &str) {
    // To the terminal itself: the harness keeps what a passing test prints.
    let _ = writeln!(std::io::stderr(), "SKIP: {why}");
}
