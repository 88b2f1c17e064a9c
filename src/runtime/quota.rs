//! Who may begin a session now: how many one principal may begin in an hour and run at one time,
//! how many there may be in all, and whether the journal keeps up.
//!
//! What was begun in the last hour is counted in the journal, so that a restart or a second process
//! forgets nothing; what runs, where it runs. Between the count and the first durable fact of a
//! session nobody else of this process begins one for the same principal.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::OwnedMutexGuard;

use super::{Refused, Runtime, live::Place, turns::name_of};
use crate::{
    config::{Config, ShedAbove},
    core::{Fact, Timestamp, fact::RateLimit, port::StoreError},
};

const HOUR: Duration = Duration::from_secs(3600);
/// How long a beginning waits for those of the same principal that came before it.
const PATIENCE: Duration = Duration::from_secs(5);
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

/// How much of its hour a principal had used when its session was begun, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hour {
    limit: u32,
    used: u32,
    /// When the first of those began that count.
    oldest: Option<Timestamp>,
}

/// The right to begin one more session in this hour, held until that session is durable.
#[derive(Default)]
pub(super) struct Share {
    _turn: Option<OwnedMutexGuard<()>>,
    hour: Option<Hour>,
}

/// Refusals that may come in floods: written down together, for the journal is what is short.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<RateLimit, Gathered>>);

#[derive(Default)]
struct Gathered {
    times: u64,
    written: Timestamp,
}

impl Hour {
    /// Of these starts, newest first.
    fn of(limit: u32, starts: &[Timestamp]) -> Self {
        let used = u32::try_from(starts.len()).unwrap_or(u32::MAX);
        Self { limit, used, oldest: starts.last().copied() }
    }

    /// `rate_limits.sessions_per_user_per_hour`.
    pub const fn limit(self) -> u32 {
        self.limit
    }

    const fn is_over(self) -> bool {
        self.used >= self.limit
    }

    /// When the oldest of them no longer counts.
    fn more_in(self, now: Timestamp) -> Option<Duration> {
        self.oldest.map(|oldest| oldest.plus(HOUR).since(now))
    }

    fn quota(self, now: Timestamp) -> Quota {
        let left = self.limit.saturating_sub(self.used);
        let (window, more_in) = (Some(HOUR), self.more_in(now));
        Quota { name: "sessions-per-hour", limit: self.limit, left, window, more_in }
    }
}

impl Share {
    /// What is used up once a session has begun at this time.
    pub(super) fn with_one_at(&self, at: Timestamp) -> Option<Hour> {
        self.hour.map(|hour| Hour { used: hour.used.saturating_add(1), oldest: hour.oldest.or(Some(at)), ..hour })
    }
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

    /// Waits until no other session of this principal begins here, and refuses the one that would
    /// be one too many in an hour. Whoever stops waiting gives its turn to the next.
    pub(super) async fn take_share(&self, principal: &str) -> Result<Share, Refused> {
        let Some(limit) = self.rules(|rules| rules.bounds.per_hour) else { return Ok(Share::default()) };
        let name = name_of(&["hour", principal]);
        let Ok(turn) = tokio::time::timeout(PATIENCE, self.inner.turns.take(name)).await else {
            self.gather(RateLimit::Overload, self.inner.journal.clock().now());
            return Err(Refused::Behind);
        };
        let now = self.inner.journal.clock().now();
        let hour = self.hour(principal, limit, now).await.map_err(Refused::Journal)?;
        if hour.is_over() {
            let wait = hour.more_in(now).unwrap_or_default();
            self.refuse(RateLimit::SessionsPerUser, u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), 1);
            return Err(Refused::TooManySessions { hour, wait });
        }
        Ok(Share { _turn: Some(turn), hour: Some(hour) })
    }

    /// What a principal may still ask for, of every limit that there is. The hour is read, unless
    /// it is known from a beginning of just now.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub async fn quotas(&self, principal: &str, known: Option<Hour>) -> Result<Vec<Quota>, StoreError> {
        let (mut quotas, now) = (Vec::new(), self.inner.journal.clock().now());
        let (per_hour, at_once) = self.rules(|rules| (rules.bounds.per_hour, rules.bounds.at_once));
        if let Some(limit) = per_hour {
            let hour = match known {
                Some(hour) => hour,
                None => self.hour(principal, limit, now).await?,
            };
            quotas.push(hour.quota(now));
        }
        if let Some(limit) = at_once {
            let running = u32::try_from(self.inner.live.running_of(principal)).unwrap_or(u32::MAX);
            let left = limit.saturating_sub(running);
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

    /// Reads how much of the hour before `now` is used.
    async fn hour(&self, principal: &str, limit: u32, now: Timestamp) -> Result<Hour, StoreError> {
        let (owner, since) = (principal.to_owned(), an_hour_before(now));
        let count = usize::try_from(limit).unwrap_or(usize::MAX);
        let starts = self.on_store(move |store| store.recent_starts(&owner, since, count)).await?;
        Ok(Hour::of(limit, &starts))
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
