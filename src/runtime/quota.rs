//! Who may begin a session now: how many one principal may begin in an hour and run at one time,
//! how many there may be in all, and whether the journal keeps up.
//!
//! What was begun in the last hour is counted in the journal, so that a restart or a second process
//! forgets nothing; what runs, where it runs.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{Refused, Runtime, live::Place};
use crate::{
    config::{Config, ShedAbove},
    core::{Fact, Timestamp, fact::RateLimit, port::StoreError},
};

const HOUR: Duration = Duration::from_secs(3600);
/// Where many are refused, one fact in so long says how many.
const GATHERED: Duration = Duration::from_secs(1);

/// The bounds of sessions.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) per_hour: Option<u32>,
    pub(super) at_once: Option<u32>,
    pub(super) shed_above: ShedAbove,
}

impl Bounds {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            per_hour: config.rate_limits.sessions_per_user_per_hour,
            at_once: config.rate_limits.concurrent_sessions_per_user,
            shed_above: config.server.shed_above,
        }
    }
}

/// What a principal may still ask for, of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Its name.
    pub name: &'static str,
    /// How many it allows.
    pub limit: u32,
    /// How many are left.
    pub left: u32,
    /// The time that it allows them in; none for what runs at one time.
    pub window: Option<Duration>,
    /// When there is one more than now; none where nobody can say.
    pub more_in: Option<Duration>,
}

/// Refusals that may come in floods: written down together, for the journal is what is short.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<RateLimit, Gathered>>);

#[derive(Default)]
struct Gathered {
    times: u64,
    written: Timestamp,
}

impl Refusals {
    /// Adds one; gives how many are to be written down now.
    fn add(&self, limit: RateLimit, now: Timestamp) -> Option<u64> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gathered = table.entry(limit).or_default();
        gathered.times += 1;
        gathered.take(now)
    }

    /// What is still to be written down of those whose time is over.
    fn due(&self, now: Timestamp) -> Vec<(RateLimit, u64)> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.iter_mut().filter_map(|(limit, gathered)| Some((*limit, gathered.take(now)?))).collect()
    }
}

impl Gathered {
    fn take(&mut self, now: Timestamp) -> Option<u64> {
        let is_due = self.times > 0 && now.since(self.written) >= GATHERED;
        is_due.then(|| {
            self.written = now;
            std::mem::take(&mut self.times)
        })
    }
}

impl Runtime {
    /// Takes a place for a session of this principal, if those that run are not held up by it, and
    /// records why there is none.
    pub(super) fn admit(&self, principal: &str) -> Result<Place, Refused> {
        let inner = &*self.inner;
        let (now, bounds) = (inner.journal.clock().now(), self.rules(|rules| rules.bounds));
        let above = bounds.shed_above;
        let pressure = inner.journal.writer().pressure(now);
        let queue = usize::try_from(above.queue_facts).unwrap_or(usize::MAX);
        if pressure.queued > queue || pressure.commit > above.commit_time {
            self.gather(RateLimit::Overload, now);
            return Err(Refused::Behind);
        }
        inner.live.reserve_for(principal, bounds.at_once).inspect_err(|refused| match refused {
            Refused::TooManyAtOnce { .. } => self.refuse(RateLimit::ConcurrentPerUser, 0, 1),
            _ => self.gather(RateLimit::MaxSessions, now),
        })
    }

    /// Refuses the session that would be one too many in an hour, and records that it did.
    pub(super) async fn check_quota(&self, principal: &str) -> Result<(), Refused> {
        let Some(limit) = self.rules(|rules| rules.bounds.per_hour) else { return Ok(()) };
        let now = self.inner.journal.clock().now();
        let starts = self.starts(principal, limit, now).await.map_err(Refused::Journal)?;
        if starts.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
            return Ok(());
        }
        let wait = more_in(&starts, now).unwrap_or_default();
        self.refuse(RateLimit::SessionsPerUser, u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), 1);
        Err(Refused::TooManySessions { limit, wait })
    }

    /// What a principal may still ask for, of every limit that there is.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub async fn quotas(&self, principal: &str) -> Result<Vec<Quota>, StoreError> {
        let mut quotas = Vec::new();
        if let Some(limit) = self.rules(|rules| rules.bounds.per_hour) {
            let now = self.inner.journal.clock().now();
            let starts = self.starts(principal, limit, now).await?;
            let (left, more_in) = (left(limit, starts.len()), more_in(&starts, now));
            quotas.push(Quota { name: "sessions-per-hour", limit, left, window: Some(HOUR), more_in });
        }
        if let Some(limit) = self.rules(|rules| rules.bounds.at_once) {
            let left = left(limit, self.inner.live.running_of(principal));
            quotas.push(Quota { name: "concurrent-sessions", limit, left, window: None, more_in: None });
        }
        Ok(quotas)
    }

    /// Writes down the refusals that were gathered, before a stop all of them.
    pub(super) fn write_refusals(&self, stops: bool) {
        let now = self.inner.journal.clock().now();
        for (limit, times) in self.inner.refusals.due(if stops { now.plus(GATHERED) } else { now }) {
            self.refuse(limit, 0, times);
        }
    }

    /// When sessions of the last hour began, newest first.
    async fn starts(&self, principal: &str, limit: u32, now: Timestamp) -> Result<Vec<Timestamp>, StoreError> {
        let (owner, since) = (principal.to_owned(), an_hour_before(now));
        let count = usize::try_from(limit).unwrap_or(usize::MAX);
        self.on_store(move |store| store.recent_starts(&owner, since, count)).await
    }

    fn gather(&self, limit: RateLimit, now: Timestamp) {
        if let Some(times) = self.inner.refusals.add(limit, now) {
            self.refuse(limit, 0, times);
        }
    }

    fn refuse(&self, limit: RateLimit, wait_ms: u64, times: u64) {
        self.inner.system.record(Fact::RateLimited { limit, tool: None, wait_ms, times });
    }
}

fn left(limit: u32, used: usize) -> u32 {
    limit.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
}

/// When the oldest of them no longer counts.
fn more_in(starts: &[Timestamp], now: Timestamp) -> Option<Duration> {
    starts.last().map(|oldest| oldest.plus(HOUR).since(now))
}

fn an_hour_before(now: Timestamp) -> Timestamp {
    let hour = u64::try_from(HOUR.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_sub(hour))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(1_771_410_225_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn a_flood_of_refusals_is_one_fact_a_second_and_none_is_lost() {
        let refusals = Refusals::default();
        assert_eq!(refusals.add(RateLimit::Overload, at(0)), Some(1), "the first is told at once");
        for millis in 1..=500 {
            assert_eq!(refusals.add(RateLimit::Overload, at(millis)), None);
        }
        assert_eq!(refusals.add(RateLimit::MaxSessions, at(600)), Some(1), "each limit by itself");
        assert_eq!(refusals.due(at(999)), []);
        assert_eq!(refusals.due(at(1000)), [(RateLimit::Overload, 500)]);
        assert_eq!(refusals.due(at(9000)), []);
        assert_eq!(refusals.add(RateLimit::Overload, at(9000)), Some(1));
    }
}
