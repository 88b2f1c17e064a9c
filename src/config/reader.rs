//! Walks the tree key by key, and collects what is wrong instead of stopping at it.
//!
//! A section knows which keys it was asked for; when it goes out of scope, every other key in it
//! is a mistake. So the list of known keys is the code that reads them, and cannot fall behind.
//! It must never know what a key means.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    report::{Mistake, Place},
    scalar::{self, Read},
    tree::{Key, Node, Value, join},
};

/// Entries of one list, or names of one section, at the most; more is no configuration, and would
/// make the search for near names slow.
const MANY: usize = 1000;
/// Mistakes after which no near name is looked for any more; a report shows fewer.
const ENOUGH: usize = 200;

/// Collects the mistakes and the known keys of one reading.
pub(super) struct Reader {
    mistakes: RefCell<Vec<Mistake>>,
    known: RefCell<BTreeSet<String>>,
}

/// One map of the tree, or the empty place where it would stand.
pub(super) struct Section<'a> {
    reader: &'a Reader,
    node: Option<&'a Node>,
    /// Where a missing key is reported.
    place: Place,
    /// The dotted path, and the same with `*` for names that users choose.
    path: String,
    pattern: String,
    asked: RefCell<Vec<&'static str>>,
    /// Whether what stands here is no section at all, which was reported.
    broken: bool,
}

impl Reader {
    /// A reader that begins with the mistakes that were already found.
    pub(super) fn new(mistakes: Vec<Mistake>) -> Self {
        Self { mistakes: RefCell::new(mistakes), known: RefCell::default() }
    }

    /// The tree's root as a section.
    pub(super) fn root<'a>(&'a self, node: &'a Node) -> Section<'a> {
        self.open(Some(node), node.place.clone(), String::new(), String::new())
    }

    /// Notes a mistake that has no node, such as a variable's.
    pub(super) fn wrong(&self, place: Place, key: &str, wrong: impl Into<String>) {
        self.mistakes.borrow_mut().push(Mistake::new(place, key, wrong));
    }

    /// The mistakes, and every key that was asked for (`agents.*.limits.deadline`).
    pub(super) fn finish(self) -> (Vec<Mistake>, BTreeSet<String>) {
        (self.mistakes.into_inner(), self.known.into_inner())
    }

    fn open<'a>(&'a self, node: Option<&'a Node>, place: Place, path: String, pattern: String) -> Section<'a> {
        let node = node.filter(|node| !node.is_nothing());
        let broken = node.is_some_and(|node| node.entries().is_none());
        if let Some(node) = node.filter(|_| broken) {
            self.wrong(node.place.clone(), &path, format!("must be a section of keys, not {}", shape(node)));
        }
        Section {
            reader: self,
            node: node.filter(|_| !broken),
            place,
            path,
            pattern,
            asked: RefCell::default(),
            broken,
        }
    }
}

impl<'a> Section<'a> {
    /// A value, if its key stands there and it can be read.
    pub(super) fn get<T>(&self, key: &'static str, read: impl FnOnce(&Node) -> Read<T>) -> Option<T> {
        let (name, node) = self.find(key)?;
        let read = if node.is_nothing() {
            Err("has no value; write one or leave the line out".to_owned())
        } else {
            read(node)
        };
        read.map_err(|wrong| self.reader.wrong(place_of(name, node), &self.path_of(key), wrong)).ok()
    }

    /// A value whose key must stand there.
    pub(super) fn need<T>(&self, key: &'static str, read: impl FnOnce(&Node) -> Read<T>) -> Option<T> {
        if self.find(key).is_none() && !self.broken {
            self.reader.wrong(self.place.clone(), &self.path_of(key), "is missing");
        }
        self.get(key, read)
    }

