//! Definitions that change behind our back: which was accepted, which is new, which is blocked.
//!
//! Pure: facts of earlier processes and what a server offers go in, facts and a verdict come out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{OnDrift, listing::Offer};
use crate::core::{BlobHash, Entry, Fact, ToolDefinition, fact::DefinitionChange};

/// The words of a schema that are for people and models only.
const TEXTS: [&str; 4] = ["title", "description", "$comment", "examples"];

/// What is known of one server's definitions.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    tools: BTreeMap<String, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    /// What was accepted: seen first, or allowed since.
    accepted: BlobHash,
    /// Its text, where it was ever seen.
    definition: Option<ToolDefinition>,
    /// What was seen last.
    last: BlobHash,
}

/// What is held of one offer.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    /// What is to be recorded.
    pub(super) change: Option<DefinitionChange>,
    /// Whether calls are refused.
    pub(super) blocked: bool,
}

impl Book {
    /// What earlier processes recorded of this server.
    pub(super) fn restore(server: &str, entries: &[Entry]) -> Self {
        let mut book = Self::default();
        for entry in entries {
            if let Fact::ToolDefinitionChanged(change) = &entry.fact
                && change.server == server
            {
                book.note(change);
            }
        }
        book
    }

    /// The definitions that were accepted, for as long as the server has not been heard.
    pub(super) fn accepted(&self) -> Vec<ToolDefinition> {
        self.tools.values().filter_map(|known| known.definition.clone()).collect()
    }

    /// Holds an offer against what was accepted and what configuration pins, and remembers it.
    pub(super) fn judge(&mut self, server: &str, offer: &Offer, pin: Option<BlobHash>, rule: OnDrift) -> Verdict {
        let definition = &offer.definition;
        let (new, known) = (hash(definition), self.tools.get(&definition.name));
        let expected = pin.or(known.map(|known| known.accepted));
        let drifted = expected.is_some_and(|expected| expected != new);
        let blocked = drifted
            && match rule {
                OnDrift::BlockPinned => pin.is_some(),
                OnDrift::Block => true,
                OnDrift::Allow => false,
            };
        let last = known.map(|known| known.last);
        let change = DefinitionChange {
            server: server.to_owned(),
            tool: definition.name.clone(),
            called: None,
            old: last.or(pin).filter(|old| *old != new),
            new,
            blocked,
            definition: definition.clone(),
        };
        self.note(&change);
        Verdict { change: (last != Some(new)).then_some(change), blocked }
    }

    /// What models are shown of a blocked tool: what was accepted, or nothing that the server says.
    pub(super) fn shown(&self, blocked: &ToolDefinition) -> ToolDefinition {
        let accepted = self.tools.get(&blocked.name).and_then(|known| known.definition.clone());
        accepted.unwrap_or_else(|| ToolDefinition {
            name: blocked.name.clone(),
            description: "Blocked: its definition is not the accepted one.".to_owned(),
            input_schema: without_texts(&blocked.input_schema),
        })
    }

    fn note(&mut self, change: &DefinitionChange) {
        let accepted = (change.new, Some(change.definition.clone()));
        match self.tools.get_mut(&change.tool) {
            Some(known) => {
                known.last = change.new;
                if !change.blocked {
                    (known.accepted, known.definition) = accepted;
                }
            }
            None => {
                let blocked = change.old.filter(|_| change.blocked).map(|old| (old, None));
                let (accepted, definition) = blocked.unwrap_or(accepted);
                self.tools.insert(change.tool.clone(), Known { accepted, definition, last: change.new });
            }
        }
    }
}

/// SHA-256 of the definition as canonical JSON (RFC 8785): `{"description", "inputSchema", "name"}`.
pub(super) fn hash(definition: &ToolDefinition) -> BlobHash {
    let ToolDefinition { name, description, input_schema } = definition;
    let value = json!({ "name": name, "description": description, "inputSchema": input_schema });
    let bytes = serde_json_canonicalizer::to_vec(&value).expect("a JSON value has finite numbers only");
    BlobHash::from_bytes(Sha256::digest(bytes).into())
}

