//! How many attempts of a tool run at once, by all sessions together.
//!
//! A slow service then holds up its own callers alone. It must never hold its lock over an await.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Semaphore;

use crate::core::ToolSpec;

/// The slots of all tools of a process, made when a tool is first called. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    tools: Arc<Mutex<BTreeMap<String, Arc<Semaphore>>>>,
}

impl Slots {
    /// The slots of a tool; nothing where it names no limit.
    pub(super) fn of(&self, spec: &ToolSpec) -> Option<Arc<Semaphore>> {
        let most = usize::try_from(spec.max_concurrent?).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS);
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = tools.get(spec.name()) {
            return Some(slots.clone());
        }
        let slots = Arc::new(Semaphore::new(most));
        tools.insert(spec.name().to_owned(), slots.clone());
        Some(slots)
    }
}
