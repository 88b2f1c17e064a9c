//! `tools.<name>.command`: the program, its words and surroundings, and what its exit codes mean.

use std::path::{Path, PathBuf};

use super::free;
use crate::{
    config::{
        reader::Section,
        scalar::{self, Read},
        secret::Vault,
    },
    core::Sensitive,
    tool::{
        Template,
        command::{DEFAULT_OUTPUT_BYTES, Plan, check_word},
    },
};

/// Variables of ours that a program gets: where programs are, and in which language to speak.
const INHERITED: [&str; 2] = ["PATH", "LANG"];
/// Bytes that a configuration may let in.
const MOST_BYTES: u64 = 64 << 20;

pub(super) fn read(section: &Section<'_>, vault: Vault<'_>) -> Option<Plan> {
    let argv = argv(section, vault.folder);
    let env = section.map("env", variable_name, |node| variable(vault.any(node)?));
    let cwd = section.get("cwd", scalar::text).map_or_else(|| PathBuf::from("/"), |path| vault.folder.join(path));
    let stdin = section.get("stdin", free::shape);
    let json = section.get("output", scalar::word(&[("text", false), ("json", true)])).unwrap_or(false);
    let codes = section.section("exit_codes");
    let refused = codes.list("refused", scalar::whole(1..=255)).unwrap_or_default();
    let tool_error = codes.list("tool_error", scalar::whole(1..=255)).unwrap_or_default();
    if refused.iter().any(|code| tool_error.contains(code)) {
        section.wrong("exit_codes", "must give each code one meaning");
    }
    let max_bytes = section.get("max_bytes", scalar::bytes(1..=MOST_BYTES)).unwrap_or(DEFAULT_OUTPUT_BYTES);
    let inherited = INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), vault.env.get(*name)?.clone())));
    let inherited = inherited.collect();
    Some(Plan { argv: argv?, env, inherited, cwd, stdin, json, refused, tool_error, max_bytes })
}

/// The words. A word may stand there twice, so it is no list of different values.
fn argv(section: &Section<'_>, folder: &Path) -> Option<Vec<Template>> {
    section.need("argv", |node| {
        let items = free::list(node, "must be a list such as [date, +%F]")?;
        let words = items.iter().map(free::template).collect::<Read<Vec<_>>>()?;
        words.iter().enumerate().try_for_each(|(index, word)| check_word(index, word))?;
        let program = words.first().and_then(Template::fixed).filter(|program| !program.is_empty());
        let program = program.ok_or("must name a program first")?;
        // A program of one's own stands beside the configuration; others are found by PATH.
        let program =
            if program.contains('/') { folder.join(program).display().to_string() } else { program.to_owned() };
        let escaped = program.replace('{', "{{").replace('}', "}}");
        let mut words = words;
        words[0] = Template::parse(&escaped)?;
        Ok(words)
    })
}

fn variable_name(name: &str) -> Read<()> {
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '=');
    if fits { Ok(()) } else { Err("is no name of a variable".to_owned()) }
}

fn variable(value: Sensitive<String>) -> Read<Sensitive<String>> {
    if value.expose().contains('\0') { Err("must not hold the character U+0000".to_owned()) } else { Ok(value) }
}
