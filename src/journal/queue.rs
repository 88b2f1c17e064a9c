//! What waits for the writer's thread. What somebody waits for is handed over at once; the rest
//! lingers for a moment, so that several facts of a session share a commit, and so that a thread
//! is not woken for each of them.
//!
//! It must never know what it carries.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::lock;

/// How long what nobody waits for may linger.
pub(super) const LINGER: Duration = Duration::from_millis(2);
/// Items handed over at once at the most; so many do not linger.
const BATCH: usize = 1024;

/// The end that many hands share; the queue closes with the last of them.
pub(super) struct Sender<T>(Arc<Shared<T>>);

/// The end of the one thread.
pub(super) struct Receiver<T>(Arc<Shared<T>>);

/// The thread is gone.
#[derive(Debug)]
pub(super) struct Gone;

struct Shared<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    urgent: bool,
    /// What the thread sleeps for.
    sleeps: Option<Sleep>,
    no_sender: bool,
    no_receiver: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    /// Anything.
    UntilAny,
    /// What does not linger.
    UntilUrgent,
}

/// A queue and both of its ends.
pub(super) fn queue<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { items: VecDeque::new(), urgent: false, sleeps: None, no_sender: false, no_receiver: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    /// Adds what may linger.
    pub(super) fn send(&self, item: T) -> Result<(), Gone> {
        self.add(item, false)
    }

    /// Adds what somebody waits for.
    pub(super) fn send_urgent(&self, item: T) -> Result<(), Gone> {
        self.add(item, true)
    }

    fn add(&self, item: T, urgent: bool) -> Result<(), Gone> {
        let mut state = lock(&self.0.state);
        if state.no_receiver {
            return Err(Gone);
        }
        state.items.push_back(item);
        state.urgent |= urgent;
        let wake = match state.sleeps {
            None => false,
            Some(Sleep::UntilAny) => true,
            Some(Sleep::UntilUrgent) => state.hurries(),
        };
        if wake {
            state.sleeps = None;
            self.0.wake.notify_one();
        }
        Ok(())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        lock(&self.0.state).no_sender = true;
        self.0.wake.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0.state).items.is_empty()
    }

    /// Waits for items, at most so long, and takes them in their order. Nothing once the sender
    /// is gone and everything was taken.
    pub(super) fn take(&self, longest: Option<Duration>) -> Option<Vec<T>> {
        let mut state = lock(&self.0.state);
        while state.items.is_empty() {
            if state.no_sender {
                return None;
            }
            state.sleeps = Some(Sleep::UntilAny);
            let (woken, in_time) = self.sleep(state, longest);
            state = woken;
            if !in_time {
                return Some(Vec::new());
            }
        }
        if !state.hurries() {
            state.sleeps = Some(Sleep::UntilUrgent);
            state = self.linger(state);
        }
        let count = state.items.len().min(BATCH);
        let taken = state.items.drain(..count).collect();
        // What is left has waited long enough.
        state.urgent = !state.items.is_empty();
        Some(taken)
    }

    /// Sleeps until it is woken, and says whether that was in time.
    fn sleep<'a>(
        &self,
        state: MutexGuard<'a, State<T>>,
        longest: Option<Duration>,
    ) -> (MutexGuard<'a, State<T>>, bool) {
        match longest {
            None => (self.0.wake.wait(state).unwrap_or_else(PoisonError::into_inner), true),
            Some(longest) => {
                let (mut state, timeout) =
                    self.0.wake.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner);
                state.sleeps = None;
                (state, !timeout.timed_out())
            }
        }
    }

    fn linger<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        let still = |state: &mut State<T>| !state.hurries();
        let (mut state, _) =
            self.0.wake.wait_timeout_while(state, LINGER, still).unwrap_or_else(PoisonError::into_inner);
        state.sleeps = None;
        state
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.no_receiver = true;
        // Whoever waits for an answer is told by its end.
        let left = std::mem::take(&mut state.items);
        drop(state);
        drop(left);
    }
}

impl<T> State<T> {
    /// Whether what is here does not linger.
    fn hurries(&self) -> bool {
        self.urgent || self.no_sender || self.items.len() >= BATCH
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_is_sent_comes_in_its_order_and_together() {
        let (sender, receiver) = queue();
        sender.send(1).expect("it is there");
        sender.send(2).expect("it is there");
        sender.send_urgent(3).expect("it is there");
        assert_eq!(receiver.take(None), Some(vec![1, 2, 3]));
        assert!(receiver.is_empty());
    }

    #[test]
    fn what_lingers_comes_without_anything_urgent() {
        let (sender, receiver) = queue();
        let thread = thread::spawn(move || receiver.take(None));
        sender.send(1).expect("it is there");
        assert_eq!(thread.join().expect("it ends"), Some(vec![1]));
    }

    #[test]
    fn nobody_sends_and_the_patience_is_over() {
        let (sender, receiver) = queue::<u8>();
        assert_eq!(receiver.take(Some(Duration::from_millis(1))), Some(Vec::new()));
        drop(sender);
        assert_eq!(receiver.take(None), None);
    }

    #[test]
    fn the_last_items_are_taken_after_the_sender_is_gone() {
        let (sender, receiver) = queue();
        sender.send(1).expect("it is there");
        drop(sender);
        assert_eq!((receiver.take(None), receiver.take(None)), (Some(vec![1]), None));
    }

    #[test]
    fn too_many_for_one_time_come_in_two() {
        let (sender, receiver) = queue();
        (0..BATCH + 5).for_each(|number| sender.send(number).expect("it is there"));
        assert_eq!(receiver.take(None), Some((0..BATCH).collect()));
        assert_eq!(receiver.take(None), Some((BATCH..BATCH + 5).collect()));
    }

    #[test]
    fn nothing_is_taken_by_a_thread_that_is_gone() {
        let (sender, receiver) = queue();
        let told = Arc::new(());
        sender.send(told.clone()).expect("it is there");
        drop(receiver);
        assert_eq!(Arc::strong_count(&told), 1, "what was left is let go");
        assert!(sender.send(told).is_err());
    }
}
