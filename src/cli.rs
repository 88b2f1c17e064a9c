//! The command line: thin calls into the library, and what a terminal shows.
//!
//! It must never hold a rule: what a session is and may do stands to its left.

mod auth;
mod check;
mod check_tools;
mod confirm;
mod handover;
mod live_text;
mod live_view;
mod load;
mod output;
mod remote;
mod run;
mod serve;
mod session;
mod session_cancel;
mod session_data;
mod session_remote;
mod steps;
mod stops;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

use self::output::say;
use crate::{
    config::{Config, Sources, process_environment},
    runtime::Refused,
};

/// Exit codes, for scripts.
pub mod exit {
    /// The session gave its answer, or the command did what was asked.
    pub const OK: u8 = 0;
    /// The command failed.
    pub const FAILURE: u8 = 1;
    /// The session ended without its answer.
    pub const NOT_DONE: u8 = 3;
    /// The session is suspended and can go on.
    pub const SUSPENDED: u8 = 4;
    /// A load run is beyond one of its conditions.
    pub const BEYOND: u8 = 5;
    /// The command line or the configuration is wrong.
    pub const USAGE: u8 = 64;
}

/// An LLM agent runtime that people can see through.
#[derive(Parser, Debug)]
#[command(name = "glassbox", version, about, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// The configuration file; without one the built-in bank assistant is used.
    #[arg(long, global = true, value_name = "FILE", env = "GLASSBOX_CONFIG")]
    config: Option<PathBuf>,
    /// Where journal, demo bank and hash key are kept.
    #[arg(long, global = true, value_name = "DIR", env = "GLASSBOX_DATA_DIR", default_value = ".glassbox")]
    data_dir: PathBuf,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run one task and show its steps.
    Run(run::Options),
    /// Serve the HTTP API.
    Serve(serve::Options),
    /// Look at the configuration, or try its models with the tool definitions.
    Check(check::Options),
    /// Make keys for callers of the HTTP API.
    #[command(subcommand)]
    Auth(auth::Command),
    /// Put a service under load.
    Load(Box<load::Options>),
    /// Look at sessions, here or of a server that runs.
    Session(session::Options),
    /// Look at what is handed over to people, and work on it.
    #[command(subcommand)]
    Handover(handover::Command),
}

/// Parses the command line, runs the command, prints what went wrong.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let ended = run_command(cli);
    let unwritten = tell_unwritten();
    match ended {
        // Whoever asked for output did not get it.
        Ok(_) if unwritten => ExitCode::from(exit::FAILURE),
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let usage = error.is::<crate::config::Report>() || error.downcast_ref().is_some_and(is_usage);
            complain(&error);
            ExitCode::from(if usage { exit::USAGE } else { exit::FAILURE })
        }
    }
}

/// Whether what was asked for cannot be, whoever asks and whenever.
const fn is_usage(refused: &Refused) -> bool {
    match refused {
        Refused::EmptyTask | Refused::UnknownAgent { .. } | Refused::UnknownTaskType { .. } => true,
        Refused::Draining
        | Refused::KeyReused
        | Refused::NoConversation(_)
        | Refused::ConversationBusy { .. }
        | Refused::Overloaded { .. }
        | Refused::TooManySessions { .. }
        | Refused::TooManyAtOnce { .. }
        | Refused::Behind
        | Refused::NotYetDurable { .. }
        | Refused::Journal(_) => false,
    }
}

fn usage(error: &clap::Error) -> ExitCode {
    // Help and version are no mistakes; a closed pipe is nobody's.
    output::note(error.print());
    ExitCode::from(if error.use_stderr() {
        exit::USAGE
    } else if tell_unwritten() {
        exit::FAILURE
    } else {
        exit::OK
    })
}

/// Says that output is missing, if it is.
fn tell_unwritten() -> bool {
    let cause = output::unwritten();
    if let Some(cause) = cause {
        output::complain(format!("glassbox: the output is not whole, it cannot be written: {cause}"));
    }
    cause.is_some()
}

fn complain(error: &anyhow::Error) {
    output::complain(match error.downcast_ref::<crate::config::Report>() {
        Some(report) => report.to_string(),
        None => format!("glassbox: {error:#}"),
    });
}

fn run_command(cli: Cli) -> anyhow::Result<u8> {
    match cli.command {
        Command::Run(options) => block_on(run::run(cli.global, options)),
        Command::Serve(options) => block_on(serve::run(cli.global, options)),
        Command::Check(options) => check::run(cli.global, options),
        Command::Auth(command) => auth::run(&cli.global, &command),
        Command::Load(options) => block_on(load::run(cli.global, *options)),
        Command::Session(options) => session::run(cli.global, options),
        Command::Handover(command) => handover::run(cli.global, command),
    }
}

fn block_on<F: Future<Output = anyhow::Result<u8>>>(work: F) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the async runtime cannot be started")?;
    runtime.block_on(work)
}

impl Global {
    /// The configuration that takes effect.
    fn load(&self) -> anyhow::Result<Config> {
        let sources = Sources { file: self.config.clone(), env: process_environment() };
        Ok(Config::load(&sources)?)
    }
}
