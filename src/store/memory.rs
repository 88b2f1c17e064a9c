//! A store in memory, for tests and for trying things out: the same rules as on disk, and
//! nothing left when the process ends. It can be told to fail, so that tests reach what a
//! full or read-only disk does.

mod desk;
mod marks;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::core::{
    BlobHash, Entry, SessionId, StreamId, Timestamp,
    fact::SessionSummary,
    id::ProcessId,
    lease::{LeaseEpoch, LeaseGrant, Leases},
    once::{BegunOnce, Once},
    outcome::SessionStatus,
    port::{self, SessionFilter, StoreError, StoreErrorKind, Write},
};

use self::desk::Desk;
use super::{change::Change, check, error, page_size};

/// Journals in memory.
#[derive(Debug, Default)]
pub struct Store {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    streams: HashMap<StreamId, Vec<Arc<Entry>>>,
    sessions: HashMap<SessionId, SessionSummary>,
    blobs: HashMap<BlobHash, Kept>,
    leases: HashMap<SessionId, Lease>,
    exported: HashSet<SessionId>,
    keys: HashMap<BlobHash, (BegunOnce, Timestamp)>,
    marks: HashMap<StreamId, u64>,
    desk: Desk,
    failure: Option<StoreErrorKind>,
    /// Facts that there is still room for, where that is little.
    room: Option<usize>,
}

/// A text and the streams that name it.
#[derive(Debug)]
struct Kept {
    bytes: Arc<[u8]>,
    named_by: HashSet<StreamId>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    epoch: LeaseEpoch,
    holder: Option<(ProcessId, Timestamp)>,
}

impl Store {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes everything that writes fail in this way, until it is called with nothing. What
    /// reads goes on.
    pub fn fail_with(&self, failure: Option<StoreErrorKind>) {
        self.lock().failure = failure;
    }

    /// Leaves room for so many facts and for no write of a real size, as a disk does that is all
    /// but full, until it is called with nothing.
    pub fn leave_room(&self, facts: Option<usize>) {
        self.lock().room = facts;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is checked before it begins, so a panic leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for a change.
    fn lock_to_write(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        match state.failure {
            Some(kind) => Err(error(kind, format!("the memory store was told to fail: {}", kind.label()))),
            None => Ok(state),
        }
    }
}

impl State {
    fn append(&mut self, write: &Write) -> Result<(), StoreError> {
        check::check_order(write)?;
        // Before the place: whoever lost the session is told so, and not that its place is taken.
        if let (Some(session), Some(relied)) = (write.stream.session(), write.lease) {
            let standing = self.leases.get(&session).filter(|lease| lease.holder.is_some()).map(|lease| lease.epoch);
            check::check_lease(write.stream, relied, standing)?;
        }
        let next = self.streams.get(&write.stream).map_or(0, |entries| entries.len() as u64);
        check::check_place(write, next)?;
        let once = write.take.and_then(|take| take.once);
        if let (Some(once), Some(first)) = (once, write.entries.first())
            && self.begun_once(once.key, first.at).is_some()
        {
            return Err(check::claimed(write.stream));
        }
        if write.take.is_some() && !self.may_converse(write) {
            return Err(check::conversing(write.stream));
        }
        if let (Some(session), Some(take)) = (write.stream.session(), write.take) {
            if let Some(Once { key, body, until }) = once {
                self.keys.insert(key, (BegunOnce { session, body }, until));
            }
            let holder = Some((take.owner, take.until));
            self.leases.insert(session, Lease { epoch: LeaseEpoch::FIRST, holder });
        }
        for blob in &write.blobs {
            let kept = || Kept { bytes: Arc::clone(&blob.bytes), named_by: HashSet::new() };
            self.blobs.entry(blob.hash).or_insert_with(kept).named_by.insert(write.stream);
        }
        if write.entries.is_empty() {
            return Ok(());
        }
        if let Some(session) = write.stream.session() {
            let change = Change::of(&write.entries);
            self.list(session, &change);
            if change.status.is_some_and(SessionStatus::is_final) {
                self.leases.remove(&session);
            }
        }
        if let Some(place) = write.mark {
            self.marks.entry(write.stream).or_insert(place);
        }
        self.streams.entry(write.stream).or_default().extend(write.entries.iter().cloned());
        Ok(())
    }

    /// Whether the conversation of a session that begins is the principal's and runs no other.
    fn may_converse(&self, write: &Write) -> bool {
        let begins = write.stream.session().and_then(|session| Change::of(&write.entries).birth(session));
        let Some(row) = begins.filter(|row| row.conversation.is_some()) else { return true };
        let mut others = self.sessions.values().filter(|other| other.conversation == row.conversation);
        others.all(|other| other.principal == row.principal && other.status.is_final())
    }

