//! How far the lines of each stream are out, as this process knows it: what the mark in the store
//! may be moved to.
//!
//! A mark moves only over lines that were written, each right behind the one before. Once a line
//! is lost, the mark of its stream stays there, so that a later life of the process, or whoever
//! takes the session up, writes it. It must never know a line's text, nor the store.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::core::{Entry, StreamId, mark::Mark};

/// All streams that lines are written of here, and those of which the store does not know yet
/// how far they are.
#[derive(Debug, Default)]
pub(super) struct Marks {
    book: Mutex<HashMap<StreamId, Reached>>,
}

/// What a line adds to its stream: where the line before it ended, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stride {
    stream: StreamId,
    from: u64,
    next: u64,
}

/// One stream.
#[derive(Debug)]
struct Reached {
    /// All lines before this place are out.
    out: u64,
    /// The place behind the last line that was handed on.
    handed: u64,
    /// The place behind the last fact that was seen, where facts without a line count.
    seen: u64,
    /// Lines on their way.
    waiting: u32,
    /// The mark in the store, as far as is known here.
    saved: u64,
    /// More lines may come without [`Marks::begin`].
    open: bool,
}

impl Marks {
    fn book(&self) -> MutexGuard<'_, HashMap<StreamId, Reached>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up a stream whose mark in the store is this. Gives the place from which on its lines
    /// are to be written: behind the mark where this process knows better, and behind the lines
    /// that are still on their way. Should those be lost, they are owed as any lost line is.
    pub(super) fn begin(&self, stream: StreamId, mark: u64) -> u64 {
        let mut book = self.book();
        let reached = book.entry(stream).or_insert_with(|| Reached::at(mark));
        reached.saved = reached.saved.max(mark);
        reached.out = reached.out.max(mark);
        let next = if reached.waiting > 0 { reached.handed.max(reached.out) } else { reached.out };
        (reached.handed, reached.seen, reached.open) = (next, next, true);
        next
    }

    /// Whether lines of this stream come from here anyway, or are on their way.
    pub(super) fn is_busy(&self, stream: StreamId) -> bool {
        self.book().get(&stream).is_some_and(|reached| reached.open || reached.waiting > 0)
    }

    /// A line of this fact is handed on. Nothing where nobody knows what was before it.
    pub(super) fn hand_on(&self, entry: &Entry) -> Option<Stride> {
        let mut book = self.book();
        let begins = entry.seq == 0 || entry.stream.session().is_none();
        let reached = match book.get_mut(&entry.stream) {
            Some(reached) => reached,
            // The journal of a process has its own life only, and no line before its first.
            None if begins => book.entry(entry.stream).or_insert_with(|| Reached::at(entry.seq)),
            None => return None,
        };
        let stride = Stride { stream: entry.stream, from: reached.handed, next: entry.seq + 1 };
        (reached.handed, reached.seen) = (stride.next, stride.next);
        reached.waiting += 1;
        Some(stride)
    }

    /// A fact that gives no line, in the journal of a process: nothing more may come of it, and
    /// its mark must not wait for a line.
    pub(super) fn pass(&self, entry: &Entry) {
        if entry.stream.session().is_none()
            && let Some(reached) = self.book().get_mut(&entry.stream)
        {
            reached.seen = entry.seq + 1;
        }
    }

    /// The stream is not gone on with here, unless it is taken up again.
    pub(super) fn close(&self, stream: StreamId) {
        if let Some(reached) = self.book().get_mut(&stream) {
            reached.open = false;
        }
    }

    /// These lines were written, in this order.
    pub(super) fn out(&self, strides: impl Iterator<Item = Stride>) {
        let mut book = self.book();
        for stride in strides {
            if let Some(reached) = book.get_mut(&stride.stream) {
                reached.waiting = reached.waiting.saturating_sub(1);
                if stride.from <= reached.out {
                    reached.out = reached.out.max(stride.next);
                }
            }
        }
    }

    /// These lines are lost.
    pub(super) fn lost(&self, strides: impl Iterator<Item = Stride>) {
        let mut book = self.book();
        for stride in strides {
            if let Some(reached) = book.get_mut(&stride.stream) {
                reached.waiting = reached.waiting.saturating_sub(1);
            }
        }
    }

    /// The marks that the store does not know of. Forgets streams that are over here and known.
    pub(super) fn unsaved(&self) -> Vec<Mark> {
        let mut book = self.book();
        book.retain(|_, reached| reached.open || reached.waiting > 0 || reached.mark() > reached.saved);
        let moved = book.iter().filter(|(_, reached)| reached.mark() > reached.saved);
        moved.map(|(stream, reached)| Mark { stream: *stream, next: reached.mark() }).collect()
    }

    /// The store knows of these now.
    pub(super) fn saved(&self, marks: &[Mark]) {
        let mut book = self.book();
        for mark in marks {
            if let Some(reached) = book.get_mut(&mark.stream) {
                reached.saved = reached.saved.max(mark.next);
            }
        }
    }
}

