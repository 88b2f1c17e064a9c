//! Names that models may call, of names that a server chose.
//!
//! The same names come out for the same names in, in whatever order.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::core::id::hex;

/// Characters of a name at the most.
const LONGEST: usize = 64;
/// Hex digits that tell two names apart which would be the same.
const DIGITS: usize = 8;

/// The name of each of these tools, prefixed and safe. A name that is safe as it is stays so; of
/// those that had to be changed, each that would meet another carries a piece of its hash.
pub(super) fn names(prefix: &str, tools: &BTreeSet<String>) -> BTreeMap<String, String> {
    let plain: BTreeMap<&String, String> = tools.iter().map(|tool| (tool, safe(&format!("{prefix}{tool}")))).collect();
    let mut claims: BTreeMap<&str, usize> = BTreeMap::new();
    for name in plain.values() {
        *claims.entry(name).or_default() += 1;
    }
    let name = |(tool, name): (&&String, &String)| {
        let as_it_is = *name == format!("{prefix}{tool}");
        let clear = name.len() <= LONGEST && (as_it_is || claims[name.as_str()] == 1);
        ((*tool).clone(), if clear { name.clone() } else { told_apart(name, tool) })
    };
    plain.iter().map(name).collect()
}

fn safe(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

fn told_apart(name: &str, tool: &str) -> String {
    let hash = hex(&Sha256::digest(tool.as_bytes()));
    let room = name.len().min(LONGEST - DIGITS - 1);
    format!("{}_{}", &name[..room], &hash[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(prefix: &str, tools: &[&str]) -> Vec<String> {
        let names = names(prefix, &tools.iter().map(|tool| (*tool).to_owned()).collect());
        tools.iter().map(|tool| names[*tool].clone()).collect()
    }

    #[test]
    fn safe_names_are_only_prefixed() {
        assert_eq!(named("fs_", &["read_file", "a-b"]), ["fs_read_file", "fs_a-b"]);
        assert_eq!(named("fs_", &["read.file", "список"]), ["fs_read_file", "fs_______"]);
    }

    #[test]
    fn names_that_would_meet_are_told_apart_whatever_their_order() {
        // SHA-256 of "a.b" and of "a b", by sha256sum.
        let expected = ["fs_a_b", "fs_a_b_2e7336dc", "fs_a_b_c8687a08"];
        assert_eq!(named("fs_", &["a_b", "a.b", "a b"]), expected);
        assert_eq!(named("fs_", &["a b", "a.b", "a_b"]), [expected[2], expected[1], expected[0]]);
    }

    #[test]
    fn long_names_are_cut_and_told_apart() {
        let (one, other) = ("x".repeat(70) + "1", "x".repeat(70) + "2");
        let names = named("fs_", &[&one, &other]);
        assert!(names.iter().all(|name| name.len() == 64 && name.starts_with("fs_xxx")), "{names:?}");
        assert_ne!(names[0], names[1]);
    }
}