    fn begun_once(&self, key: BlobHash, now: Timestamp) -> Option<BegunOnce> {
        self.keys.get(&key).filter(|(_, until)| *until > now).map(|(begun, _)| *begun)
    }

    /// Keeps the list of sessions.
    fn list(&mut self, session: SessionId, change: &Change<'_>) {
        if let Some(row) = self.sessions.get_mut(&session) {
            change.apply(row);
        } else if let Some(row) = change.birth(session) {
            self.sessions.insert(session, row);
        }
        if let Some(row) = self.sessions.get(&session) {
            self.desk.take(row, change);
        }
    }

    /// Removes a session that the owner holds; whether there was one.
    fn erase(&mut self, owner: ProcessId, session: SessionId) -> bool {
        if self.lease_of(session, owner).is_none() {
            return false;
        }
        let stream = StreamId::Session(session);
        self.blobs.retain(|_, kept| !kept.named_by.remove(&stream) || !kept.named_by.is_empty());
        self.leases.remove(&session);
        self.exported.remove(&session);
        self.marks.remove(&stream);
        self.keys.retain(|_, (begun, _)| begun.session != session);
        self.streams.remove(&stream);
        self.desk.erase(session);
        self.sessions.remove(&session).is_some()
    }

    fn lease_of(&mut self, session: SessionId, owner: ProcessId) -> Option<&mut Lease> {
        self.leases.get_mut(&session).filter(|lease| lease.holder.is_some_and(|(holder, _)| holder == owner))
    }
}

impl port::Store for Store {
    fn append(&self, writes: &[Write]) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let mut state = self.lock_to_write()?;
        let facts: usize = writes.iter().map(|write| write.entries.len()).sum();
        state.room = state.room.map(|room| room.checked_sub(facts).ok_or_else(full)).transpose()?;
        Ok(writes.iter().map(|write| state.append(write)).collect())
    }

    fn load(&self, stream: StreamId) -> Result<Vec<Entry>, StoreError> {
        self.page(stream, 0, usize::MAX)
    }

    fn page(&self, stream: StreamId, from: u64, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let page: Vec<_> = match self.lock().streams.get(&stream) {
            Some(entries) => entries.iter().skip(from).take(limit).cloned().collect(),
            None => Vec::new(),
        };
        Ok(page.iter().map(|entry| Entry::clone(entry)).collect())
    }

    fn blob(&self, hash: BlobHash) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(self.lock().blobs.get(&hash).map(|kept| Arc::clone(&kept.bytes)))
    }

    fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        let state = self.lock();
        let before = match filter.before {
            Some(id) => match state.sessions.get(&id) {
                Some(row) => Some(age(row)),
                None => return Ok(Vec::new()),
            },
            None => None,
        };
        let fits = |row: &&SessionSummary| {
            filter.principal.as_ref().is_none_or(|principal| *principal == row.principal)
                && filter.conversation.as_ref().is_none_or(|id| row.conversation.as_ref() == Some(id))
                && filter.agent.as_ref().is_none_or(|agent| *agent == row.agent)
                && filter.task_type.as_ref().is_none_or(|kind| *kind == row.task_type)
                && filter.status.is_none_or(|status| status == row.status)
                && before.is_none_or(|before| age(row) < before)
        };
        let mut rows: Vec<_> = state.sessions.values().filter(fits).collect();
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(age(row)));
        rows.truncate(page_size(filter.limit));
        Ok(rows.into_iter().cloned().collect())
    }

    fn session(&self, id: SessionId) -> Result<Option<SessionSummary>, StoreError> {
        Ok(self.lock().sessions.get(&id).cloned())
    }

    fn recent_starts(&self, principal: &str, since: Timestamp, limit: usize) -> Result<Vec<Timestamp>, StoreError> {
        let state = self.lock();
        let own = state.sessions.values().filter(|row| row.principal == principal && row.started > since);
        let mut starts: Vec<_> = own.map(|row| row.started).collect();
        starts.sort_unstable_by(|one, other| other.cmp(one));
        starts.truncate(limit);
        Ok(starts)
    }

    fn begun_once(&self, key: BlobHash, now: Timestamp) -> Result<Option<BegunOnce>, StoreError> {
        Ok(self.lock().begun_once(key, now))
    }

    fn forget_keys(&self, now: Timestamp, limit: usize) -> Result<u64, StoreError> {
        let mut state = self.lock_to_write()?;
        let over = state.keys.iter().filter(|(_, (_, until))| *until <= now).map(|(key, _)| *key);
        let over: Vec<_> = over.take(limit).collect();
        Ok(over.iter().filter(|key| state.keys.remove(*key).is_some()).count() as u64)
    }

    fn mark_exported(&self, sessions: &[SessionId]) -> Result<(), StoreError> {
        self.lock_to_write()?.exported.extend(sessions);
        Ok(())
    }

    fn unexported(&self, since: Timestamp, before: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        let state = self.lock();
        let waits = |row: &&SessionSummary| {
            let ended = row.status.is_final() && row.updated >= since && row.updated < before;
            ended && !state.exported.contains(&row.id)
        };
        let mut rows: Vec<_> = state.sessions.values().filter(waits).collect();
        rows.sort_unstable_by_key(|row| (row.updated, row.id));
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    fn ended(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        let state = self.lock();
        let ended = state.sessions.values().filter(|row| row.status.is_final() && row.updated < before);
        Ok(ended.map(|row| row.id).take(limit).collect())
    }

    fn erase(&self, owner: ProcessId, sessions: &[SessionId]) -> Result<u64, StoreError> {
        let mut state = self.lock_to_write()?;
        Ok(sessions.iter().filter(|session| state.erase(owner, **session)).count() as u64)
    }

    fn scrub(&self) -> Result<(), StoreError> {
        self.lock_to_write().map(drop)
    }

    fn system_facts(&self, name: &str) -> Result<Vec<Entry>, StoreError> {
        let state = self.lock();
        let system = state.streams.iter().filter(|(stream, _)| stream.session().is_none());
        let named = system.flat_map(|(_, entries)| entries).filter(|entry| entry.fact.name() == name);
        let mut found: Vec<Entry> = named.map(|entry| Entry::clone(entry)).collect();
        found.sort_unstable_by_key(|entry| (entry.at, entry.stream, entry.seq));
        Ok(found)
    }

    fn probe(&self) -> Result<(), StoreError> {
        match self.lock_to_write()?.room {
            Some(_) => Err(full()),
            None => Ok(()),
        }
    }
}

