//! Hand-overs and notices in memory. It must never know a session beyond its row.

use std::collections::BTreeMap;

use super::Store;
use crate::{
    core::{
        SessionId, Timestamp,
        fact::SessionSummary,
        handover::{
            Handling, Handover, HandoverAction, HandoverFilter, HandoverId, HandoverStatus, Handovers, OperatorWord,
            Unclaimed,
        },
        notice::{Hook, Notice, Notices},
        port::StoreError,
    },
    store::{change::Change, page_size},
};

/// What lies on the desks of people, and who is still to be told of it.
#[derive(Debug, Default)]
pub(super) struct Desk {
    handovers: BTreeMap<HandoverId, Handover>,
    /// Each with when it is due.
    notices: BTreeMap<(Hook, SessionId, u64), (Notice, Timestamp)>,
}

impl Desk {
    /// Takes in what a write changes in a session of this row.
    pub(super) fn take(&mut self, row: &SessionSummary, change: &Change<'_>) {
        for opened in &change.handovers {
            let record = opened.record(row);
            self.handovers.insert(record.id, record);
        }
        for (hook, seq, at) in change.notices.iter().copied() {
            let notice = Notice { hook, session: row.id, seq, at, attempts: 0 };
            self.notices.insert((hook, row.id, seq), (notice, at));
        }
    }

    /// A session is erased: what is closed goes with it, what is open stays without its texts.
    pub(super) fn erase(&mut self, session: SessionId) {
        self.handovers.retain(|id, record| id.session != session || record.status() != HandoverStatus::Closed);
        for record in self.handovers.values_mut().filter(|record| record.id.session == session) {
            *record = record.clone().without_texts();
        }
        self.notices.retain(|(hook, of, _), _| *of != session || *hook == Hook::Handovers);
    }

    fn waiting(&self) -> impl Iterator<Item = &Handover> {
        self.handovers.values().filter(|record| record.status() == HandoverStatus::Open)
    }
}

impl Handovers for Store {
    fn handovers(&self, filter: &HandoverFilter) -> Result<Vec<Handover>, StoreError> {
        let state = self.lock();
        let records = &state.desk.handovers;
        let before = match filter.before {
            Some(id) => match records.get(&id) {
                Some(record) => Some(age(record)),
                None => return Ok(Vec::new()),
            },
            None => None,
        };
        let fits = |record: &&Handover| {
            filter.status.is_none_or(|status| status == record.status())
                && before.is_none_or(|before| age(record) < before)
        };
        let mut found: Vec<_> = records.values().filter(fits).collect();
        found.sort_unstable_by_key(|record| std::cmp::Reverse(age(record)));
        found.truncate(page_size(filter.limit));
        Ok(found.into_iter().cloned().collect())
    }

    fn handover(&self, id: HandoverId) -> Result<Option<Handover>, StoreError> {
        Ok(self.lock().desk.handovers.get(&id).cloned())
    }

    fn handle(&self, id: HandoverId, action: HandoverAction, word: &OperatorWord) -> Result<Handling, StoreError> {
        let mut state = self.lock_to_write()?;
        let Some(record) = state.desk.handovers.get_mut(&id) else { return Ok(Handling::Unknown) };
        let handling = record.clone().handled(action, word);
        if let Handling::Done(after) = &handling {
            *record = after.clone();
        }
        Ok(handling)
    }

    fn unclaimed(&self) -> Result<Unclaimed, StoreError> {
        let state = self.lock();
        let oldest = state.desk.waiting().map(|record| record.opened).min();
        Ok(Unclaimed { count: state.desk.waiting().count() as u64, oldest })
    }
}

impl Notices for Store {
    fn due_notices(&self, hooks: &[Hook], now: Timestamp, limit: usize) -> Result<Vec<Notice>, StoreError> {
        let state = self.lock();
        let due = state.desk.notices.values().filter(|(notice, due)| *due <= now && hooks.contains(&notice.hook));
        let mut due: Vec<_> = due.copied().collect();
        due.sort_unstable_by_key(|(notice, due)| (*due, notice.session, notice.seq));
        Ok(due.into_iter().map(|(notice, _)| notice).take(limit).collect())
    }

    fn settle_notice(&self, notice: &Notice) -> Result<(), StoreError> {
        self.lock_to_write()?.desk.notices.remove(&(notice.hook, notice.session, notice.seq));
        Ok(())
    }

    fn postpone_notice(&self, notice: &Notice, due: Timestamp) -> Result<(), StoreError> {
        if let Some((kept, until)) =
            self.lock_to_write()?.desk.notices.get_mut(&(notice.hook, notice.session, notice.seq))
        {
            kept.attempts = notice.attempts + 1;
            *until = due;
        }
        Ok(())
    }

    fn forget_notices(&self, hook: Hook, before: Timestamp) -> Result<u64, StoreError> {
        let mut state = self.lock_to_write()?;
        let had = state.desk.notices.len();
        state.desk.notices.retain(|_, (notice, _)| notice.hook != hook || notice.at >= before);
        Ok((had - state.desk.notices.len()) as u64)
    }
}

/// The place of a hand-over in the list, which the next page goes on from.
const fn age(record: &Handover) -> (Timestamp, HandoverId) {
    (record.opened, record.id)
}
