//! The house rules of ARCHITECTURE.md, held by a test: which way imports go, how files look.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Rooms from left to right: a module uses only what stands in an earlier row. Those in one row
/// do not use each other.
const ROWS: &[&[&str]] = &[
    &["core"],
    &["machine"],
    &["journal"],
    &["policy"],
    &["web"],
    &["model", "tool", "store", "signal"],
    &["session"],
    &["config", "replay"],
    &["runtime"],
    &["http", "eval", "load"],
    &["cli"],
];

/// Lines of a file from which it is two rooms.
const LONGEST: usize = 400;
/// Cases of tests may fill a little more.
const LONGEST_TESTS: usize = 450;

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").as_path(), &mut found);
    assert!(found.len() > 20, "the walk found only {} files", found.len());
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("a readable file");
            found.push((path, text));
        }
    }
}

/// The room that a file of `src` belongs to: the first part of its path.
fn room(path: &Path) -> String {
    let inside = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("a file of src");
    let first = inside.components().next().expect("a file has a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn row_of(room: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&room))
}

/// The rooms that a text names: `crate::room`, also inside `use crate::{room::..., other}`.
fn rooms_named(text: &str) -> Vec<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut named = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            named.extend(top_level_names(list));
        } else {
            named.push(identifier(rest));
        }
    }
    named
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// The first names of a `{a::b, c::{d, e}}` list whose opening brace is already taken off.
fn top_level_names(list: &str) -> Vec<String> {
    let (mut names, mut depth, mut expect) = (Vec::new(), 1, true);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => expect = true,
            _ if expect && depth == 1 && (letter.is_alphabetic() || letter == '_') => {
                names.push(identifier(&list[at..]));
                expect = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

#[test]
fn imports_only_go_to_the_left() {
    let mut wrong = BTreeMap::new();
    for (path, text) in sources() {
        let own = room(&path);
        let Some(own_row) = row_of(&own) else { continue };
        for other in rooms_named(&text) {
            let Some(row) = row_of(&other) else { continue };
            if other != own && row >= own_row {
                wrong.entry(path.clone()).or_insert_with(Vec::new).push(other);
            }
        }
    }
    assert!(wrong.is_empty(), "imports against the direction of the house: {wrong:#?}");
}

#[test]
fn every_room_has_its_place() {
    for (path, _) in sources() {
        let own = room(&path);
        assert!(own == "lib" || own == "main" || row_of(&own).is_some(), "{own} stands in no row of the table");
    }
}

#[test]
fn core_and_machine_touch_nothing_outside() {
    const FORBIDDEN: &[&str] = &[
        "tokio",
        "std::fs",
        "std::net",
        "std::io",
        "std::sync::Mutex",
        "std::sync::RwLock",
        "getrandom",
        "rand::",
        "std::env",
        "std::thread",
        "::now()",
    ];
    for (path, text) in sources() {
        if !["core", "machine"].contains(&room(&path).as_str()) {
            continue;
        }
        let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for word in FORBIDDEN {
            assert!(!code.iter().any(|line| line.contains(word)), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn every_file_says_what_it_is_and_is_one_room() {
    for (path, text) in sources() {
        assert!(text.starts_with("//!"), "{} has no module doc", path.display());
        let is_tests = path.file_name().is_some_and(|name| name == "tests.rs");
        let longest = if is_tests { LONGEST_TESTS } else { LONGEST };
        assert!(text.lines().count() <= longest, "{} has {} lines", path.display(), text.lines().count());
        assert_ne!(path.file_name().and_then(|name| name.to_str()), Some("mod.rs"), "{}", path.display());
    }
}

#[test]
fn nothing_is_left_over() {
    let marks = ["todo!(", "unimplemented!(", "#[ignore", concat!("FIX", "ME"), concat!("XX", "X")];
    for (path, text) in sources() {
        for mark in marks {
            assert!(!text.contains(mark), "{} holds {mark}", path.display());
        }
    }
}

#[test]
fn observe_has_a_handful_of_call_sites() {
    // In `signal` the same word is what a histogram does with a number.
    let sites: Vec<_> = sources()
        .into_iter()
        .filter(|(path, _)| room(path) != "signal")
        .flat_map(|(path, text)| {
            let count = text.lines().filter(|line| line.contains(".observe(") && !line.contains("//")).count();
            std::iter::repeat_n(room(&path), count)
        })
        .collect();
    assert!(sites.len() <= 8, "{sites:?}");
    let outside: Vec<_> = sites.iter().filter(|site| !["session", "policy", "http"].contains(&site.as_str())).collect();
    assert!(outside.is_empty(), "operations are observed in {outside:?}");
}

#[test]
fn architecture_shows_the_same_table() {
    let rows: Vec<_> = ROWS.iter().map(|row| row.join(", ")).collect();
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).expect("the page");
    let shown: String = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&rows.join(" < ")), "ARCHITECTURE.md must show: {}", rows.join(" < "));
}
