//! One process: begun with a clean environment, fed, read to a limit, and killed with its whole
//! group where nobody waits for it any more.

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Stdio};

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use super::{Plan, Template};
use crate::core::{Fault, FaultKind};

/// Bytes of what a program says on its standard error.
const MAX_ERRORS: u64 = 8 << 10;
/// Letters of it that are kept.
const MAX_WORDS: usize = 300;

/// How a program ended.
pub(super) enum Exit {
    /// With this code.
    Code(i32),
    /// By a signal.
    Killed,
}

/// What a program left.
pub(super) struct Finished {
    /// How it ended.
    pub(super) exit: Exit,
    /// What it wrote on its standard output.
    pub(super) output: Vec<u8>,
    /// The last words on its standard error, on one line.
    pub(super) errors: String,
}

/// A process whose group dies with this value.
struct Group(Box<dyn ChildWrapper>);

impl Drop for Group {
    fn drop(&mut self) {
        // An error means that nobody is left to be killed.
        let _ = self.0.start_kill();
    }
}

/// Runs the program to its end. Dropping the future kills it with all that it began.
pub(super) async fn run(plan: &Plan, words: Vec<String>, stdin: Vec<u8>) -> Result<Finished, Fault> {
    let mut group = begin(plan, words)?;
    let (to, from, errors) = (group.0.stdin().take(), group.0.stdout().take(), group.0.stderr().take());
    let feed = async move {
        if let Some(mut to) = to {
            // A program need not read what it is given.
            let _ = to.write_all(&stdin).await;
        }
    };
    // Output that is too long ends the waiting at once, and with it the program.
    let side_by_side = async { tokio::join!(feed, last_words(errors)).1 };
    let (output, errors) = tokio::try_join!(output(from, plan.max_bytes), async { Ok(side_by_side.await) })?;
    let status = group.0.wait().await.map_err(|_| failed("cannot be waited for"))?;
    let exit = status.code().map_or(Exit::Killed, Exit::Code);
    Ok(Finished { exit, output, errors })
}

/// Whether the program and its folder are there; nothing is run.
pub(super) fn find(plan: &Plan) -> Result<(), Fault> {
    let missing = |what: String| Err(Fault::new(FaultKind::Connection, what));
    if !plan.cwd.is_dir() {
        return missing(format!("the folder {} is not there", plan.cwd.display()));
    }
    let program = plan.argv.first().and_then(Template::fixed).unwrap_or_default();
    let path = plan.env.get("PATH").map(|path| path.expose().as_str());
    let path = path.or_else(|| plan.inherited.get("PATH").map(String::as_str)).unwrap_or_default();
    let found = if program.contains('/') {
        is_program(&plan.cwd.join(program))
    } else {
        std::env::split_paths(path).any(|folder| is_program(&folder.join(program)))
    };
    if found { Ok(()) } else { missing(format!("the program {program} is not there, or cannot be run")) }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn begin(plan: &Plan, words: Vec<String>) -> Result<Group, Fault> {
    let mut words = words.into_iter();
    let program = words.next().ok_or_else(|| Fault::new(FaultKind::Internal, "no program is named"))?;
    let mut command = CommandWrap::with_new(&program, |command| {
        command
            .args(words)
            .env_clear()
            .envs(&plan.inherited)
            .envs(plan.env.iter().map(|(name, value)| (name, value.expose())))
            .current_dir(&plan.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    let child = command.wrap(ProcessGroup::leader()).spawn();
    // Nothing has run, so even a call with effects may be tried again.
    child
        .map(Group)
        .map_err(|error| Fault::new(FaultKind::Connection, format!("the program {program} cannot be started: {error}")))
}

/// All of the output; more than may be is a fault, and the program is killed by whoever drops it.
async fn output(from: Option<impl AsyncRead + Unpin>, most: u64) -> Result<Vec<u8>, Fault> {
    let mut output = Vec::new();
    if let Some(from) = from {
        let read = from.take(most.saturating_add(1)).read_to_end(&mut output).await;
        read.map_err(|_| failed("broke off its output"))?;
    }
    if output.len() as u64 > most {
        return Err(Fault::new(FaultKind::Malformed, format!("the program wrote more than {most} bytes")));
    }
    Ok(output)
}

/// The end of what it says on its standard error; all of it is read, so that it never has to wait.
async fn last_words(from: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else { return String::new() };
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..read]);
        let surplus = (kept.len() as u64).saturating_sub(MAX_ERRORS);
        kept.drain(..usize::try_from(surplus).unwrap_or(kept.len()));
    }
    let text = String::from_utf8_lossy(&kept);
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    let letters = line.chars().count();
    line.chars().skip(letters.saturating_sub(MAX_WORDS)).collect()
}

fn failed(what: &str) -> Fault {
    Fault::new(FaultKind::Transport, format!("the program {what}"))
}
