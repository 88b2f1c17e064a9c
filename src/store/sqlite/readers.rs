//! A small pool of connections that only read, so that lists and journals are read while a
//! commit waits for the disk. It must never know what is read.

use std::sync::{Condvar, Mutex, PoisonError};

use rusqlite::Connection;

/// The connections that nobody uses at the moment.
#[derive(Debug)]
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    returned: Condvar,
}

/// A connection on loan; goes back when dropped, also by a panic.
struct Loan<'a> {
    readers: &'a Readers,
    conn: Option<Connection>,
}

impl Readers {
    /// A pool of these connections, of which there is at least one.
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        debug_assert!(!connections.is_empty(), "a pool without connections would wait for ever");
        Self { idle: Mutex::new(connections), returned: Condvar::new() }
    }

    /// Reads with one of the connections; waits while all are in use.
    pub(super) fn read<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        let loan = self.lend();
        work(loan.conn.as_ref().expect("a loan holds its connection until it is dropped"))
    }

    fn lend(&self) -> Loan<'_> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match idle.pop() {
                Some(conn) => return Loan { readers: self, conn: Some(conn) },
                None => idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            self.readers.returned.notify_one();
        }
    }
}
