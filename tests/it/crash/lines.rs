//! The event lines of all lives together: each fact that has a line has it, nothing else has one,
//! and what comes twice is the same.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use serde_json::Value;

use crate::signals_agree::{
    evidence::{self, Evidence},
    traces,
};

/// Where every life writes its lines.
pub(super) const FILE: &str = "events.jsonl";

/// Reads lines as their readers are told to and holds them against the journal. Gives how many
/// came again.
pub(super) fn check(folder: &Path) -> usize {
    let text = fs::read_to_string(folder.join(FILE)).expect("lines");
    let mut known: HashMap<(String, u64), &str> = HashMap::new();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let (mut lines, mut repeats) = (Vec::new(), 0);
    for raw in text.lines() {
        // A kill may leave half a line, which the next life ends and writes again.
        let Ok(line) = serde_json::from_str::<Value>(raw) else { continue };
        let stream = line["session_id"].as_str().or(line["process_id"].as_str()).expect("a stream").to_owned();
        let seq = line["seq"].as_u64().expect("a place");
        if let Some(before) = known.get(&(stream.clone(), seq)) {
            assert_eq!(*before, raw, "what comes again is the same");
            repeats += 1;
            continue;
        }
        let before = last.insert(stream.clone(), seq);
        assert!(before < Some(seq), "{raw} after that of place {before:?}");
        known.insert((stream, seq), raw);
        lines.push(line);
    }
    let journal = evidence::journal(&folder.join("journal.db"));
    traces::lines_tell_of_the_journal(&Evidence { lines, journal, metrics: String::new(), spans: Vec::new() });
    repeats
}
