//! A tool that is a program of the machine, declared and not programmed.
//!
//! The program and the number of its arguments are fixed when it is declared, and no shell is
//! between. An argument of the model fills a whole word or a part of one, and cannot become an
//! option. It must never know retries: an attempt is one process, killed with all that it began.

mod process;

use std::{collections::BTreeMap, path::PathBuf};

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::template::{self, Shape, Template, refused};
use crate::core::{
    Fault, FaultKind, Sensitive, Tool, ToolSpec,
    port::{ToolContext, ToolReply},
};

use self::process::{Exit, Finished};

/// Bytes of the output at the most, unless configured otherwise.
pub const DEFAULT_OUTPUT_BYTES: u64 = 1 << 20;
/// Bytes of one word; Linux takes no longer ones.
const MAX_WORD: usize = 128 << 10;

/// A program with holes in its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The program and its arguments; a word whose argument is missing is left out.
    pub argv: Vec<Template>,
    /// Variables of the program, besides the inherited ones.
    pub env: BTreeMap<String, Sensitive<String>>,
    /// Variables that come from our own environment.
    pub inherited: BTreeMap<String, String>,
    /// The folder that it runs in.
    pub cwd: PathBuf,
    /// JSON for its standard input; empty, if there is none.
    pub stdin: Option<Shape>,
    /// Whether its output is JSON, and not text.
    pub json: bool,
    /// Exit codes that mean that it refused what was asked.
    pub refused: Vec<u8>,
    /// Exit codes that mean that it failed by its own word.
    pub tool_error: Vec<u8>,
    /// Bytes of its output at the most.
    pub max_bytes: u64,
}

/// The tool.
#[derive(Debug)]
pub struct CommandTool {
    spec: ToolSpec,
    plan: Plan,
}

impl Plan {
    /// The arguments that it takes.
    pub fn names(&self) -> Vec<&str> {
        let stdin = self.stdin.iter().flat_map(Shape::names);
        self.argv.iter().flat_map(Template::names).chain(stdin).collect()
    }
}

/// Whether a word of the program may have these holes: what it begins with decides whether it is
/// an option, and that must not be the model's choice.
///
/// # Errors
/// One phrase on what would be right.
pub fn check_word(index: usize, word: &Template) -> Result<(), String> {
    if word.fixed().is_some() {
        return Ok(());
    }
    if index == 0 {
        return Err("must name the program itself, with no argument in it".to_owned());
    }
    if word.beginning().starts_with('-') && !word.beginning().contains('=') {
        return Err("must have its argument after a =, as in --key={value}, or be a word of its own".to_owned());
    }
    Ok(())
}

impl CommandTool {
    /// A tool that runs this program.
    pub const fn new(spec: ToolSpec, plan: Plan) -> Self {
        Self { spec, plan }
    }

    fn words(&self, values: &Map<String, Value>) -> Result<Vec<String>, Fault> {
        let (mut words, mut options_over) = (Vec::new(), false);
        for template in &self.plan.argv {
            let Some(word) = template.fill_plain(values)? else { continue };
            check_filled(template, &word, options_over)?;
            options_over |= template.fixed() == Some("--");
            words.push(word);
        }
        Ok(words)
    }

    fn meaning(&self, finished: Finished) -> Result<ToolReply, Fault> {
        let Finished { exit, output, errors } = finished;
        let said = if errors.is_empty() { String::new() } else { format!(": {errors}") };
        match exit {
            Exit::Code(0) => self.result(output),
            Exit::Code(code) => {
                let listed = |codes: &[u8]| codes.iter().any(|known| i32::from(*known) == code);
                let (kind, what) = if listed(&self.plan.refused) {
                    (FaultKind::Refused, "refused")
                } else if listed(&self.plan.tool_error) {
                    (FaultKind::ToolError, "failed")
                } else {
                    (FaultKind::Server, "failed")
                };
                Err(Fault::new(kind, format!("the program {what} with exit code {code}{said}")))
            }
            // Nobody knows how far it came.
            Exit::Killed => Err(Fault::new(FaultKind::Transport, format!("the program was killed by a signal{said}"))),
        }
    }

    fn result(&self, output: Vec<u8>) -> Result<ToolReply, Fault> {
        let malformed = |what: &str| Fault::new(FaultKind::Malformed, format!("the program wrote what is no {what}"));
        if self.plan.json {
            return serde_json::from_slice(&output).map(ToolReply::Json).map_err(|_| malformed("JSON"));
        }
        let text = String::from_utf8(output).map_err(|_| malformed("UTF-8 text"))?;
        Ok(ToolReply::Text(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

#[async_trait]
impl Tool for CommandTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> &'static str {
        "command"
    }

    async fn probe(&self) -> Result<(), Fault> {
        process::find(&self.plan)
    }

    async fn call(&self, cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
        let values = template::values(cx, arguments);
        let words = self.words(&values)?;
        let stdin = self.plan.stdin.as_ref().map(|shape| shape.fill(&values)).transpose()?;
        let stdin = stdin.map(|json| json.to_string().into_bytes()).unwrap_or_default();
        self.meaning(process::run(&self.plan, words, stdin).await?)
    }
}

fn check_filled(template: &Template, word: &str, options_over: bool) -> Result<(), Fault> {
    if template.fixed().is_some() {
        return Ok(());
    }
    let names = || template.names().collect::<Vec<_>>().join(", ");
    if word.contains('\0') {
        return Err(refused(format!("the argument {} must not hold the character U+0000", names())));
    }
    if word.len() >= MAX_WORD {
        return Err(refused(format!("the argument {} is longer than {MAX_WORD} bytes", names())));
    }
    if template.beginning().is_empty() && word.starts_with('-') && !options_over {
        return Err(refused(format!("the argument {} must not begin with a dash", names())));
    }
    Ok(())
}
