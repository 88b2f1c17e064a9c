//! The writer: one thread that commits what somebody waits for at once, with whatever else was
//! recorded a while ago, and the rest a moment later, so that there are fewer and larger writes.
//!
//! Recording never waits for it. Whoever needs durability asks for the barrier.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::sync::{oneshot, watch};

use super::{
    committer::{Committer, Due},
    lock,
    pace::{Pace, Pressure},
    queue::{self, LINGER, Receiver, Sender},
};
use crate::core::{
    Clock, Entry, Sink, Store, StreamId, Timestamp,
    lease::Holding,
    port::{Blob, JournalWatch, StoreError, StoreErrorKind},
};

/// How long a failed commit waits for its next try.
const RETRY: Duration = Duration::from_millis(250);
/// Facts in the queue from which sessions wait at their step boundary.
const DEEP: usize = 8192;

/// Where commits happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On a thread of its own, several sessions in one commit.
    Thread,
    /// Where the fact is recorded, at once: for tests in paused time, which must not wait for
    /// a thread that their clock does not see.
    Inline,
}

/// What a barrier does while the journal cannot write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// It waits until the journal can write again: the session is suspended meanwhile.
    Wait,
    /// It gives the error.
    Fail,
}

/// A handle to the writer; clones share it.
#[derive(Clone)]
pub struct Writer {
    lane: Lane,
    depth: Arc<AtomicUsize>,
    pace: Arc<Pace>,
    health: watch::Receiver<Option<StoreError>>,
    on_fault: OnFault,
}

#[derive(Clone)]
enum Lane {
    Thread(Arc<Sender<Command>>),
    Inline(Arc<Mutex<Committer>>),
}

enum Command {
    Append(Vec<Arc<Entry>>, Vec<Blob>, Option<Holding>),
    Flush(StreamId, oneshot::Sender<Result<(), StoreError>>),
    Forget(StreamId),
    Stop(oneshot::Sender<Result<(), StoreError>>),
}

impl Writer {
    /// Starts a writer over a store.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(
        mode: Mode,
        on_fault: OnFault,
        store: Arc<dyn Store>,
        sinks: Vec<Box<dyn Sink>>,
        watch: Arc<dyn JournalWatch>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let committer = Committer::new(store, sinks, watch, clock);
        let (depth, pace) = (Arc::new(AtomicUsize::new(0)), committer.pace().clone());
        let (told, health) = watch::channel(None);
        let lane = match mode {
            Mode::Inline => Lane::Inline(Arc::new(Mutex::new(committer))),
            Mode::Thread => {
                let (sender, receiver) = queue::queue();
                let worker = Worker { committer, receiver, depth: depth.clone(), told };
                thread::Builder::new().name("glassbox-journal".into()).spawn(move || worker.run())?;
                Lane::Thread(Arc::new(sender))
            }
        };
        Ok(Self { lane, depth, pace, health, on_fault })
    }

    /// Takes entries of one stream for the next commit, under what the writer holds of it. Never
    /// waits.
    pub(super) fn append(&self, entries: Vec<Arc<Entry>>, blobs: Vec<Blob>, holding: Option<Holding>) {
        match &self.lane {
            Lane::Thread(sender) => {
                self.depth.fetch_add(entries.len(), Ordering::Relaxed);
                // A stopped writer is noticed at the next barrier.
                let _ = sender.send(Command::Append(entries, blobs, holding));
            }
            Lane::Inline(committer) => {
                let mut committer = lock(committer);
                committer.take(entries, blobs, holding);
                committer.commit(Due::All);
            }
        }
    }

    /// The barrier: returns when everything of this stream recorded so far is durable.
    ///
    /// # Errors
    /// Where it cannot be made durable; with [`OnFault::Wait`] only if the stream itself was
    /// refused or the writer has stopped.
    pub async fn flush(&self, stream: StreamId) -> Result<(), StoreError> {
        let mut health = self.health.clone();
        loop {
            match self.flush_once(stream).await {
                Err(error) if self.on_fault == OnFault::Wait && error.kind.may_pass() => {
                    if health.wait_for(Option::is_none).await.is_err() {
                        return Err(stopped());
                    }
                }
                verdict => return verdict,
            }
        }
    }

    async fn flush_once(&self, stream: StreamId) -> Result<(), StoreError> {
        match &self.lane {
            Lane::Thread(sender) => {
                let (answer, answered) = oneshot::channel();
                sender.send_urgent(Command::Flush(stream, answer)).map_err(|_| stopped())?;
                answered.await.unwrap_or_else(|_| Err(stopped()))
            }
            Lane::Inline(committer) => {
                let mut committer = lock(committer);
                committer.commit(Due::All);
                committer.verdict(stream)
            }
        }
    }

    /// Back-pressure at a step boundary: waits while the queue is deep, and goes no further
    /// while the journal cannot write.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub async fn ease(&self, stream: StreamId) -> Result<(), StoreError> {
        let deep = self.depth.load(Ordering::Relaxed) > DEEP;
        if deep || self.health.borrow().is_some() { self.flush(stream).await } else { Ok(()) }
    }

    /// How far it is behind at `now`.
    pub fn pressure(&self, now: Timestamp) -> Pressure {
        Pressure { queued: self.depth.load(Ordering::Relaxed), commit: self.pace.commit(now) }
    }

    /// Waits until the journal cannot write; for ever, if it always can.
    pub async fn trouble(&self) {
        if self.health.clone().wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the journal can write.
    pub async fn recovery(&self) {
        // A writer that stopped tells nothing more; the next barrier says so.
        let _ = self.health.clone().wait_for(Option::is_none).await;
    }

    /// Why the journal cannot write now, if it cannot.
    pub fn fault(&self) -> Option<StoreError> {
        match &self.lane {
            Lane::Thread(_) => self.health.borrow().clone(),
            Lane::Inline(committer) => lock(committer).fault().cloned(),
        }
    }

    /// Forgets what it knows of a stream that ended here.
    pub(super) fn forget(&self, stream: StreamId) {
        match &self.lane {
            Lane::Thread(sender) => {
                let _ = sender.send(Command::Forget(stream));
            }
            Lane::Inline(committer) => lock(committer).forget(stream),
        }
    }

    /// Commits what is left, lets the sinks write out, and ends the thread.
    ///
    /// # Errors
    /// What could not be made durable.
    pub async fn stop(&self) -> Result<(), StoreError> {
        match &self.lane {
            Lane::Thread(sender) => {
                let (answer, answered) = oneshot::channel();
                sender.send_urgent(Command::Stop(answer)).map_err(|_| stopped())?;
                answered.await.unwrap_or_else(|_| Err(stopped()))
            }
            Lane::Inline(committer) => {
                let mut committer = lock(committer);
                committer.commit(Due::All);
                committer.flush_sinks();
                committer.fault().map_or(Ok(()), |fault| Err(fault.clone()))
            }
        }
    }
}

