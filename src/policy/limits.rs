//! How often a tool may be called: by all together, and by one principal.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use governor::{
    NotUntil, Quota, RateLimiter,
    clock::Clock as _,
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed, keyed::DashMapStateStore},
};

use crate::core::{Clock, fact::RateLimit};

/// Checks after which principals that are back at their full allowance are forgotten.
const SWEEP: u32 = 1024;

/// How often a tool may be called in a minute; nothing is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolRate {
    /// By all together.
    pub per_minute: Option<NonZeroU32>,
    /// By one principal.
    pub per_principal_per_minute: Option<NonZeroU32>,
}

/// A call that comes too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The limit that it is over.
    pub limit: RateLimit,
    /// After this time one more is allowed.
    pub wait: Duration,
}

/// The rate limits of a process. Clones share what is counted.
#[derive(Clone, Default)]
pub struct Limits {
    tools: Arc<BTreeMap<String, Arc<ToolLimit>>>,
}

struct ToolLimit {
    rate: ToolRate,
    all: Option<RateLimiter<NotKeyed, InMemoryState, Ticks, NoOpMiddleware<Nanos>>>,
    principals: Option<RateLimiter<String, DashMapStateStore<String>, Ticks, NoOpMiddleware<Nanos>>>,
    checks: AtomicU32,
    ticks: Ticks,
}

/// Our clock, in the form that the limiters ask.
#[derive(Clone)]
struct Ticks(Arc<dyn Clock>);

impl governor::clock::Clock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.now().as_nanos())
    }
}

impl Limits {
    /// Limits of these tools; others have none.
    pub fn new(rates: impl IntoIterator<Item = (String, ToolRate)>, clock: &Arc<dyn Clock>) -> Self {
        Self::default().with(rates, clock)
    }

    /// The same with these rates and no others; where a tool's rate is as before, what was counted
    /// counts on.
    #[must_use]
    pub fn with(&self, rates: impl IntoIterator<Item = (String, ToolRate)>, clock: &Arc<dyn Clock>) -> Self {
        let limit = |(tool, rate): (String, ToolRate)| {
            let before = self.tools.get(&tool).filter(|limit| limit.rate == rate).cloned();
            (tool, before.unwrap_or_else(|| Arc::new(ToolLimit::new(rate, Ticks(clock.clone())))))
        };
        Self { tools: Arc::new(rates.into_iter().map(limit).collect()) }
    }

    /// Counts a call of a tool.
    ///
    /// # Errors
    /// The limit that it is over, and for how long.
    pub fn check(&self, tool: &str, principal: &str) -> Result<(), Limited> {
        self.tools.get(tool).map_or(Ok(()), |limit| limit.check(principal))
    }
}

impl ToolLimit {
    fn new(rate: ToolRate, ticks: Ticks) -> Self {
        let all = rate.per_minute.map(|most| RateLimiter::direct_with_clock(Quota::per_minute(most), ticks.clone()));
        let principals = rate
            .per_principal_per_minute
            .map(|most| RateLimiter::dashmap_with_clock(Quota::per_minute(most), ticks.clone()));
        Self { rate, all, principals, checks: AtomicU32::new(0), ticks }
    }

    /// The principal's own limit comes first, so that who is over it takes nothing from others.
    fn check(&self, principal: &str) -> Result<(), Limited> {
        if let Some(principals) = &self.principals {
            if self.checks.fetch_add(1, Ordering::Relaxed) % SWEEP == SWEEP - 1 {
                principals.retain_recent();
                principals.shrink_to_fit();
            }
            let result = principals.check_key(&principal.to_owned());
            result.map_err(|until| self.limited(RateLimit::ToolPrincipal, &until))?;
        }
        let all = self.all.as_ref().map_or(Ok(()), RateLimiter::check);
        all.map_err(|until| self.limited(RateLimit::Tool, &until))
    }

