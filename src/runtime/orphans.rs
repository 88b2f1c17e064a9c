//! Sessions that nobody drives, round after round: those that can go on are taken up, those that
//! cannot are tried again later and later, and never stand in the way of the others.

use std::{collections::HashMap, time::Duration};

use super::{NotResumed, Runtime};
use crate::core::{SessionId, Timestamp};

/// Sessions taken up in one round at the most: a restart after a crash must not be a stampede.
const ROUND: usize = 32;
/// The wait after the first failure; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait: an agent that is configured again finds its sessions within the hour.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// What this process remembers of sessions that it could not resume.
#[derive(Default)]
pub(super) struct Orphans {
    put_off: HashMap<SessionId, PutOff>,
}

struct PutOff {
    until: Timestamp,
    wait: Duration,
}

impl Orphans {
    /// Takes up what can go on now.
    pub(super) async fn take_up(&mut self, runtime: &Runtime) {
        let orphans = match runtime.orphans().await {
            Ok(orphans) => orphans,
            Err(error) => {
                tracing::warn!(target: "glassbox", %error, "cannot look for sessions that nobody drives");
                return;
            }
        };
        self.put_off.retain(|id, _| orphans.contains(id));
        let now = runtime.inner.journal.clock().now();
        let due = |id: &SessionId| self.put_off.get(id).is_none_or(|put_off| put_off.until <= now);
        // What is driven here looks abandoned while its lease could not be renewed.
        let due = orphans.into_iter().filter(due).filter(|id| runtime.inner.live.find(*id).is_none());
        for id in due.take(ROUND).collect::<Vec<_>>() {
            match runtime.resume(id).await {
                Ok(_) => tracing::info!(target: "glassbox", session = %id, "resumed"),
                // Somebody else was faster, or it ended meanwhile: as it should be.
                Err(NotResumed::Held { .. } | NotResumed::Runs(_) | NotResumed::Ended(_)) => {}
                Err(NotResumed::Refused(_)) => return,
                Err(why) => self.put_off(id, now, &why),
            }
        }
    }

    fn put_off(&mut self, id: SessionId, now: Timestamp, why: &NotResumed) {
        let wait = self.put_off.get(&id).map_or(FIRST_WAIT, |before| (before.wait * 2).min(LONGEST_WAIT));
        tracing::warn!(target: "glassbox", session = %id, %why, again_in = ?wait, "not resumed");
        self.put_off.insert(id, PutOff { until: now.plus(wait), wait });
    }
}
