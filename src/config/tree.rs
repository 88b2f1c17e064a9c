//! YAML as a tree whose every key and value knows its line and column.
//!
//! It must never know which keys exist, nor how a number or a duration is written.

mod build;

use super::report::{Mistake, Place};

pub(super) use self::build::parse;

/// What a node weighs beside its text.
const NODE_WEIGHT: usize = 64;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// The three shapes of YAML. A map keeps the order of the file and has no key twice.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Scalar { text: String, style: Style },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// How a scalar was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// A bare word: YAML may take it for a number, a boolean or nothing.
    Plain,
    /// Quoted, or a block of text.
    Quoted,
    /// From the environment, where everything is text and means what the key asks for.
    Loose,
}

/// A key of a map and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) place: Place,
}

/// A tree, with the mistakes that did not keep it from being built.
pub(super) struct Tree {
    pub(super) root: Node,
    pub(super) mistakes: Vec<Mistake>,
}

impl Node {
    /// A map with nothing in it.
    pub(super) fn empty(place: Place) -> Self {
        Self { place, value: Value::Map(Vec::new()) }
    }

    /// Whether nothing was written: `key:`, `~` or `null`.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, style: Style::Plain } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// The entries, where it is a map.
    pub(super) fn entries(&self) -> Option<&[(Key, Node)]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            Value::Scalar { .. } | Value::List(_) => None,
        }
    }

    /// Weight and depth; both are bounded by what was let into the tree before.
    fn measure(&self) -> (usize, usize) {
        let deepest = |children: &mut dyn Iterator<Item = (usize, usize)>| {
            children.fold((NODE_WEIGHT, 0), |(weight, depth), (w, d)| (weight + w, depth.max(d + 1)))
        };
        match &self.value {
            Value::Scalar { text, .. } => (NODE_WEIGHT + text.len(), 0),
            Value::List(items) => deepest(&mut items.iter().map(Self::measure)),
            Value::Map(entries) => deepest(&mut entries.iter().map(|(key, node)| {
                let (weight, depth) = node.measure();
                (weight + key.text.len(), depth)
            })),
        }
    }
}

/// A path with one key more. Keys that would break the line of a report are escaped and cut.
pub(super) fn join(path: &str, key: &str) -> String {
    let mut shown: String = key.chars().take(64).flat_map(char::escape_debug).collect();
    if key.chars().nth(64).is_some() {
        shown.push('…');
    }
    if path.is_empty() { shown } else { format!("{path}.{shown}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (Place, String) {
        match parse(text, None) {
            Ok(tree) => panic!("read as {:?}", tree.root),
            Err(mistake) => (mistake.place, format!("{}|{}", mistake.key, mistake.wrong)),
        }
    }

    #[test]
    fn keys_and_values_know_where_they_stand() {
        let tree = parse("a:\n  б: 'x'\n  c: [1, two]\n", None).expect("it is YAML");
        let entries = tree.root.entries().expect("a map");
        let inner = entries[0].1.entries().expect("a map");
        assert_eq!(inner[0].0, Key { text: "б".into(), place: Place::At { line: 2, column: 3 } });
        assert_eq!(inner[0].1.place, Place::At { line: 2, column: 6 });
        assert_eq!(inner[0].1.value, Value::Scalar { text: "x".into(), style: Style::Quoted });
        let Value::List(items) = &inner[1].1.value else { panic!("a list") };
        assert_eq!(items[1].place, Place::At { line: 3, column: 10 });
    }

    #[test]
    fn a_key_twice_is_a_mistake_with_its_path() {
        let tree = parse("a:\n  b: 1\n  b: 2\nc: 3\n", None).expect("it is YAML");
        assert_eq!(tree.mistakes.len(), 1);
        assert_eq!(tree.mistakes[0].place, Place::At { line: 3, column: 3 });
        assert_eq!(tree.mistakes[0].wrong, "stands here a second time");
    }

    #[test]
    fn aliases_are_copied_and_told_where_they_are_used() {
        let tree = parse("a: &x {k: v}\nb: *x\n", None).expect("it is YAML");
        let entries = tree.root.entries().expect("a map");
        assert_eq!(entries[1].1.place, Place::At { line: 2, column: 4 });
        assert_eq!(entries[1].1.entries().expect("a map")[0].0.text, "k");
    }

    #[test]
    fn what_is_not_read_is_refused_in_its_place() {
        for (text, line, column, part) in [
            ("a: [1\nb: 2\n", 2, 2, "this is not YAML"),
            ("a: 1\n---\nb: 2\n", 2, 1, "second document"),
            ("a: !!str 1\n", 1, 10, "tags"),
            ("a: &x {k: v}\nb:\n  <<: *x\n", 3, 3, "merge keys"),
            ("? [a, b]\n: 1\n", 1, 3, "a key must be a word"),
            ("a: &x [*x]\n", 1, 8, "inside the value"),
        ] {
            let (place, wrong) = wrong(text);
            assert!(wrong.contains(part), "{text:?}: {wrong}");
            assert_eq!(place, Place::At { line, column }, "{text:?}: {wrong}");
        }
    }

    #[test]
    fn depth_and_alias_bombs_are_refused() {
        let deep = format!("a: {}1{}", "[".repeat(40), "]".repeat(40));
        assert!(wrong(&deep).1.contains("nested too deep"));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let before = level - 1;
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{before}"); 10].join(", "));
        }
        assert!(wrong(&bomb).1.contains("too large"));
        let mut ladder = "a0: &a0 [x]\n".to_owned();
        for level in 1..60 {
            ladder += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
        }
        assert!(wrong(&ladder).1.contains("nested too deep"));
    }
}