fn stopped() -> StoreError {
    StoreError { kind: StoreErrorKind::Io, detail: "the journal writer has stopped".into() }
}

/// The thread's side.
struct Worker {
    committer: Committer,
    receiver: Receiver<Command>,
    depth: Arc<AtomicUsize>,
    told: watch::Sender<Option<StoreError>>,
}

impl Worker {
    fn run(mut self) {
        while let Some(commands) = self.collect() {
            let (mut flushes, mut asked) = (Vec::new(), Vec::new());
            let mut stop = None;
            for command in commands {
                match command {
                    Command::Append(entries, blobs, holding) => {
                        self.depth.fetch_sub(entries.len(), Ordering::Relaxed);
                        self.committer.take(entries, blobs, holding);
                    }
                    Command::Flush(stream, answer) => {
                        asked.push(stream);
                        flushes.push(answer);
                    }
                    Command::Forget(stream) => self.committer.forget(stream),
                    Command::Stop(answer) => stop = Some(answer),
                }
            }
            self.committer.commit(if flushes.is_empty() || stop.is_some() { Due::All } else { Due::Asked(&asked) });
            self.tell();
            for (stream, answer) in asked.into_iter().zip(flushes) {
                // Whoever asked may have been cancelled meanwhile.
                let _ = answer.send(self.committer.verdict(stream));
            }
            if let Some(answer) = stop {
                self.committer.flush_sinks();
                let _ = answer.send(self.committer.fault().map_or(Ok(()), |fault| Err(fault.clone())));
                return;
            }
        }
        self.committer.commit(Due::All);
        self.committer.flush_sinks();
    }

    /// Waits for a command and takes what else has come; nothing once every handle is gone.
    /// While something waits for its commit, it comes back after a while without any.
    fn collect(&mut self) -> Option<Vec<Command>> {
        if self.committer.fault().is_some() {
            return self.receiver.take(Some(RETRY));
        }
        if self.committer.is_waiting() {
            return self.receiver.take(Some(LINGER));
        }
        if self.receiver.is_empty() {
            self.committer.flush_sinks();
        }
        self.receiver.take(None)
    }

    fn tell(&self) {
        let fault = self.committer.fault();
        self.told.send_if_modified(|told| {
            let changed = told.as_ref() != fault;
            if changed {
                *told = fault.cloned();
            }
            changed
        });
    }
}
