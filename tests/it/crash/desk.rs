//! Hand-overs, notices and marks of the store that dies: those of the store behind it.

use glassbox::core::{
    StreamId, Timestamp,
    handover::{Handling, Handover, HandoverAction, HandoverFilter, HandoverId, Handovers, OperatorWord, Unclaimed},
    mark::{Mark, Marks},
    notice::{Hook, Notice, Notices},
    port::StoreError,
};

use super::DeadlyStore;

impl Handovers for DeadlyStore {
    fn handovers(&self, filter: &HandoverFilter) -> Result<Vec<Handover>, StoreError> {
        self.inner.handovers(filter)
    }

    fn handover(&self, id: HandoverId) -> Result<Option<Handover>, StoreError> {
        self.inner.handover(id)
    }

    fn handle(&self, id: HandoverId, action: HandoverAction, word: &OperatorWord) -> Result<Handling, StoreError> {
        self.inner.handle(id, action, word)
    }

    fn unclaimed(&self) -> Result<Unclaimed, StoreError> {
        self.inner.unclaimed()
    }
}

impl Notices for DeadlyStore {
    fn due_notices(&self, hooks: &[Hook], now: Timestamp, limit: usize) -> Result<Vec<Notice>, StoreError> {
        self.inner.due_notices(hooks, now, limit)
    }

    fn settle_notice(&self, notice: &Notice) -> Result<(), StoreError> {
        self.inner.settle_notice(notice)
    }

    fn postpone_notice(&self, notice: &Notice, due: Timestamp) -> Result<(), StoreError> {
        self.inner.postpone_notice(notice, due)
    }

    fn forget_notices(&self, hook: Hook, before: Timestamp) -> Result<u64, StoreError> {
        self.inner.forget_notices(hook, before)
    }
}

impl Marks for DeadlyStore {
    fn mark(&self, stream: StreamId) -> Result<Option<u64>, StoreError> {
        self.inner.mark(stream)
    }

    fn move_marks(&self, marks: &[Mark]) -> Result<(), StoreError> {
        self.inner.move_marks(marks)
    }

    fn owing(&self, now: Timestamp, since: Timestamp, before: Timestamp) -> Result<Vec<Mark>, StoreError> {
        self.inner.owing(now, since, before)
    }

    fn give_up_marks(&self, since: Timestamp) -> Result<u64, StoreError> {
        self.inner.give_up_marks(since)
    }
}
