//! Who may begin a session in a conversation: it belongs to the principal that began it, and runs
//! one session at a time. The store holds the same rule against other processes.

use tokio::sync::OwnedMutexGuard;

use super::{Refused, Runtime, turns::name_of};
use crate::core::port::SessionFilter;

/// Sessions of one conversation that are looked at.
const SEEN: usize = 1000;

impl Runtime {
    /// Waits until no other session of this process begins in the conversation, and checks that
    /// one may. What is given is held until the session is durable.
    pub(super) async fn take_conversation(
        &self,
        conversation: Option<&str>,
        principal: &str,
    ) -> Result<Option<OwnedMutexGuard<()>>, Refused> {
        let Some(id) = conversation else { return Ok(None) };
        let turn = self.inner.turns.take(name_of(&["conversation", id])).await;
        self.check_conversation(conversation, principal).await?;
        Ok(Some(turn))
    }

    /// Refuses a session in another's conversation, or beside one that runs in it.
    pub(super) async fn check_conversation(&self, conversation: Option<&str>, principal: &str) -> Result<(), Refused> {
        let Some(id) = conversation else { return Ok(()) };
        let filter = SessionFilter { conversation: Some(id.to_owned()), limit: SEEN, ..SessionFilter::default() };
        let rows = self.on_store(move |store| store.sessions(&filter)).await.map_err(Refused::Journal)?;
        if rows.iter().any(|row| row.principal != principal) {
            return Err(Refused::NoConversation(id.to_owned()));
        }
        match rows.iter().find(|row| !row.status.is_final()) {
            Some(row) => Err(Refused::ConversationBusy { session: row.id }),
            None => Ok(()),
        }
    }
}
