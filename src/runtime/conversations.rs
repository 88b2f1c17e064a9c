//! Who may begin a session in a conversation, and what that session takes over: a conversation
//! belongs to the principal that began it, and runs one session at a time. The store holds the same
//! rule against other processes.

use tokio::sync::OwnedMutexGuard;

use super::{Refused, Runtime, turns::name_of};
use crate::{
    core::{fact::SessionSummary, port::SessionFilter},
    session::{Agent, Followed, follow},
};

/// Sessions of one conversation that are looked at.
const SEEN: usize = 1000;

/// The right to begin a session in a conversation, held until the session is durable.
#[derive(Default)]
pub(super) struct Floor {
    _turn: Option<OwnedMutexGuard<()>>,
    /// The sessions before, newest first.
    before: Vec<SessionSummary>,
}

impl Runtime {
    /// Waits until no other session of this process begins in the conversation, and checks that
    /// one may.
    pub(super) async fn take_conversation(
        &self,
        conversation: Option<&str>,
        principal: &str,
    ) -> Result<Floor, Refused> {
        let Some(id) = conversation else { return Ok(Floor::default()) };
        let turn = self.inner.turns.take(name_of(&["conversation", id])).await;
        let before = self.check_conversation(conversation, principal).await?;
        Ok(Floor { _turn: Some(turn), before })
    }

    /// Refuses a session in another's conversation, or beside one that runs in it. Gives the
    /// sessions that it had so far, newest first.
    pub(super) async fn check_conversation(
        &self,
        conversation: Option<&str>,
        principal: &str,
    ) -> Result<Vec<SessionSummary>, Refused> {
        let Some(id) = conversation else { return Ok(Vec::new()) };
        let filter = SessionFilter { conversation: Some(id.to_owned()), limit: SEEN, ..SessionFilter::default() };
        let rows = self.on_store(move |store| store.sessions(&filter)).await.map_err(Refused::Journal)?;
        if rows.iter().any(|row| row.principal != principal) {
            return Err(Refused::NoConversation(id.to_owned()));
        }
        match rows.iter().find(|row| !row.status.is_final()) {
            Some(row) => Err(Refused::ConversationBusy { session: row.id }),
            None => Ok(rows),
        }
    }

    /// What a session of this agent takes over.
    pub(super) async fn followed(&self, floor: &Floor, agent: &Agent) -> Result<Followed, Refused> {
        if floor.before.is_empty() {
            return Ok(Followed::default());
        }
        let (rows, limits, window) = (floor.before.clone(), agent.limits.clone(), agent.model.info().context_window);
        self.on_store(move |store| follow(store, &rows, &limits, window)).await.map_err(Refused::Journal)
    }
}
