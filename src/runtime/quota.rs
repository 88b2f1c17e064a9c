//! How many sessions one principal may begin in an hour. Counted in the journal, so that a
//! restart or a second process forgets nothing.

use std::time::Duration;

use super::{Refused, Runtime};
use crate::core::{Fact, Timestamp, fact::RateLimit};

const HOUR: Duration = Duration::from_secs(3600);

impl Runtime {
    /// Refuses the session that would be one too many, and records that it did.
    pub(super) async fn check_quota(&self, principal: &str) -> Result<(), Refused> {
        let Some(limit) = self.inner.sessions_per_hour else { return Ok(()) };
        let (now, count) = (self.inner.journal.clock().now(), usize::try_from(limit).unwrap_or(usize::MAX));
        let (owner, since) = (principal.to_owned(), an_hour_before(now));
        let starts = self.on_store(move |store| store.recent_starts(&owner, since, count)).await;
        let starts = starts.map_err(Refused::Journal)?;
        match starts.get(count - 1) {
            Some(oldest) => {
                let wait = oldest.plus(HOUR).since(now);
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                self.inner.system.record(Fact::RateLimited {
                    limit: RateLimit::SessionsPerUser,
                    tool: None,
                    wait_ms,
                    times: 1,
                });
                Err(Refused::TooManySessions { limit, wait })
            }
            None => Ok(()),
        }
    }
}

fn an_hour_before(now: Timestamp) -> Timestamp {
    let hour = u64::try_from(HOUR.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_sub(hour))
}