fn without_texts(schema: &Value) -> Value {
    let field = |(word, value): (&String, &Value)| {
        let text = TEXTS.contains(&word.as_str()) && !value.is_object();
        (!text).then(|| (word.clone(), without_texts(value)))
    };
    match schema {
        Value::Object(fields) => Value::Object(fields.iter().filter_map(field).collect::<Map<_, _>>()),
        Value::Array(items) => Value::Array(items.iter().map(without_texts).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(description: &str) -> Offer {
        let input_schema = json!({"type": "object", "description": "secret order", "properties": {
            "description": {"type": "string", "description": "inner"}
        }});
        let definition = ToolDefinition { name: "read.file".into(), description: description.into(), input_schema };
        Offer { definition, effect: None }
    }

    fn judge(
        book: &mut Book,
        description: &str,
        pin: Option<BlobHash>,
        rule: OnDrift,
    ) -> (Option<Option<BlobHash>>, bool) {
        let verdict = book.judge("files", &offer(description), pin, rule);
        (verdict.change.map(|change| change.old), verdict.blocked)
    }

    fn hash_of(description: &str) -> BlobHash {
        hash(&offer(description).definition)
    }

    #[test]
    fn the_hash_is_that_of_the_canonical_text() {
        let text = "{\"description\":\"a\",\"inputSchema\":{\"description\":\"secret order\",\"properties\":\
                    {\"description\":{\"description\":\"inner\",\"type\":\"string\"}},\"type\":\"object\"},\
                    \"name\":\"read.file\"}";
        assert_eq!(hash_of("a"), BlobHash::from_bytes(Sha256::digest(text).into()));
    }

    #[test]
    fn a_definition_is_noted_once_and_each_change_of_it() {
        let mut book = Book::default();
        assert_eq!(judge(&mut book, "a", None, OnDrift::BlockPinned), (Some(None), false));
        assert_eq!(judge(&mut book, "a", None, OnDrift::BlockPinned), (None, false));
        assert_eq!(judge(&mut book, "b", None, OnDrift::BlockPinned), (Some(Some(hash_of("a"))), false));
        assert_eq!(book.accepted()[0].description, "b");
    }

    #[test]
    fn a_blocked_one_stays_blocked_until_it_is_what_was_accepted() {
        let mut book = Book::default();
        judge(&mut book, "a", None, OnDrift::Block);
        assert_eq!(judge(&mut book, "b", None, OnDrift::Block), (Some(Some(hash_of("a"))), true));
        assert_eq!(judge(&mut book, "b", None, OnDrift::Block), (None, true));
        assert_eq!(book.shown(&offer("b").definition).description, "a");
        // An operator accepts it by pinning it.
        assert_eq!(judge(&mut book, "b", Some(hash_of("b")), OnDrift::Block), (None, false));
        assert_eq!(judge(&mut book, "a", None, OnDrift::Block), (Some(Some(hash_of("b"))), true));
    }

    #[test]
    fn what_configuration_pins_is_blocked_at_first_sight_and_its_text_not_shown() {
        let mut book = Book::default();
        let pin = Some(hash_of("a"));
        assert_eq!(judge(&mut book, "b", pin, OnDrift::BlockPinned), (Some(pin), true));
        let shown = book.shown(&offer("b").definition);
        assert_eq!(shown.description, "Blocked: its definition is not the accepted one.");
        assert_eq!(shown.input_schema, json!({"type": "object", "properties": {"description": {"type": "string"}}}));
        assert_eq!(judge(&mut book, "b", pin, OnDrift::Allow), (None, false));
        assert_eq!(judge(&mut book, "a", pin, OnDrift::BlockPinned), (Some(Some(hash_of("b"))), false));
    }

    #[test]
    fn another_process_knows_what_this_one_noted() {
        let mut book = Book::default();
        let mut entries = Vec::new();
        for (seq, description) in ["a", "b"].into_iter().enumerate() {
            let change = book.judge("files", &offer(description), None, OnDrift::Block).change.expect("a change");
            entries.push(Entry {
                stream: crate::core::StreamId::System(crate::core::id::ProcessId::from_bytes([1; 16])),
                seq: seq as u64,
                at: crate::core::Timestamp::default(),
                fact: Fact::ToolDefinitionChanged(Box::new(change)),
            });
        }
        let mut next = Book::restore("files", &entries);
        assert_eq!(next.accepted()[0].description, "a");
        assert_eq!(judge(&mut next, "b", None, OnDrift::Block), (None, true));
        assert!(Book::restore("other", &entries).accepted().is_empty());
    }
}
