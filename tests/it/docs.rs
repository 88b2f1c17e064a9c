//! What the documents say is there: their links lead somewhere, their commands exist.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::process::Home;

/// Pages at the root; those of `docs/` are found.
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];

struct Page {
    path: PathBuf,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = PAGES.iter().map(|name| root().join(name)).filter(|path| path.exists()).collect();
    for folder in ["docs", "examples", "dashboards", "deploy"] {
        collect(&root().join(folder), &mut paths);
    }
    assert!(!paths.is_empty());
    paths.into_iter().map(|path| Page { text: fs::read_to_string(&path).unwrap(), path }).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            paths.push(path);
        }
    }
}

impl Page {
    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap().display().to_string()
    }

    /// The text without what stands in fences, where brackets mean something else.
    fn prose(&self) -> String {
        let mut fenced = false;
        let lines = self.text.lines().filter(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Lines of the fenced blocks in the language of a shell.
    fn commands(&self) -> Vec<String> {
        let mut inside = false;
        let mut commands: Vec<String> = Vec::new();
        let mut continued = false;
        for line in self.text.lines() {
            let line = line.split(" #").next().unwrap_or(line).trim();
            if let Some(language) = line.strip_prefix("```") {
                inside = !inside && ["sh", "bash", "shell", "console"].contains(&language.trim());
            } else if inside && !line.is_empty() && !line.starts_with('#') {
                let line = line.strip_prefix("$ ").unwrap_or(line);
                match commands.last_mut() {
                    Some(last) if continued => last.push_str(line),
                    _ => commands.push(line.to_owned()),
                }
                continued = line.ends_with('\\');
                if let Some(last) = commands.last_mut() {
                    last.truncate(last.trim_end_matches('\\').len());
                }
            }
        }
        commands
    }

    /// Targets of links and pictures.
    fn links(&self) -> Vec<String> {
        let prose = self.prose();
        let inline = prose.match_indices("](").filter_map(|(at, mark)| {
            let rest = &prose[at + mark.len()..];
            rest.split_once(')').map(|(target, _)| target.to_owned())
        });
        let defined = prose.lines().filter_map(|line| {
            let (name, target) = line.strip_prefix('[')?.split_once("]: ")?;
            (!name.contains(']')).then(|| target.to_owned())
        });
        inline.chain(defined).map(|target| target.split_whitespace().next().unwrap_or_default().to_owned()).collect()
    }

    /// The names that links can lead to inside it.
    fn anchors(&self) -> BTreeSet<String> {
        self.prose().lines().filter_map(|line| line.strip_prefix('#')).map(anchor).collect()
    }
}

/// A heading as a fragment of a link, in the way that forges make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        for link in page.links() {
            if ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.path.clone() } else { page.path.parent().unwrap().join(file) };
            let found = target.exists() && !file.starts_with('/');
            let anchored = fragment.is_empty()
                || target.extension().is_none_or(|ending| ending != "md")
                || fs::read_to_string(&target)
                    .is_ok_and(|text| Page { path: target.clone(), text }.anchors().contains(fragment));
            if !(found && anchored) {
                broken.push(format!("{}: {link}", page.name()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
}

/// `make` targets, `glassbox` commands with their options, and scripts of the repository.
#[test]
fn every_command_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let targets: BTreeSet<_> = makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    let mut wrong = Vec::new();
    for page in pages() {
        for command in page.commands() {
            for part in command.split(['|', ';', '&']) {
                if let Some(problem) = problem(part.trim(), &targets) {
                    wrong.push(format!("{}: {command}: {problem}", page.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "commands that are not there: {wrong:#?}");
}

fn problem(command: &str, targets: &BTreeSet<&str>) -> Option<String> {
    // Variables before a command are not part of it.
    let words: Vec<_> = command.split_whitespace().skip_while(|word| is_assignment(word)).collect();
    match words.as_slice() {
        ["make", rest @ ..] => {
            let named = rest.iter().filter(|word| !word.starts_with('-') && !is_assignment(word));
            let missing: Vec<_> = named.filter(|name| !targets.contains(**name)).collect();
            (!missing.is_empty()).then(|| format!("the Makefile has no {missing:?}"))
        }
        ["cargo", "run", rest @ ..] => {
            let after = rest.iter().position(|word| *word == "--")?;
            if rest[..after].contains(&"--example") { None } else { unknown(&rest[after + 1..]) }
        }
        [program, rest @ ..] if *program == "glassbox" || program.ends_with("/glassbox") => unknown(rest),
        [script, ..] if script.contains('/') && script.ends_with(".sh") => {
            (!root().join(script).exists()).then(|| "there is no such script".to_owned())
        }
        _ => None,
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.starts_with('-'))
}

/// What the program's own help does not know of these words: commands, then options.
fn unknown(words: &[&str]) -> Option<String> {
    let home = Home::new();
    let mut path: Vec<&str> = Vec::new();
    let mut help = home.run(&["--help"]).out;
    for word in words {
        if word.starts_with("--") {
            let option = word.split('=').next().unwrap_or(word);
            if !help.contains(option) && option != "--" {
                return Some(format!("glassbox {} has no option {option}", path.join(" ")));
            }
        } else if !word.starts_with('-') && path.len() < 2 && has_commands(&help) {
            path.push(word);
            let asked = home.run(&[path.as_slice(), &["--help"]].concat());
            if asked.code != Some(0) {
                return Some(format!("glassbox has no command {}", path.join(" ")));
            }
            help = asked.out;
        }
    }
    None
}

fn has_commands(help: &str) -> bool {
    help.lines().any(|line| line == "Commands:")
}

#[test]
fn the_checks_see_what_is_wrong() {
    let targets = BTreeSet::from(["test"]);
    for (command, word) in [
        ("make tset", Some("tset")),
        ("make test", None),
        ("CI=1 make test", None),
        ("glassbox fly", Some("fly")),
        ("glassbox run --colour red", Some("--colour")),
        ("glassbox run --json \"a task\"", None),
        ("glassbox session show sess_1 --raw", None),
        ("glassbox session burn", Some("session burn")),
        ("cargo run -- serve --listen 127.0.0.1:0", None),
        ("cargo run --quiet -- srve", Some("srve")),
        ("tests/missing.sh", Some("script")),
        ("curl -s localhost:8080/metrics", None),
    ] {
        let found = problem(command, &targets);
        assert_eq!(found.is_some(), word.is_some(), "{command}: {found:?}");
        assert!(found.unwrap_or_default().contains(word.unwrap_or_default()), "{command}");
    }
    let text = "# A b, c!\n[x](a.md#y \"t\") ![p](b.png)\n```sh\n[no](c.md)\nmake \\\n  test # all\n```\n[d]: e.md\n";
    let page = Page { path: root().join("x.md"), text: text.into() };
    assert_eq!(page.links(), ["a.md#y", "b.png", "e.md"]);
    assert_eq!(page.commands(), ["[no](c.md)", "make test"]);
    assert_eq!(page.anchors(), BTreeSet::from(["a-b-c".to_owned()]));
}
