//! The answer on a terminal while it comes. The provider is the test's own: it goes on when what
//! it said has reached the terminal, and not before.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use serde_json::{Value, json};

use crate::process::{Home, PATIENCE, have};

/// Plays one stream a request, a part of it whenever it is told to go on.
struct Provider {
    url: String,
    go_on: Sender<()>,
}

/// What one answer consists of: events, in parts.
type Answer = Vec<Vec<Value>>;

impl Provider {
    fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (go_on, gate) = channel();
        thread::spawn(move || {
            for answer in answers {
                let (stream, _) = listener.accept().unwrap();
                play(stream, answer, &gate);
            }
        });
        Self { url, go_on }
    }

    fn home(&self) -> Home {
        Home::configured(&format!(
            "agents:\n  bank: {{system_prompt: Help., model: m, language: en}}\n\
             models:\n  m: {{provider: openai, model: m-1, base_url: \"{}\"}}\n\
             llm_retry_policy: {{max_attempts: 2, initial_delay_ms: 1}}\n",
            self.url
        ))
    }
}

/// Answers one request; the first part goes out at once.
fn play(stream: TcpStream, answer: Answer, gate: &Receiver<()>) {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).unwrap() > 2 {
        let lower = line.to_ascii_lowercase();
        length = lower.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
        line.clear();
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let stream = reader.get_mut();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").unwrap();
    for (number, part) in answer.into_iter().enumerate() {
        if number > 0 && gate.recv_timeout(PATIENCE).is_err() {
            return;
        }
        for event in part {
            stream.write_all(format!("data: {event}\n\n").as_bytes()).unwrap();
        }
        stream.flush().unwrap();
    }
}

fn says(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}}]})
}

fn done() -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
}

/// `run` on a terminal, read byte by byte.
struct Terminal {
    child: Child,
    bytes: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(home: &Home) -> Self {
        let mut command = Command::new("script");
        home.dress(&mut command);
        let run = format!("{} run hello", env!("CARGO_BIN_EXE_glassbox"));
        command.args(["-qec", &run, "/dev/null"]).env("TERM", "xterm-256color");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let (sender, bytes) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, bytes, seen: String::new() }
    }

    /// Waits until this has been written; all before it is behind us then.
    fn until(&mut self, wanted: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(wanted) {
                let rest = self.seen.split_off(at + wanted.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            match self.bytes.recv_timeout(PATIENCE) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("no {wanted:?}: {error} after {:?}", self.seen),
            }
        }
    }

    /// Reads to the end; gives the exit code and what came.
    fn end(mut self) -> (Option<i32>, String) {
        while let Ok(bytes) = self.bytes.recv_timeout(PATIENCE) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_answer_is_seen_while_it_comes_and_stands_below_the_tree_in_the_end() {
    if !have("script") {
        return;
    }
    let hostile = "and second\u{1b}]0;x\u{7} ";
    let provider =
        Provider::start(vec![vec![vec![says("First word ")], vec![says(hostile)], vec![says("last."), done()]]]);
    let home = provider.home();
    let mut terminal = Terminal::start(&home);
    let tree = terminal.until("First word");
    assert!(tree.contains("bank"), "{tree:?}");
    provider.go_on.send(()).unwrap();
    let more = terminal.until(r"First word and second\u{1b}]0;x\u{7}");
    assert!(!more.contains("└─"), "nothing has ended yet: {more:?}");
    provider.go_on.send(()).unwrap();
    let (code, rest) = terminal.end();
    assert_eq!(code, Some(0), "{rest:?}");
    let all = format!("{tree}{more}{rest}");
    assert!(!all.contains("\u{1b}]"), "the model has no hold on the terminal: {all:?}");
    let answer = r"First word and second\u{1b}]0;x\u{7} last.";
    let (_, after_tree) = rest.split_once("└─").expect("the tree has its end");
    assert_eq!(after_tree.matches(answer).count(), 1, "the answer stands once below the tree: {rest:?}");
    let last = rest.lines().rev().find(|line| !line.trim().is_empty()).unwrap();
    assert!(last.trim_end().ends_with(answer), "{last:?}");
}

#[test]
fn a_text_that_begins_anew_takes_the_place_of_the_broken_one() {
    if !have("script") {
        return;
    }
    let overloaded = json!({"error": {"type": "overloaded_error", "message": "Overloaded"}});
    let broken = vec![vec![says("Wrong words")], vec![overloaded]];
    let provider = Provider::start(vec![broken, vec![vec![says("Right ")], vec![says("words."), done()]]]);
    let home = provider.home();
    let mut terminal = Terminal::start(&home);
    terminal.until("Wrong words");
    provider.go_on.send(()).unwrap();
    terminal.until("Right");
    provider.go_on.send(()).unwrap();
    let (code, rest) = terminal.end();
    assert_eq!(code, Some(0), "{rest:?}");
    assert!(!rest.contains("Wrong") && rest.trim_end().ends_with("Right words."), "{rest:?}");
}

#[test]
fn without_a_terminal_and_as_json_the_answer_comes_once_and_whole() {
    for arguments in [&["run", "hello"][..], &["run", "hello", "--json"]] {
        let provider = Provider::start(vec![vec![vec![says("In ")], vec![says("pieces."), done()]]]);
        let home = provider.home();
        provider.go_on.send(()).unwrap();
        let out = home.ask(arguments);
        assert_eq!(out.matches("In pieces.").count(), 1, "{out}");
        assert_eq!(out.matches("In ").count(), 1, "{out}");
    }
}
