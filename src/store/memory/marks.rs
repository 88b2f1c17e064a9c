//! Marks of event lines in memory. It must never know what a line says.

use crate::core::{
    Entry, StreamId, Timestamp,
    mark::{Mark, Marks},
    port::StoreError,
};

use super::{State, Store};

impl State {
    /// The facts of a stream from a place on.
    fn behind(&self, stream: StreamId, next: u64) -> impl Iterator<Item = &Entry> {
        let facts = self.streams.get(&stream).into_iter().flatten();
        facts.skip(usize::try_from(next).unwrap_or(usize::MAX)).map(|entry| &**entry)
    }

    /// Whether more facts are to be expected of it than those that are there: a session that
    /// goes on. The journal of a process makes its mark anew.
    fn goes_on(&self, stream: StreamId) -> bool {
        let row = stream.session().and_then(|session| self.sessions.get(&session));
        row.is_some_and(|row| !row.status.is_final())
    }

    fn is_held(&self, stream: StreamId, now: Timestamp) -> bool {
        let lease = stream.session().and_then(|session| self.leases.get(&session));
        lease.and_then(|lease| lease.holder).is_some_and(|(_, until)| until > now)
    }

    fn move_mark(&mut self, mark: Mark) {
        if self.behind(mark.stream, mark.next).next().is_none() && !self.goes_on(mark.stream) {
            self.marks.remove(&mark.stream);
        } else if let Some(next) = self.marks.get_mut(&mark.stream) {
            *next = mark.next.max(*next);
        }
    }
}

impl Marks for Store {
    fn mark(&self, stream: StreamId) -> Result<Option<u64>, StoreError> {
        Ok(self.lock().marks.get(&stream).copied())
    }

    fn move_marks(&self, marks: &[Mark]) -> Result<(), StoreError> {
        let mut state = self.lock_to_write()?;
        marks.iter().for_each(|mark| state.move_mark(*mark));
        Ok(())
    }

    fn owing(&self, now: Timestamp, since: Timestamp, before: Timestamp) -> Result<Vec<Mark>, StoreError> {
        let state = self.lock();
        let free = state.marks.iter().filter(|(stream, _)| !state.is_held(**stream, now));
        let mut found: Vec<_> = free
            .filter_map(|(stream, next)| {
                let oldest = state.behind(*stream, *next).next()?.at;
                let owed = state.behind(*stream, *next).any(|entry| entry.at >= since && entry.at < before);
                owed.then_some((oldest, Mark { stream: *stream, next: *next }))
            })
            .collect();
        found.sort_unstable_by_key(|(oldest, mark)| (*oldest, mark.stream));
        Ok(found.into_iter().map(|(_, mark)| mark).collect())
    }

    fn give_up_marks(&self, since: Timestamp) -> Result<u64, StoreError> {
        let mut state = self.lock_to_write()?;
        let stays = |(stream, next): (&StreamId, &u64)| {
            state.goes_on(*stream) || state.behind(*stream, *next).any(|entry| entry.at >= since)
        };
        let over: Vec<_> = state.marks.iter().filter(|mark| !stays(*mark)).map(|(stream, _)| *stream).collect();
        Ok(over.iter().filter(|stream| state.marks.remove(stream).is_some()).count() as u64)
    }
}
