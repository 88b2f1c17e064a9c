//! Results of tools that only read, given again for a while.
//!
//! Bounded by number and size for each tool; time is told by the caller, so that it is the
//! journal's. It must never know what a key is made of, nor hold its lock over an await.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use crate::core::{BlobHash, Timestamp, port::ToolReply, spec::CacheRule};

/// Bytes of a result that is kept at the most: four times what a model is shown of one.
pub const MAX_CACHED_BYTES: usize = 64 << 10;

/// Where a call's result is kept: the tool, and everything that the result depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePlace {
    /// The tool.
    pub tool: String,
    /// Hash of what the result depends on.
    pub key: BlobHash,
    /// How it is kept.
    pub rule: CacheRule,
}

/// The kept results of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    tools: Arc<Mutex<BTreeMap<String, Kept>>>,
}

/// Results of one tool. All live equally long, so the oldest is also the first to be over.
#[derive(Debug, Default)]
struct Kept {
    replies: HashMap<BlobHash, (ToolReply, Timestamp)>,
    order: VecDeque<BlobHash>,
}

impl Cache {
    /// The result that is kept there, if its time is not over.
    pub fn get(&self, place: &CachePlace, now: Timestamp) -> Option<ToolReply> {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let (reply, until) = tools.get(&place.tool)?.replies.get(&place.key)?;
        (now < *until).then(|| reply.clone())
    }

    /// Keeps a result that came just now, unless it is too long or one is kept there already.
    pub fn put(&self, place: &CachePlace, reply: &ToolReply, now: Timestamp) {
        if bytes(reply) > MAX_CACHED_BYTES {
            return;
        }
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = tools.entry(place.tool.clone()).or_default();
        kept.make_room(place.rule.max_entries.max(1), now);
        if !kept.replies.contains_key(&place.key) {
            kept.replies.insert(place.key, (reply.clone(), now.plus(place.rule.ttl)));
            kept.order.push_back(place.key);
        }
    }
}

impl Kept {
    /// Takes out what is over, and the oldest where there is no room for one more.
    fn make_room(&mut self, most: usize, now: Timestamp) {
        while let Some(oldest) = self.order.front() {
            let over = self.replies.get(oldest).is_none_or(|(_, until)| now >= *until);
            if !over && self.replies.len() < most {
                return;
            }
            self.replies.remove(oldest);
            self.order.pop_front();
        }
    }
}

fn bytes(reply: &ToolReply) -> usize {
    match reply {
        ToolReply::Json(value) => value.to_string().len(),
        ToolReply::Text(text) => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos((1_771_410_225 + seconds) * 1_000_000_000)
    }

    fn place(tool: &str, key: u8) -> CachePlace {
        let rule = CacheRule { ttl: Duration::from_secs(60), max_entries: 2, shared: false };
        CachePlace { tool: tool.to_owned(), key: BlobHash::from_bytes([key; 32]), rule }
    }

    fn text(text: &str) -> ToolReply {
        ToolReply::Text(text.to_owned())
    }

    #[test]
    fn a_result_is_good_until_its_time_is_over() {
        let cache = Cache::default();
        cache.put(&place("rate", 1), &text("521"), at(0));
        assert_eq!(cache.get(&place("rate", 1), at(59)), Some(text("521")));
        assert_eq!(cache.get(&place("rate", 1), at(60)), None);
        assert_eq!(cache.get(&place("rate", 2), at(1)), None, "another key");
        assert_eq!(cache.get(&place("news", 1), at(1)), None, "another tool");
    }

    #[test]
    fn a_second_result_does_not_make_the_first_live_longer() {
        let cache = Cache::default();
        cache.put(&place("rate", 1), &text("old"), at(0));
        cache.put(&place("rate", 1), &text("new"), at(30));
        assert_eq!(cache.get(&place("rate", 1), at(59)), Some(text("old")));
        cache.put(&place("rate", 1), &text("new"), at(60));
        assert_eq!(cache.get(&place("rate", 1), at(119)), Some(text("new")));
    }

    #[test]
    fn the_oldest_gives_way_and_each_tool_has_room_of_its_own() {
        let cache = Cache::default();
        cache.put(&place("news", 9), &text("n"), at(0));
        for (key, second) in [(1, 0), (2, 1), (3, 2)] {
            cache.put(&place("rate", key), &text("r"), at(second));
        }
        let there = |tool, key| cache.get(&place(tool, key), at(3)).is_some();
        assert_eq!([there("rate", 1), there("rate", 2), there("rate", 3), there("news", 9)], [false, true, true, true]);
    }

    #[test]
    fn a_long_result_is_not_kept() {
        let cache = Cache::default();
        cache.put(&place("page", 1), &text(&"x".repeat(65_536)), at(0));
        cache.put(&place("page", 2), &text(&"x".repeat(65_537)), at(0));
        assert!(cache.get(&place("page", 1), at(1)).is_some());
        assert!(cache.get(&place("page", 2), at(1)).is_none());
    }
}