    /// A section below; an empty one where the key does not stand there.
    pub(super) fn section(&self, key: &'static str) -> Section<'a> {
        let found = self.find(key);
        let place = found.map_or_else(|| self.place.clone(), |(name, _)| name.place.clone());
        self.reader.open(found.map(|(_, node)| node), place, self.path_of(key), join(&self.pattern, key))
    }

    /// The entries of a section whose keys are names that users choose, each a section.
    pub(super) fn named(&self, key: &'static str, rule: fn(&str) -> Read<()>) -> Vec<(String, Section<'a>)> {
        let entries = self.free(key, rule);
        let pattern = join(&join(&self.pattern, key), "*");
        let open = |(name, node): &'a (Key, Node)| {
            let path = join(&self.path_of(key), &name.text);
            (name.text.clone(), self.reader.open(Some(node), name.place.clone(), path, pattern.clone()))
        };
        entries.iter().map(open).collect()
    }

    /// The entries of a section whose keys are names that users choose, each a value.
    pub(super) fn map<T>(
        &self,
        key: &'static str,
        rule: fn(&str) -> Read<()>,
        read: impl Fn(&Node) -> Read<T>,
    ) -> BTreeMap<String, T> {
        let mut values = BTreeMap::new();
        for (name, node) in self.free(key, rule) {
            match read(node) {
                Ok(value) => drop(values.insert(name.text.clone(), value)),
                Err(wrong) => {
                    self.reader.wrong(place_of(name, node), &join(&self.path_of(key), &name.text), wrong);
                }
            }
        }
        values
    }

    /// A list; one value twice is a mistake.
    pub(super) fn list<T: PartialEq>(&self, key: &'static str, read: impl Fn(&Node) -> Read<T>) -> Option<Vec<T>> {
        self.items(key, read, |values, value| values.contains(value))
    }

    /// A list in which one value may stand twice, such as the words of a command.
    pub(super) fn words<T>(&self, key: &'static str, read: impl Fn(&Node) -> Read<T>) -> Option<Vec<T>> {
        self.items(key, read, |_, _| false)
    }

