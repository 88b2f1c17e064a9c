//! A server that is a child process: in a group of its own, which is killed as a whole, and its
//! standard error as diagnostics.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio, time::Duration};

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
};

use crate::core::Sensitive;

/// How long a server may take to stop once its input is closed, and again once it was asked to.
const GRACE: Duration = Duration::from_secs(2);
const TERMINATE: i32 = 15;
/// Bytes of one line of diagnostics.
const LINE: usize = 2000;

/// The process and all that it started. Killed when dropped.
pub(super) struct Child {
    process: Box<dyn ChildWrapper>,
}

/// The ends of its pipes.
pub(super) struct Pipes {
    pub(super) input: ChildStdin,
    pub(super) output: ChildStdout,
    pub(super) errors: ChildStderr,
}

/// What a child is started with.
pub(super) struct Start<'a> {
    pub(super) command: &'a [String],
    pub(super) env: &'a BTreeMap<String, Sensitive<String>>,
    pub(super) inherited: &'a BTreeMap<String, String>,
    pub(super) cwd: Option<&'a PathBuf>,
}

impl Child {
    /// Starts it, with no variables but those that it is given.
    pub(super) fn start(start: &Start<'_>) -> Result<(Self, Pipes), String> {
        let Some((program, arguments)) = start.command.split_first() else {
            return Err("no command is configured".to_owned());
        };
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(start.inherited);
        command.envs(start.env.iter().map(|(name, value)| (name, value.expose())));
        if let Some(folder) = start.cwd {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut wrapped = CommandWrap::from(command);
        wrapped.wrap(ProcessGroup::leader());
        let mut process = wrapped.spawn().map_err(|error| format!("{program} cannot be started: {error}"))?;
        let pipes = (process.stdin().take(), process.stdout().take(), process.stderr().take());
        let child = Self { process };
        match pipes {
            (Some(input), Some(output), Some(errors)) => Ok((child, Pipes { input, output, errors })),
            _ => Err(format!("{program} has no pipes")),
        }
    }

    /// Stops it once its input is closed: waits, asks, and kills what is left of its group.
    pub(super) async fn stop(mut self) {
        if tokio::time::timeout(GRACE, self.process.wait()).await.is_err() {
            // Errors say that there is nobody left to ask.
            let _ = self.process.signal(TERMINATE);
            let _ = tokio::time::timeout(GRACE, self.process.wait()).await;
        }
        let _ = self.process.start_kill();
        let _ = tokio::time::timeout(GRACE, self.process.wait()).await;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.start_kill();
    }
}

/// Reads the standard error to its end, line by line, each cut to a bound; then never ends.
pub(super) async fn follow(errors: impl AsyncRead + Unpin, tell: impl Fn(&str)) {
    let mut reader = BufReader::new(errors);
    let mut line = Vec::new();
    while let Ok(piece) = reader.fill_buf().await {
        if piece.is_empty() {
            break;
        }
        let taken = piece.len();
        for byte in piece {
            if *byte == b'\n' {
                tell(String::from_utf8_lossy(&line).trim_end());
                line.clear();
            } else if line.len() < LINE {
                line.push(*byte);
            }
        }
        reader.consume(taken);
    }
    if !line.is_empty() {
        tell(String::from_utf8_lossy(&line).trim_end());
    }
    std::future::pending::<()>().await;
}
