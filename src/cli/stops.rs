//! The signals by which somebody asks a command to stop.
//!
//! It must never know what stopping means.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interrupts, terminations and a terminal that hangs up.
pub(super) struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Stops {
    /// Catches them from now on.
    pub(super) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // `nohup` means that the command outlives its terminal: what is ignored stays ignored.
            hangup: if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// The next one; gives the exit code of a program that it ends.
    pub(super) async fn next(&mut self) -> u8 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = hangup => 129,
        }
    }
}

/// Whether whoever started this program had it ignore SIGHUP, where the system says so.
fn hangup_is_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status))
}

/// SIGHUP is signal 1, the lowest bit of the mask.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_that_is_ignored_is_seen() {
        assert!(ignores_hangup("Name:\tglassbox\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\n"));
        assert!(!ignores_hangup("Name:\tglassbox\n"));
    }
}
