//! How many attempts of a tool run at once, by all sessions together.
//!
//! A slow service then holds up its own callers alone. It must never hold its lock over an await.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Semaphore;

use crate::core::ToolSpec;

/// The slots of all tools of a process, made when a tool is first called, and again when it is
/// first called under another limit. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    tools: Arc<Mutex<BTreeMap<String, Slot>>>,
}

#[derive(Clone, Debug)]
struct Slot {
    most: usize,
    free: Arc<Semaphore>,
}

impl Slots {
    /// The slots of a tool; nothing where it names no limit.
    pub(super) fn of(&self, spec: &ToolSpec) -> Option<Arc<Semaphore>> {
        let most = usize::try_from(spec.max_concurrent?).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS);
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = tools.get(spec.name()).filter(|slot| slot.most == most) {
            return Some(slot.free.clone());
        }
        let free = Arc::new(Semaphore::new(most));
        tools.insert(spec.name().to_owned(), Slot { most, free: free.clone() });
        Some(free)
    }
}
