//! Lets one at a time do what belongs to one name, inside this process. Other processes are kept
//! apart by the store.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::core::BlobHash;

/// The names that somebody is at or waits for. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Turns {
    table: Arc<Mutex<HashMap<BlobHash, Weak<AsyncMutex<()>>>>>,
}

impl Turns {
    /// Waits until nobody else is at this name; it is the caller's until the guard is dropped.
    pub(super) async fn take(&self, name: BlobHash) -> OwnedMutexGuard<()> {
        let turn = self.turn(name);
        turn.lock_owned().await
    }

    fn turn(&self, name: BlobHash) -> Arc<AsyncMutex<()>> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = table.get(&name).and_then(Weak::upgrade) {
            return turn;
        }
        table.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        table.insert(name, Arc::downgrade(&turn));
        turn
    }
}

/// One name out of parts, each told with its length, so that none runs into the next.
pub(super) fn name_of(parts: &[&str]) -> BlobHash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    BlobHash::from_bytes(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cannot_run_into_one_another() {
        assert_ne!(name_of(&["ab", "c"]), name_of(&["a", "bc"]));
        assert_eq!(name_of(&["a", "b"]), name_of(&["a", "b"]));
    }

    #[tokio::test]
    async fn one_name_is_one_turn_and_is_forgotten_afterwards() {
        let turns = Turns::default();
        let first = turns.take(name_of(&["a"])).await;
        let mut second = try_take(&turns, "a");
        assert!(second.is_none(), "the name is taken");
        assert!(try_take(&turns, "b").is_some(), "another name is free");
        drop(first);
        second = try_take(&turns, "a");
        assert!(second.is_some(), "the name is free again");
        drop(second);
        drop(turns.take(name_of(&["c"])).await);
        assert_eq!(turns.table.lock().unwrap_or_else(PoisonError::into_inner).len(), 1);
    }

    fn try_take(turns: &Turns, name: &str) -> Option<OwnedMutexGuard<()>> {
        turns.turn(name_of(&[name])).try_lock_owned().ok()
    }
}
