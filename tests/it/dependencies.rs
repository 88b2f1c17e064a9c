//! Every dependency has its reason in ARCHITECTURE.md, and the tree keeps the rules of deny.toml.

use std::{collections::BTreeSet, fs, path::Path};

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("a file of the repository")
}

/// The names in the dependency sections of Cargo.toml.
fn declared() -> BTreeSet<String> {
    let (mut names, mut inside) = (BTreeSet::new(), false);
    for line in read("Cargo.toml").lines() {
        if line.starts_with('[') {
            inside = matches!(line, "[dependencies]" | "[dev-dependencies]");
        } else if let Some((name, _)) = line.split_once('=')
            && inside
            && !line.starts_with('#')
        {
            names.insert(name.trim().to_owned());
        }
    }
    assert!(names.len() > 20, "found only {names:?}");
    names
}

/// The first cells of the rows under "Dependencies", with whether each row gives a reason.
fn rows() -> Vec<(String, bool)> {
    let page = read("ARCHITECTURE.md");
    let (_, section) = page.split_once("\n## Dependencies\n").expect("a section on dependencies");
    let section = section.split("\n## ").next().expect("a text");
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let reason = cells.get(1).is_some_and(|reason| reason.len() > 10);
            cells[0].split(", ").map(|name| (name.trim_matches('`').to_owned(), reason)).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_dependency_has_a_reason_and_no_reason_lacks_its_dependency() {
    let rows = rows();
    let named: BTreeSet<_> = rows.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(named, declared(), "left: rows of ARCHITECTURE.md, right: Cargo.toml");
    assert_eq!(named.len(), rows.len(), "a dependency has two rows");
    for (name, reason) in rows {
        assert!(reason, "the row of {name} gives no reason");
    }
}

#[test]
fn nothing_banned_is_in_the_tree() {
    let banned: Vec<_> = read("deny.toml")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("{ crate = \"")?.split('"').next().map(str::to_owned))
        .collect();
    assert!(banned.len() >= 5, "found only {banned:?}");
    let lock = read("Cargo.lock");
    for name in banned {
        assert!(!lock.contains(&format!("\nname = \"{name}\"\n")), "{name} is banned by deny.toml");
    }
}

#[test]
fn everything_comes_from_crates_io() {
    for line in read("Cargo.lock").lines().filter(|line| line.starts_with("source = ")) {
        assert_eq!(line, r#"source = "registry+https://github.com/rust-lang/crates.io-index""#);
    }
}
