//! What the collector has and what it lacks, across lives of the process.

use super::{Runtime, again, spawn};
use crate::{
    core::{SessionId, StreamId, Timestamp},
    signal::otlp::Pipeline,
};

impl Runtime {
    /// Remembers which sessions have arrived whole since the last call.
    pub(super) async fn note_delivered(&self) {
        let Some(pipeline) = self.inner.signals.pipeline() else { return };
        let delivered = pipeline.take_delivered();
        if delivered.is_empty() {
            return;
        }
        if let Err(error) = self.on_store(move |store| store.mark_exported(&delivered)).await {
            // They are then sent once more after the next start, identical.
            tracing::warn!(target: "glassbox", %error, "cannot remember which traces have arrived");
        }
    }

    /// Sends again, paced, the traces of ended sessions that earlier lives of the process could
    /// not hand over.
    pub(super) fn send_again(&self) {
        let Some(pipeline) = self.inner.signals.pipeline().cloned() else { return };
        let (runtime, begun) = (self.clone(), self.inner.journal.clock().now());
        spawn(async move {
            tokio::select! {
                () = runtime.inner.draining.cancelled() => {}
                () = runtime.send_missing(&pipeline, begun) => {}
            }
        });
    }

    async fn send_missing(&self, pipeline: &Pipeline, begun: Timestamp) {
        // Other processes on the same store may be about to note theirs.
        tokio::time::sleep(self.inner.lease).await;
        let since = again::since(begun);
        let missing = match self.on_store(move |store| store.unexported(since, begun)).await {
            Ok(missing) => missing,
            Err(error) => {
                tracing::warn!(target: "glassbox", %error, "cannot look for traces that did not arrive");
                return;
            }
        };
        // A short queue has less than that in all.
        let reserve = again::RESERVE.min(pipeline.capacity() / 2);
        for session in missing {
            again::wait_for_room(reserve, || pipeline.room()).await;
            self.send_session(pipeline, session).await;
        }
    }

    async fn send_session(&self, pipeline: &Pipeline, session: SessionId) {
        let pipeline = pipeline.clone();
        // The fold may read kept texts, so it belongs there too.
        let sent = self.on_store(move |store| {
            pipeline.restore(&store.load(StreamId::Session(session))?);
            Ok(())
        });
        if let Err(error) = sent.await {
            tracing::warn!(target: "glassbox", %session, %error, "a trace that did not arrive cannot be read");
        }
    }
}
