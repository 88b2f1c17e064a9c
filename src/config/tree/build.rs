//! Builds the tree from the parser's events, because a tree of plain values has lost where things
//! stood and whether a word was quoted.
//!
//! What a file can cost is bounded here: depth, weight, and the copies that aliases make.

use std::collections::{HashMap, HashSet};

use serde_saphyr::granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span};

use super::{Key, NODE_WEIGHT, Node, Style, Tree, Value, join};
use crate::config::report::{Mistake, Place};

/// Levels of nesting; the deepest key of a configuration stands at eight.
const MAX_DEPTH: usize = 32;
const TOO_DEEP: &str = "nested too deep; a configuration has at most 32 levels";
/// Weight of all nodes together, aliases copied: [`NODE_WEIGHT`] and the text of each.
const MAX_WEIGHT: usize = 4 << 20;

struct Builder<'a> {
    variable: Option<&'a str>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    weight: usize,
    documents: usize,
    root: Option<Node>,
    mistakes: Vec<Mistake>,
}

/// A list or map whose end is still to come.
struct Open {
    place: Place,
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, seen: HashSet<String>, key: Option<Key> },
}

/// Reads one document. `variable` names the variable that the text is from, if it is not a file.
/// Errors: the one mistake after which nothing more can be read.
pub(in crate::config) fn parse(text: &str, variable: Option<&str>) -> Result<Tree, Mistake> {
    let mut builder = Builder {
        variable,
        open: Vec::new(),
        anchors: HashMap::new(),
        weight: 0,
        documents: 0,
        root: None,
        mistakes: Vec::new(),
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| builder.syntax(&error))?;
        builder.take(event, &span)?;
    }
    let place = builder.variable.map_or(Place::File, |name| Place::Env(name.to_owned()));
    let root = builder.root.unwrap_or_else(|| Node::empty(place));
    Ok(Tree { root, mistakes: builder.mistakes })
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Mistake> {
        let place = self.place(span);
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Mistake::new(place, "", "a second document begins here; write one document"));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), &place)?;
                let style = self.style(style);
                let node = Node { place, value: Value::Scalar { text: text.into_owned(), style } };
                self.weigh(&node, NODE_WEIGHT, 0)?;
                self.close(node, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.is_some(), &place)?;
                self.begin(Open { place, anchor, kind: Kind::List(Vec::new()) })?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.is_some(), &place)?;
                let kind = Kind::Map { entries: Vec::new(), seen: HashSet::new(), key: None };
                self.begin(Open { place, anchor, kind })?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::Alias(id) => self.alias(id, place)?,
            _ => {}
        }
        Ok(())
    }

    fn place(&self, span: &Span) -> Place {
        match self.variable {
            Some(name) => Place::Env(name.to_owned()),
            None => Place::At { line: span.start.line(), column: span.start.col() + 1 },
        }
    }

    fn style(&self, style: ScalarStyle) -> Style {
        match style {
            ScalarStyle::Plain if self.variable.is_some() => Style::Loose,
            ScalarStyle::Plain => Style::Plain,
            _ => Style::Quoted,
        }
    }

    fn syntax(&self, error: &ScanError) -> Mistake {
        let mark = error.marker();
        let place = match self.variable {
            Some(name) => Place::Env(name.to_owned()),
            None => Place::At { line: mark.line().max(1), column: mark.col() + 1 },
        };
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
            return Mistake::new(place, "", TOO_DEEP);
        }
        Mistake::new(place, self.path(), format!("this is not YAML: {}", error.info()))
    }

    fn refuse_tag(&self, tagged: bool, place: &Place) -> Result<(), Mistake> {
        if tagged {
            return Err(Mistake::new(place.clone(), self.path(), "tags (!...) are not read here; leave the tag out"));
        }
        Ok(())
    }

    fn weigh(&mut self, node: &Node, weight: usize, depth: usize) -> Result<(), Mistake> {
        let text = if let Value::Scalar { text, .. } = &node.value { text.len() } else { 0 };
        self.weight = self.weight.saturating_add(weight).saturating_add(text);
        let wrong = if self.weight > MAX_WEIGHT {
            "the file grows too large here; a configuration, its aliases copied, fits into 4 MiB"
        } else if self.open.len() + depth > MAX_DEPTH {
            TOO_DEEP
        } else {
            return Ok(());
        };
        Err(Mistake::new(node.place.clone(), "", wrong))
    }

    fn begin(&mut self, open: Open) -> Result<(), Mistake> {
        self.weigh(&Node::empty(open.place.clone()), NODE_WEIGHT, 1)?;
        if let Some(Open { kind: Kind::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(Mistake::new(open.place, self.path(), "a key must be a word, not a list or a map"));
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Mistake> {
        let Some(Open { place, anchor, kind }) = self.open.pop() else { return Ok(()) };
        let value = match kind {
            Kind::List(items) => Value::List(items),
            Kind::Map { entries, .. } => Value::Map(entries),
        };
        self.close(Node { place, value }, anchor)
    }

    fn alias(&mut self, id: usize, place: Place) -> Result<(), Mistake> {
        let Some(node) = self.anchors.get(&id) else {
            return Err(Mistake::new(place, self.path(), "this alias stands inside the value that it repeats"));
        };
        let (weight, depth) = node.measure();
        // The mistake is told where the alias stands: that is what its reader is looking at.
        let node = Node { place, value: Value::List(Vec::new()) };
        self.weigh(&node, weight, depth)?;
        let copy = self.anchors.get(&id).map_or(node.value, |node| node.value.clone());
        self.attach(Node { place: node.place, value: copy })
    }

    fn close(&mut self, node: Node, anchor: usize) -> Result<(), Mistake> {
        if anchor != 0 {
            let (weight, depth) = node.measure();
            self.weigh(&Node::empty(node.place.clone()), weight, depth)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node)
    }

    fn attach(&mut self, node: Node) -> Result<(), Mistake> {
        let path = self.path();
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(Kind::List(items)) => items.push(node),
            Some(Kind::Map { entries, seen, key }) => match key.take() {
                None => *key = Some(key_of(node, &path)?),
                Some(key) if seen.insert(key.text.clone()) => entries.push((key, node)),
                Some(key) => self.mistakes.push(Mistake::new(key.place, path, "stands here a second time")),
            },
        }
        Ok(())
    }

    /// The dotted path of what is being read.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match &open.kind {
                Kind::List(items) => path.push_str(&format!("[{}]", items.len())),
                Kind::Map { key: Some(key), .. } => path = join(&path, &key.text),
                Kind::Map { key: None, .. } => {}
            }
        }
        path
    }
}

fn key_of(node: Node, path: &str) -> Result<Key, Mistake> {
    match node.value {
        Value::Scalar { text, style: Style::Plain } if text == "<<" => {
            Err(Mistake::new(node.place, path, "merge keys (<<) are not read here; write the keys out"))
        }
        Value::Scalar { text, .. } => Ok(Key { text, place: node.place }),
        Value::List(_) | Value::Map(_) => {
            Err(Mistake::new(node.place, path, "a key must be a word, not a list or a map"))
        }
    }
}
