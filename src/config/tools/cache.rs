//! `cache`: how long results of a tool that only reads are given again.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    config::{reader::Section, scalar, units::write_duration},
    core::spec::CacheRule,
};

/// Results that are kept, where nothing else is said.
const MAX_ENTRIES: usize = 1000;

/// The rule; nothing where results are not kept.
pub(super) fn read(section: &Section<'_>) -> Option<CacheRule> {
    let cache = section.section("cache");
    let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let ttl = cache.get("ttl", scalar::duration(second, day));
    let max_entries = cache.get("max_entries", scalar::whole(1..=1_000_000)).unwrap_or(MAX_ENTRIES);
    let shared = cache.get("shared", scalar::flag).unwrap_or(false);
    if section.has("cache") && !cache.has("ttl") {
        cache.wrong("ttl", "is missing; write how long a result is good, such as 60s");
    }
    Some(CacheRule { ttl: ttl?, max_entries, shared })
}

/// A rule as it is written.
pub(in crate::config) fn effective(rule: Option<CacheRule>) -> Value {
    rule.map_or(Value::Null, |CacheRule { ttl, max_entries, shared }| {
        json!({ "ttl": write_duration(ttl), "max_entries": max_entries, "shared": shared })
    })
}
