//! Secrets: a value that names where the secret is kept, `{ env: NAME }` or `{ file: PATH }`.
//!
//! It must never repeat what it read: no phrase of this file holds a value, only where it was
//! looked for.

use std::{collections::BTreeMap, fs::File, io::Read as _, path::Path};

use super::{
    report::Place,
    scalar::{Read, scalar},
    tree::{Node, Value},
};
use crate::core::Sensitive;

/// A file with more than this holds no key.
const MAX_FILE: u64 = 64 << 10;

/// Where secrets are looked up.
#[derive(Clone, Copy)]
pub(super) struct Vault<'a> {
    /// The variables.
    pub(super) env: &'a BTreeMap<String, String>,
    /// The folder that relative paths begin at: the one of the configuration file.
    pub(super) folder: &'a Path,
}

impl Vault<'_> {
    /// A secret that the file only points to. A variable of ours may hold it itself.
    pub(super) fn pointed(self, node: &Node) -> Read<Sensitive<String>> {
        let literal = matches!(node.value, Value::Scalar { .. });
        if literal && !matches!(node.place, Place::Env(_)) {
            return Err("must be { env: NAME } or { file: PATH }, so that the secret stands elsewhere".to_owned());
        }
        self.any(node)
    }

    /// A secret that may also stand there itself.
    pub(super) fn any(self, node: &Node) -> Read<Sensitive<String>> {
        let right = "must be text, { env: NAME } or { file: PATH }";
        let text = match &node.value {
            Value::Scalar { text, .. } => text.clone(),
            Value::List(_) => return Err(right.to_owned()),
            Value::Map(entries) => match entries.as_slice() {
                [(key, value)] if key.text == "env" => self.variable(scalar(value, right)?.0)?,
                [(key, value)] if key.text == "file" => self.file(scalar(value, right)?.0)?,
                _ => return Err(format!("{right}, with nothing beside it")),
            },
        };
        if text.trim().is_empty() { Err("is empty".to_owned()) } else { Ok(Sensitive::new(text)) }
    }

    fn variable(self, name: &str) -> Read<String> {
        let found = self.env.get(name).filter(|value| !value.is_empty());
        found.cloned().ok_or_else(|| format!("the variable {} is not set", name.escape_debug()))
    }

    fn file(self, path: &str) -> Read<String> {
        let path = self.folder.join(path);
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
        read.map_err(|error| format!("the file {} cannot be read: {error}", path.display()))?;
        if text.len() as u64 > MAX_FILE {
            return Err(format!("the file {} is too large for a secret", path.display()));
        }
        // Editors and `echo` end a file with a line break that is no part of the key.
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree;

    fn read(yaml: &str, pointed: bool) -> Read<String> {
        let env = BTreeMap::from([("KEY".to_owned(), "hunter2".to_owned()), ("NONE".to_owned(), String::new())]);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("key"), "from a file\n").expect("a file");
        std::fs::write(folder.path().join("large"), "x".repeat(70_000)).expect("a file");
        let node = tree::parse(yaml, None).expect("it is YAML").root;
        let vault = Vault { env: &env, folder: folder.path() };
        let secret = if pointed { vault.pointed(&node) } else { vault.any(&node) };
        secret.map(Sensitive::into_inner)
    }

    #[test]
    fn secrets_come_from_variables_and_files() {
        assert_eq!(read("{env: KEY}", true), Ok("hunter2".into()));
        assert_eq!(read("{file: key}", true), Ok("from a file".into()));
        assert_eq!(read("hunter2", false), Ok("hunter2".into()));
    }

    #[test]
    fn mistakes_say_where_and_never_what() {
        for (yaml, part) in [
            ("hunter2", "must be { env: NAME } or { file: PATH }"),
            ("[hunter2]", "must be text"),
            ("{env: NO_SUCH}", "the variable NO_SUCH is not set"),
            ("{env: NONE}", "the variable NONE is not set"),
            ("{file: nowhere}", "cannot be read"),
            ("{file: large}", "too large"),
            ("{env: KEY, file: key}", "nothing beside it"),
            ("{hunter2: KEY}", "nothing beside it"),
        ] {
            let wrong = read(yaml, true).expect_err(yaml);
            assert!(wrong.contains(part), "{yaml}: {wrong}");
            assert!(!wrong.contains("hunter2"), "{wrong}");
        }
    }
}
