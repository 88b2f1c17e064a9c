//! The other side of the measured loopback: a model that answers at once and a collector that
//! takes everything, in a process of their own, so that their time is nobody's here.
//!
//! It must never know glassbox: bytes in, bytes out.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader as AsyncReader},
    net::{TcpListener, TcpStream},
    sync::Barrier,
};

/// Results of tools after which the model answers.
pub(crate) const TOOL_CALLS: usize = 4;
/// A task with these words waits for its first reply until so many others wait with it.
pub(crate) const GATED: &str = "Wait for all.";
/// What is asked here is answered at once when all of those have asked, before any has its reply.
pub(crate) const ALL_HERE: &str = "/all-here";

/// A running endpoint; it ends with its value.
pub(crate) struct Endpoint {
    child: Child,
    /// The child reads it to the end, so that it cannot outlive us.
    _stdin: ChildStdin,
    pub(crate) url: String,
}

impl Endpoint {
    /// Starts one that answers after this delay; gated tasks wait for `gate` of their kind.
    pub(crate) fn start(delay: Duration, gate: usize) -> Self {
        let arguments = [delay.as_millis().to_string(), gate.to_string()];
        let mut child = command("--endpoint").args(arguments).stdin(Stdio::piped()).spawn().expect("a child");
        let stdin = child.stdin.take().expect("piped");
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut url).expect("an address");
        Self { child, _stdin: stdin, url: url.trim().to_owned() }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program once more, for another part, with as many open files as the machine allows.
pub(crate) fn command(part: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n "$(ulimit -Hn)" 2>/dev/null; exec "$0" "$@""#]);
    command.arg(std::env::current_exe().expect("a program")).arg(part).stdout(Stdio::piped());
    command
}

/// What the child does.
pub(crate) fn serve(delay: Duration, gate: usize) {
    // Whoever started it holds the other end.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an async runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("http://{}", listener.local_addr().expect("bound"));
        std::io::stdout().flush().expect("whoever started it reads");
        // One place is of whoever wants to know that all are here.
        let gate = Arc::new(Barrier::new(gate + 1));
        while let Ok((stream, _)) = listener.accept().await {
            glassbox::runtime::spawn(answer(stream, delay, gate.clone()));
        }
    });
}

/// Answers the requests of one connection until it closes.
async fn answer(stream: TcpStream, delay: Duration, gate: Arc<Barrier>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut stream = AsyncReader::new(stream);
    loop {
        let (path, body) = request(&mut stream).await?;
        let reply = if path.ends_with("/traces") {
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n".to_owned()
        } else if path == ALL_HERE {
            gate.wait().await;
            "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
        } else {
            let body = String::from_utf8_lossy(&body);
            let results = body.matches("\"tool_call_id\"").count();
            if results == 0 && body.contains(GATED) {
                gate.wait().await;
            }
            tokio::time::sleep(delay).await;
            let body = completion(results);
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        };
        stream.get_mut().write_all(reply.as_bytes()).await.ok()?;
    }
}

/// The path and body of the next request.
async fn request(stream: &mut AsyncReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if path.is_empty() {
            path = line.split(' ').nth(1)?.to_owned();
        } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((path, body))
}

/// A call of the tool while there are few results, then the answer.
fn completion(results: usize) -> String {
    let (message, reason) = if results < TOOL_CALLS {
        let arguments = format!(r#"{{\"query\":\"taxi\",\"page\":{}}}"#, results + 1);
        let function = format!(r#"{{"name":"lookup","arguments":"{arguments}"}}"#);
        let call = format!(r#"{{"id":"call_{results}","type":"function","function":{function}}}"#);
        (format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#), "tool_calls")
    } else {
        (r#"{"role":"assistant","content":"Two trips, 5000 tenge together."}"#.to_owned(), "stop")
    };
    let usage = r#"{"prompt_tokens":120,"completion_tokens":20,"total_tokens":140}"#;
    let choice = format!(r#"{{"index":0,"message":{message},"finish_reason":"{reason}"}}"#);
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m-1","choices":[{choice}],"usage":{usage}}}"#
    )
}
