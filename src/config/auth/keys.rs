//! `auth.api_keys`, here or in a file of their own.

use std::{collections::BTreeMap, fs::File, io::Read as _, path::Path};

use super::{ApiKey, principal};
use crate::{
    config::{
        agents::label_name,
        reader::{Reader, Section},
        report::{Mistake, Place},
        scalar::{self, Read},
        secret::Vault,
        tree::{self, Node},
    },
    core::BlobHash,
};

/// Bytes of a file with keys at the most.
const MAX_FILE: u64 = 1 << 20;

pub(super) fn read(section: &Section<'_>, vault: Vault<'_>) -> BTreeMap<String, ApiKey> {
    let mut keys = named(section);
    let path = section.get("api_keys_file", |node| Ok(vault.folder.join(scalar::text(node)?)));
    let from_file = path.map(|path| of_file(&path)).unwrap_or_else(|| Ok(BTreeMap::new()));
    match from_file {
        Err(wrong) => wrong.into_iter().for_each(|wrong| section.wrong("api_keys_file", wrong)),
        Ok(more) => {
            for (name, key) in more {
                if keys.contains_key(&name) {
                    section.wrong("api_keys_file", format!("names the key {name}, which stands under api_keys too"));
                }
                keys.insert(name, key);
            }
        }
    }
    let mut seen = BTreeMap::new();
    for (name, key) in &keys {
        if let Some(other) = seen.insert(key.hash.to_string(), name) {
            section.wrong("api_keys", format!("{other} and {name} have one hash; make a key for each"));
        }
    }
    if section.has("api_keys") && section.is_empty("api_keys") {
        section.wrong("api_keys", "holds no key; `glassbox auth new-key NAME` makes one");
    }
    keys
}

fn named(section: &Section<'_>) -> BTreeMap<String, ApiKey> {
    let entries = section.named("api_keys", label_name);
    let read = |(name, section): (String, Section<'_>)| {
        let hash = section.need("hash", hash);
        let below = section.section("principal");
        let id = below.need("id", scalar::text);
        let principal = principal(&below, id.unwrap_or_default(), &["user"]);
        // Without its hash a key lets nobody in, and the report says so.
        Some((name, ApiKey { hash: hash?, principal }))
    };
    entries.into_iter().filter_map(read).collect()
}

/// The keys of a file, or everything that is wrong with it.
fn of_file(path: &Path) -> Result<BTreeMap<String, ApiKey>, Vec<String>> {
    let shown = path.display().to_string();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
    read.map_err(|error| vec![format!("the file {shown} cannot be read: {error}")])?;
    let told = |mistake: &Mistake| match &mistake.place {
        Place::At { line, column } => format!("{shown}:{line}:{column}: {}: {}", mistake.key, mistake.wrong),
        Place::File | Place::Env(_) => format!("{shown}: {}: {}", mistake.key, mistake.wrong),
    };
    let tree = tree::parse(&text, None).map_err(|mistake| vec![told(&mistake)])?;
    let reader = Reader::new(tree.mistakes);
    let keys = named(&reader.root(&tree.root));
    let (mistakes, _) = reader.finish();
    if !mistakes.is_empty() {
        return Err(mistakes.iter().map(told).collect());
    }
    if keys.is_empty() { Err(vec![format!("the file {shown} holds no key under api_keys")]) } else { Ok(keys) }
}

fn hash(node: &Node) -> Read<BlobHash> {
    // What stands there may be the key itself, so it is not repeated.
    let right = "must be sha256: and 64 hex digits, as `glassbox auth new-key NAME` prints it";
    scalar::scalar(node, right)?.0.parse().map_err(|_| right.to_owned())
}