impl Leases for Store {
    fn acquire(
        &self,
        session: SessionId,
        owner: ProcessId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<LeaseGrant, StoreError> {
        let mut state = self.lock_to_write()?;
        let standing = state.leases.get(&session).copied();
        if let Some((owner, until)) = standing.and_then(|lease| lease.holder).filter(|(_, until)| *until > now) {
            return Ok(LeaseGrant::Held { owner, until });
        }
        let epoch = LeaseEpoch::from_number(standing.map_or(0, |lease| lease.epoch.number()) + 1);
        state.leases.insert(session, Lease { epoch, holder: Some((owner, until)) });
        Ok(LeaseGrant::Granted(epoch))
    }

    fn renew(&self, owner: ProcessId, sessions: &[SessionId], until: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        let mut state = self.lock_to_write()?;
        let mut lost = Vec::new();
        for session in sessions {
            match state.lease_of(*session, owner) {
                Some(lease) => lease.holder = Some((owner, until)),
                None => lost.push(*session),
            }
        }
        Ok(lost)
    }

    fn release(&self, session: SessionId, owner: ProcessId) -> Result<(), StoreError> {
        if let Some(lease) = self.lock_to_write()?.lease_of(session, owner) {
            lease.holder = None;
        }
        Ok(())
    }

    fn expired(&self, now: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        let state = self.lock();
        let held =
            |id: &SessionId| state.leases.get(id).and_then(|lease| lease.holder).is_some_and(|(_, until)| until > now);
        let mut rows: Vec<_> =
            state.sessions.values().filter(|row| row.status.goes_on_by_itself() && !held(&row.id)).map(age).collect();
        rows.sort_unstable();
        Ok(rows.into_iter().map(|(_, id)| id).collect())
    }
}

/// The place of a session in the list, which the next page goes on from.
const fn age(row: &SessionSummary) -> (Timestamp, SessionId) {
    (row.started, row.id)
}

fn full() -> StoreError {
    error(StoreErrorKind::Full, "the memory store has no more room".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::port::Store as _;

    #[test]
    fn fails_as_it_is_told_until_told_otherwise() {
        let store = Store::new();
        store.fail_with(Some(StoreErrorKind::Full));
        assert_eq!(store.append(&[]).expect_err("told to fail").kind, StoreErrorKind::Full);
        assert_eq!(store.probe().expect_err("told to fail").kind, StoreErrorKind::Full);
        assert_eq!(store.load(StreamId::Session(SessionId::from_bytes([1; 16]))), Ok(Vec::new()));
        store.fail_with(None);
        assert_eq!(store.append(&[]), Ok(Vec::new()));
        assert_eq!(store.probe(), Ok(()));
    }
}
