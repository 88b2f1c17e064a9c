//! Hand-overs as operators work on them: listed, claimed, closed, and told of in the metrics.

use std::time::Duration;

use super::{Runtime, resume::panicked, spawn};
use crate::core::{
    Fact, Sensitive,
    fact::HandoverChange,
    handover::{
        Handling, Handover, HandoverAction, HandoverFilter, HandoverId, HandoverObjection, OperatorWord, Unclaimed,
    },
    port::StoreError,
};
use crate::signal::metrics::Format;

/// How long a scrape waits for the store before it shows what was read last.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why an operator's word on a hand-over is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotHandled {
    /// There is none.
    #[error("there is no hand-over {0}")]
    Unknown(HandoverId),
    /// What stands does not allow it.
    #[error(transparent)]
    Objection(#[from] HandoverObjection),
    /// The store.
    #[error("the journal: {0}")]
    Store(#[from] StoreError),
}

impl Runtime {
    /// Hand-overs, newest first.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub async fn handovers(&self, filter: HandoverFilter) -> Result<Vec<Handover>, StoreError> {
        self.on_store(move |store| store.handovers(&filter)).await
    }

    /// One hand-over.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub async fn handover(&self, id: HandoverId) -> Result<Option<Handover>, StoreError> {
        self.on_store(move |store| store.handover(id)).await
    }

    /// Claims or closes a hand-over for an operator. What is given stands and is durable; asking
    /// again changes nothing. It goes on where the caller does not wait for it, so that nothing
    /// stands that is not recorded.
    ///
    /// # Errors
    /// Why not.
    pub async fn handle_handover(
        &self,
        id: HandoverId,
        action: HandoverAction,
        by: Sensitive<String>,
        comment: Option<Sensitive<String>>,
    ) -> Result<Handover, NotHandled> {
        let runtime = self.clone();
        let work = spawn(async move { runtime.handle(id, action, by, comment).await });
        work.await.unwrap_or_else(|_| Err(panicked().into()))
    }

    async fn handle(
        &self,
        id: HandoverId,
        action: HandoverAction,
        by: Sensitive<String>,
        comment: Option<Sensitive<String>>,
    ) -> Result<Handover, NotHandled> {
        let word = OperatorWord { by: by.clone(), at: self.inner.journal.clock().now(), comment };
        match self.on_store(move |store| store.handle(id, action, &word)).await? {
            Handling::Unknown => Err(NotHandled::Unknown(id)),
            Handling::Objected(objection) => Err(objection.into()),
            Handling::Before(handover) => Ok(handover),
            Handling::Done(handover) => {
                let change = HandoverChange { handover: id, to: action.status(), by };
                self.inner.system.record(Fact::HandoverChanged(Box::new(change)));
                self.inner.system.flush().await?;
                Ok(handover)
            }
        }
    }

    /// Hand-overs that nobody has taken on; nothing where the store does not say in time.
    pub async fn unclaimed(&self) -> Option<Unclaimed> {
        let unclaimed = self.on_store(|store| store.unclaimed());
        tokio::time::timeout(PATIENCE, unclaimed).await.ok()?.ok()
    }

    /// The metrics as text, the ages of what waits for a person worked out for now. Hand-overs are
    /// read from the store, so they are true after a restart and for what other processes did.
    pub async fn scrape(&self, format: Format) -> String {
        // Where there is none, what was read last is shown; the journal's own metrics say that it
        // is in trouble.
        let unclaimed = self.unclaimed().await;
        let metrics = self.metrics();
        metrics.show_ages(self.inner.journal.clock().now(), unclaimed);
        metrics.render_as(format)
    }
}
