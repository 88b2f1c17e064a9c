//! The environment: the one place that reads it, and `GLASSBOX__` variables as keys of the tree.
//!
//! `GLASSBOX__SERVER__LISTEN` is the key `server.listen`: two underscores go one level down. A
//! value stands for itself; only one that begins with a bracket, a brace or a quote, and is whole
//! YAML, is read as such (`[txn_sum, card_block]`). An empty variable is one that is not set.

use std::collections::BTreeMap;

use super::{
    report::{Mistake, Place},
    tree::{self, Key, Node, Style, Value, join},
};

const PREFIX: &str = "GLASSBOX__";

/// Every variable of this process. Parts that are not Unicode are replaced, not refused: most
/// variables are somebody else's.
pub fn process() -> BTreeMap<String, String> {
    std::env::vars_os().map(|(name, value)| (lossy(&name), lossy(&value))).collect()
}

/// Puts the `GLASSBOX__` variables into the tree, over what stands there.
pub(super) fn override_keys(root: &mut Node, env: &BTreeMap<String, String>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (name, value) in env.iter().filter(|(_, value)| !value.is_empty()) {
        let Some(path) = name.strip_prefix(PREFIX) else { continue };
        let segments: Vec<&str> = path.split("__").collect();
        let place = Place::Env(name.clone());
        if segments.iter().any(|segment| segment.is_empty()) {
            mistakes.push(Mistake::new(place, "", "names no key; write it like GLASSBOX__SERVER__LISTEN"));
        } else if let Err(mistake) = put(root, &segments, "", parse(name, value)) {
            mistakes.push(mistake);
        }
    }
    mistakes
}

fn lossy(text: &std::ffi::OsStr) -> String {
    text.to_string_lossy().into_owned()
}

fn parse(name: &str, value: &str) -> Node {
    let structured = value.trim_start().starts_with(['[', '{', '"', '\'']);
    let whole = structured.then(|| tree::parse(value, Some(name)).ok()).flatten();
    whole.filter(|tree| tree.mistakes.is_empty()).map_or_else(
        || Node {
            place: Place::Env(name.to_owned()),
            value: Value::Scalar { text: value.to_owned(), style: Style::Loose },
        },
        |tree| tree.root,
    )
}

/// Walks down, making the sections that are missing, and sets the last segment.
fn put(node: &mut Node, segments: &[&str], path: &str, value: Node) -> Result<(), Mistake> {
    let Some((first, rest)) = segments.split_first() else {
        *node = value;
        return Ok(());
    };
    if node.is_nothing() {
        node.value = Value::Map(Vec::new());
    }
    let Value::Map(entries) = &mut node.value else {
        let wrong = format!("holds a value, so it has no key {} below it", first.to_lowercase());
        return Err(Mistake::new(value.place, path, wrong));
    };
    let found = entries.iter().position(|(key, _)| same(&key.text, first));
    let index = found.unwrap_or_else(|| {
        let key = Key { text: first.to_lowercase(), place: value.place.clone() };
        entries.push((key, Node::empty(value.place.clone())));
        entries.len() - 1
    });
    let (key, below) = &mut entries[index];
    let path = join(path, &key.text);
    put(below, rest, &path, value)
}

/// Variables have no small letters and no dashes; names that users chose may have both.
fn same(key: &str, segment: &str) -> bool {
    key.replace(['-', '.'], "_").eq_ignore_ascii_case(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(yaml: &str, variables: &[(&str, &str)]) -> (Node, Vec<Mistake>) {
        let mut root = tree::parse(yaml, None).expect("it is YAML").root;
        let env = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mistakes = override_keys(&mut root, &env);
        (root, mistakes)
    }

    fn at<'a>(node: &'a Node, path: &[&str]) -> &'a Value {
        path.iter().fold(&node.value, |value, key| match value {
            Value::Map(entries) => &entries.iter().find(|(name, _)| name.text == *key).expect("the key").1.value,
            other => panic!("{other:?} has no {key}"),
        })
    }

    #[test]
    fn variables_replace_and_add_keys() {
        let (root, mistakes) = after(
            "server:\nmodels:\n  gpt-4o: {timeout: 1s}\n",
            &[
                ("GLASSBOX__SERVER__LISTEN", "[::1]:80"),
                ("GLASSBOX__MODELS__GPT_4O__TIMEOUT", "9s"),
                ("GLASSBOX__STORE__KIND", ""),
                ("GLASSBOX_CONFIG", "x"),
            ],
        );
        assert_eq!(mistakes, []);
        let loose = |text: &str| Value::Scalar { text: text.into(), style: Style::Loose };
        assert_eq!(at(&root, &["server", "listen"]), &loose("[::1]:80"));
        assert_eq!(at(&root, &["models", "gpt-4o", "timeout"]), &loose("9s"));
        assert_eq!(root.entries().map(<[_]>::len), Some(2));
    }

    #[test]
    fn a_whole_list_is_read_as_one() {
        let (root, _) = after("a: 1\n", &[("GLASSBOX__B", "[x, 'y']")]);
        assert!(matches!(at(&root, &["b"]), Value::List(items) if items.len() == 2));
    }

    #[test]
    fn a_path_through_a_value_and_an_empty_segment_are_mistakes() {
        let (_, mistakes) = after("a: 1\n", &[("GLASSBOX__A__B", "1"), ("GLASSBOX__", "1"), ("GLASSBOX__A____B", "1")]);
        assert_eq!(mistakes.len(), 3);
        assert_eq!(mistakes[1].wrong, "holds a value, so it has no key b below it");
        assert_eq!(mistakes[1].key, "a");
    }
}
