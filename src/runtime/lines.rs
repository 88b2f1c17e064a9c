//! Which event lines are out and which are owed, across lives of the process. It must never know
//! what a line says.

use super::{Runtime, again, spawn};
use crate::{
    core::{SessionId, StreamId, Timestamp, mark::Mark, port::StoreError},
    signal::Lines,
};

/// Marks moved in one transaction at the most: commits wait for it.
const BATCH: usize = 500;

impl Runtime {
    /// Keeps how far the lines are out. Between two calls a mark lags behind, never ahead.
    pub(super) async fn save_marks(&self) {
        let Some(lines) = self.inner.signals.lines() else { return };
        for batch in lines.unsaved_marks().chunks(BATCH) {
            let marks = batch.to_vec();
            if let Err(error) = self.on_store(move |store| store.move_marks(&marks)).await {
                // The next call tries again; until then a crash repeats more lines.
                tracing::warn!(target: "glassbox", %error, "cannot remember which event lines are out");
                return;
            }
            lines.marks_saved(batch);
        }
    }

    /// From which place on lines of a session are owed: all, where nobody began to write them.
    pub(super) async fn mark(&self, id: SessionId) -> Result<u64, StoreError> {
        if self.inner.signals.lines().is_none() {
            return Ok(0);
        }
        Ok(self.on_store(move |store| store.mark(StreamId::Session(id))).await?.unwrap_or_default())
    }

    /// Writes, paced, the lines that earlier lives of the process owe.
    pub(super) fn write_again(&self) {
        if self.inner.signals.lines().is_none() {
            return;
        }
        let (runtime, begun) = (self.clone(), self.inner.journal.clock().now());
        let work = async move {
            // Other processes on the same store may be about to keep their marks.
            tokio::time::sleep(runtime.inner.lease).await;
            if let Err(error) = runtime.write_owed_lines(begun).await {
                tracing::warn!(target: "glassbox", %error, "cannot look for event lines that were not written");
            }
        };
        let draining = self.inner.draining.clone();
        spawn(async move { draining.run_until_cancelled(work).await });
    }

    /// Writes the lines of facts recorded before `before`, and in the last 24 hours, that nobody
    /// has written and nobody is about to: of ended sessions, of those that wait or cannot go on,
    /// and of processes that are gone. Gives the number of journals.
    ///
    /// # Errors
    /// Where the store cannot be read or written.
    pub async fn write_owed_lines(&self, before: Timestamp) -> Result<usize, StoreError> {
        let Some(lines) = self.inner.signals.lines() else { return Ok(0) };
        // What this process has taken up meanwhile is known after this.
        self.save_marks().await;
        let now = self.inner.journal.clock().now();
        let since = again::since(before);
        let owing = self.on_store(move |store| store.owing(now, since, before)).await?;
        let mut written = 0;
        for mark in owing {
            again::wait_for_room(again::RESERVE, || lines.room()).await;
            written += usize::from(self.write_stream(lines, mark).await);
        }
        self.on_store(move |store| store.give_up_marks(since)).await?;
        Ok(written)
    }

    async fn write_stream(&self, lines: &Lines, mark: Mark) -> bool {
        let lines = lines.clone();
        // The fold takes its time on a long journal, so it belongs there too.
        let written = self.on_store(move |store| Ok(lines.write_again(&store.load(mark.stream)?, mark.next)));
        written.await.unwrap_or_else(|error| {
            let stream = mark.stream;
            tracing::warn!(target: "glassbox", %stream, %error, "lines of a journal that cannot be read stay away");
            false
        })
    }
}