    fn limited(&self, limit: RateLimit, until: &NotUntil<Nanos>) -> Limited {
        Limited { limit, wait: until.wait_time_from(self.ticks.now()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::core::Timestamp;

    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Hand {
        fn pass(&self, seconds: u64) {
            self.0.fetch_add(seconds * 1_000_000_000, Ordering::Relaxed);
        }
    }

    impl Clock for Hand {
        fn now(&self) -> Timestamp {
            Timestamp::from_nanos(1_771_410_225_000_000_000 + self.0.load(Ordering::Relaxed))
        }
    }

    fn limits(all: Option<u32>, principal: Option<u32>) -> (Limits, Arc<Hand>) {
        let hand = Arc::new(Hand::default());
        let clock: Arc<dyn Clock> = hand.clone();
        let rate = ToolRate {
            per_minute: all.and_then(NonZeroU32::new),
            per_principal_per_minute: principal.and_then(NonZeroU32::new),
        };
        (Limits::new([("pay".to_owned(), rate)], &clock), hand)
    }

    fn over(limit: RateLimit, seconds: u64) -> Result<(), Limited> {
        Err(Limited { limit, wait: Duration::from_secs(seconds) })
    }

    #[test]
    fn two_a_minute_are_two_at_once_and_then_one_in_thirty_seconds() {
        let (limits, hand) = limits(Some(2), None);
        let check = || limits.check("pay", "C-001");
        assert_eq!([check(), check(), check()], [Ok(()), Ok(()), over(RateLimit::Tool, 30)]);
        hand.pass(12);
        assert_eq!(check(), over(RateLimit::Tool, 18));
        hand.pass(18);
        assert_eq!([check(), check()], [Ok(()), over(RateLimit::Tool, 30)]);
    }

    #[test]
    fn one_principal_takes_nothing_from_another() {
        let (limits, _) = limits(Some(3), Some(1));
        assert_eq!(limits.check("pay", "C-001"), Ok(()));
        for _ in 0..10 {
            assert_eq!(limits.check("pay", "C-001"), over(RateLimit::ToolPrincipal, 60));
        }
        assert_eq!(limits.check("pay", "C-002"), Ok(()));
        assert_eq!(limits.check("pay", "C-003"), Ok(()));
        assert_eq!(limits.check("pay", "C-004"), over(RateLimit::Tool, 20));
    }

    #[test]
    fn a_rate_that_stays_counts_on_and_one_that_changes_begins_anew() {
        let (before, hand) = limits(Some(1), None);
        let clock: Arc<dyn Clock> = hand;
        assert_eq!(before.check("pay", "C-001"), Ok(()));
        let rate = |most| ToolRate { per_minute: NonZeroU32::new(most), per_principal_per_minute: None };
        let same = before.with([("pay".to_owned(), rate(1))], &clock);
        assert_eq!(same.check("pay", "C-001"), over(RateLimit::Tool, 60));
        let wider = same.with([("pay".to_owned(), rate(2))], &clock);
        assert_eq!([wider.check("pay", "C-001"), wider.check("pay", "C-001")], [Ok(()), Ok(())]);
        assert_eq!(wider.with([], &clock).check("pay", "C-001"), Ok(()), "a limit that was taken away");
    }

    #[test]
    fn a_tool_without_a_limit_has_none() {
        let (limits, _) = limits(Some(1), Some(1));
        assert!((0..100).all(|_| limits.check("look", "C-001").is_ok()));
    }

    #[test]
    fn principals_who_are_long_gone_are_forgotten() {
        let (limits, hand) = limits(None, Some(5));
        for number in 0..5000 {
            assert_eq!(limits.check("pay", &format!("C-{number}")), Ok(()));
            hand.pass(1);
        }
        let kept = limits.tools["pay"].principals.as_ref().expect("a limit").len();
        assert!(kept <= 1024 + 12, "{kept} principals are kept");
    }
}