    fn items<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Node) -> Read<T>,
        repeats: impl Fn(&[T], &T) -> bool,
    ) -> Option<Vec<T>> {
        let (name, node) = self.find(key)?;
        let path = self.path_of(key);
        let Value::List(items) = &node.value else {
            let found = if node.is_nothing() { "nothing".to_owned() } else { scalar::show(node) };
            let wrong = format!("must be a list such as [one, two], not {found}");
            self.reader.wrong(place_of(name, node), &path, wrong);
            return None;
        };
        if items.len() > MANY {
            self.wrong(key, format!("holds {} entries; {MANY} at the most", items.len()));
            return None;
        }
        let mut values = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match read(item) {
                Ok(value) if repeats(&values, &value) => {
                    self.reader.wrong(item.place.clone(), &format!("{path}[{index}]"), "stands here a second time");
                }
                Ok(value) => values.push(value),
                Err(wrong) => self.reader.wrong(item.place.clone(), &format!("{path}[{index}]"), wrong),
            }
        }
        // A list that lost a wrong item must not be taken for a shorter one.
        (values.len() == items.len()).then_some(values)
    }

    /// Whether a key stands there.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.find(key).is_some()
    }

    /// Whether a section stands under a key, and not a single value or a list.
    pub(super) fn is_section(&self, key: &'static str) -> bool {
        self.find(key).is_some_and(|(_, node)| node.entries().is_some())
    }

    /// Whether nothing stands under a key; what cannot be read is something.
    pub(super) fn is_empty(&self, key: &'static str) -> bool {
        self.find(key).is_none_or(|(_, node)| node.is_nothing() || node.entries().is_some_and(<[_]>::is_empty))
    }

    /// The names below a key, also of entries that cannot be read.
    pub(super) fn names(&self, key: &'static str) -> Vec<String> {
        let entries = self.find(key).and_then(|(_, node)| node.entries()).unwrap_or_default();
        entries.iter().take(MANY).map(|(name, _)| name.text.clone()).collect()
    }

    /// Notes a mistake about a key's value, where it stands, or about the section without it.
    pub(super) fn wrong(&self, key: &'static str, wrong: impl Into<String>) {
        let place = self.find(key).map_or_else(|| self.place.clone(), |(name, node)| place_of(name, node));
        self.reader.wrong(place, &self.path_of(key), wrong);
    }

    /// Notes a mistake about a value further below, which was read already: what only the whole
    /// can say of it.
    pub(super) fn wrong_at(&self, path: &[&str], wrong: impl Into<String>) {
        let (mut place, mut node, mut full) = (self.place.clone(), self.node, self.path.clone());
        for key in path {
            let found =
                node.and_then(Node::entries).and_then(|entries| entries.iter().find(|(name, _)| name.text == *key));
            if let Some((name, below)) = found {
                place = place_of(name, below);
            }
            (node, full) = (found.map(|(_, below)| below), join(&full, key));
        }
        self.reader.wrong(place, &full, wrong);
    }

    /// Notes a mistake about the section as a whole.
    pub(super) fn wrong_here(&self, wrong: impl Into<String>) {
        self.reader.wrong(self.place.clone(), &self.path, wrong);
    }

    fn free(&self, key: &'static str, rule: fn(&str) -> Read<()>) -> &'a [(Key, Node)] {
        let Some((_, node)) = self.find(key) else { return &[] };
        if !node.is_nothing() && node.entries().is_none() {
            self.wrong(key, format!("must be a section of names, not {}", shape(node)));
        }
        let entries = node.entries().unwrap_or_default();
        if entries.len() > MANY {
            self.wrong(key, format!("holds {} names; {MANY} at the most", entries.len()));
            return &[];
        }
        for (name, _) in entries {
            if let Err(wrong) = rule(&name.text) {
                self.reader.wrong(name.place.clone(), &join(&self.path_of(key), &name.text), wrong);
            }
        }
        entries
    }

    /// What a key that is not known here may have been meant as.
    fn hint(&self, key: &str, asked: &[&str]) -> String {
        if self.reader.mistakes.borrow().len() > ENOUGH {
            return String::new();
        }
        let near = scalar::did_you_mean(key, asked);
        if !near.is_empty() {
            return near;
        }
        // The right key one level too high is a common slip.
        let known = self.reader.known.borrow();
        let below = asked.iter().find(|section| known.contains(&join(&join(&self.pattern, section), key)));
        below.map_or_else(
            || format!("; the keys here are {}", asked.join(", ")),
            |section| format!("; it belongs under {section}"),
        )
    }

    fn find(&self, key: &'static str) -> Option<(&'a Key, &'a Node)> {
        if !self.asked.borrow().contains(&key) {
            self.asked.borrow_mut().push(key);
            self.reader.known.borrow_mut().insert(join(&self.pattern, key));
        }
        let (name, node) = self.node?.entries()?.iter().find(|(name, _)| name.text == key)?;
        Some((name, node))
    }

    fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let asked = self.asked.borrow();
        for (name, _) in self.node.and_then(Node::entries).unwrap_or_default() {
            if asked.contains(&name.text.as_str()) {
                continue;
            }
            let hint = self.hint(&name.text, &asked);
            self.reader.wrong(name.place.clone(), &self.path_of(&name.text), format!("is not a known key{hint}"));
        }
    }
}

/// Where a value stands; one that was left empty stands nowhere, so its key's place is told.
fn place_of(name: &Key, node: &Node) -> Place {
    if node.is_nothing() { name.place.clone() } else { node.place.clone() }
}

/// What stands where a section should. Not its text: a secret may have been put a level too high.
fn shape(node: &Node) -> &'static str {
    match node.value {
        Value::List(_) => "a list",
        Value::Scalar { .. } | Value::Map(_) => "a single value",
    }
}