impl Reached {
    const fn at(mark: u64) -> Self {
        Self { out: mark, handed: mark, seen: mark, waiting: 0, saved: mark, open: true }
    }

    /// Facts without a line are behind the mark as soon as all lines before them are out.
    const fn mark(&self) -> u64 {
        if self.out == self.handed { self.seen } else { self.out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Fact, SessionId, Timestamp, fact::SuspendCause, id::ProcessId};

    const SESSION: StreamId = StreamId::Session(SessionId::from_bytes([1; 16]));
    const PROCESS: StreamId = StreamId::System(ProcessId::from_bytes([1; 16]));

    fn entry(stream: StreamId, seq: u64) -> Entry {
        let fact = Fact::SessionSuspended { cause: SuspendCause::Drain };
        Entry { stream, seq, at: Timestamp::default(), fact }
    }

    /// Hands on the lines of these places.
    fn hand_on(marks: &Marks, stream: StreamId, places: &[u64]) -> Vec<Stride> {
        places.iter().map(|seq| marks.hand_on(&entry(stream, *seq)).expect("a known stream")).collect()
    }

    fn unsaved(marks: &Marks) -> Vec<u64> {
        marks.unsaved().into_iter().map(|mark| mark.next).collect()
    }

    #[test]
    fn a_mark_moves_when_its_line_is_out_and_not_before() {
        let marks = Marks::default();
        let strides = hand_on(&marks, SESSION, &[0, 3]);
        assert_eq!(unsaved(&marks), [0; 0]);
        marks.out(strides[..1].iter().copied());
        assert_eq!(unsaved(&marks), [1]);
        marks.out(strides[1..].iter().copied());
        assert_eq!(unsaved(&marks), [4]);
        marks.saved(&marks.unsaved());
        assert_eq!(unsaved(&marks), [0; 0]);
    }

    #[test]
    fn a_mark_stays_before_the_first_line_that_is_lost() {
        let marks = Marks::default();
        let strides = hand_on(&marks, SESSION, &[0, 1, 2]);
        marks.out(strides[..1].iter().copied());
        marks.lost(strides[1..2].iter().copied());
        marks.out(strides[2..].iter().copied());
        marks.out(hand_on(&marks, SESSION, &[3]).into_iter());
        assert_eq!(unsaved(&marks), [1]);
        // Whoever takes it up writes from there.
        assert_eq!(marks.begin(SESSION, 0), 1);
        marks.out(hand_on(&marks, SESSION, &[1, 2, 3]).into_iter());
        assert_eq!(unsaved(&marks), [4]);
    }

    #[test]
    fn lines_on_their_way_are_not_written_twice() {
        let marks = Marks::default();
        let strides = hand_on(&marks, SESSION, &[0, 2]);
        marks.close(SESSION);
        assert_eq!(marks.begin(SESSION, 0), 3);
        marks.out(strides.into_iter());
        let more = hand_on(&marks, SESSION, &[3]);
        assert_eq!(unsaved(&marks), [3]);
        marks.out(more.into_iter());
        assert_eq!(unsaved(&marks), [4]);
    }

    #[test]
    fn lines_that_are_lost_after_all_hold_the_mark_of_those_behind_them() {
        let marks = Marks::default();
        let strides = hand_on(&marks, SESSION, &[0, 2]);
        assert_eq!(marks.begin(SESSION, 0), 3);
        marks.out(strides[..1].iter().copied());
        marks.lost(strides[1..].iter().copied());
        marks.out(hand_on(&marks, SESSION, &[3]).into_iter());
        assert_eq!(unsaved(&marks), [1]);
    }

    #[test]
    fn a_stream_whose_beginning_nobody_saw_has_no_mark() {
        let marks = Marks::default();
        assert_eq!(marks.hand_on(&entry(SESSION, 5)), None);
        assert_eq!(marks.begin(SESSION, 5), 5);
        assert!(marks.hand_on(&entry(SESSION, 5)).is_some());
    }

    #[test]
    fn a_process_needs_no_line_for_a_fact_without_one() {
        let marks = Marks::default();
        marks.pass(&entry(PROCESS, 0));
        let strides = hand_on(&marks, PROCESS, &[1]);
        marks.pass(&entry(PROCESS, 2));
        assert_eq!(unsaved(&marks), [0; 0]);
        marks.out(strides.into_iter());
        assert_eq!(unsaved(&marks), [3]);
    }

    #[test]
    fn only_streams_that_go_on_or_are_not_saved_are_remembered() {
        let marks = Marks::default();
        let strides = hand_on(&marks, SESSION, &[0]);
        marks.close(SESSION);
        assert_eq!(unsaved(&marks), [0; 0]);
        assert!(marks.is_busy(SESSION), "a line is on its way");
        marks.out(strides.into_iter());
        marks.saved(&marks.unsaved());
        assert!(!marks.is_busy(SESSION));
        assert_eq!(marks.book().len(), 1);
        assert_eq!(unsaved(&marks), [0; 0]);
        assert_eq!(marks.book().len(), 0);
    }
}
