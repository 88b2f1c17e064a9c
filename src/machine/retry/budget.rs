//! A budget of retries: while one side fails for everybody, repeating every attempt would only
//! add to its load. Each call earns a fifth of a retry; a small floor lets a quiet service retry.

use std::time::Duration;

use crate::core::Timestamp;

/// Calls that earn one retry.
const CALLS_A_RETRY: u32 = 5;
/// Retries that may be saved up.
const MOST: u32 = 100;
/// Retries that are always there after a while, whatever was called.
const FLOOR: u32 = 10;
/// The time in which one retry of the floor comes back.
const FLOOR_EVERY: Duration = Duration::from_secs(1);

/// What is left to spend on retries, in fifths of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    fifths: u32,
    refilled: Timestamp,
}

impl Budget {
    /// A budget that holds its floor.
    pub const fn new(now: Timestamp) -> Self {
        Self { fifths: FLOOR * CALLS_A_RETRY, refilled: now }
    }

    /// Earns for a call that begins.
    pub fn earn(&mut self) {
        self.fifths = (self.fifths + 1).min(MOST * CALLS_A_RETRY);
    }

    /// Spends one retry, if there is one.
    pub fn spend(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        let rest = self.fifths.checked_sub(CALLS_A_RETRY);
        self.fifths = rest.unwrap_or(self.fifths);
        rest.is_some()
    }

    /// Time fills it up to the floor and no further.
    fn refill(&mut self, now: Timestamp) {
        let ticks = now.since(self.refilled).as_nanos() / FLOOR_EVERY.as_nanos();
        let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
        self.refilled = self.refilled.plus(FLOOR_EVERY.saturating_mul(ticks));
        let floor = FLOOR * CALLS_A_RETRY;
        if self.fifths < floor {
            self.fifths = self.fifths.saturating_add(ticks.saturating_mul(CALLS_A_RETRY)).min(floor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::default().plus(Duration::from_secs(seconds))
    }

    fn spend_all(budget: &mut Budget, now: Timestamp) -> usize {
        std::iter::repeat_with(|| budget.spend(now)).take_while(|spent| *spent).count()
    }

    #[test]
    fn a_quiet_service_has_its_floor() {
        let mut budget = Budget::new(at(0));
        assert_eq!(spend_all(&mut budget, at(0)), 10);
        assert_eq!(spend_all(&mut budget, at(3)), 3);
        assert_eq!(spend_all(&mut budget, at(1000)), 10);
    }

    #[test]
    fn five_calls_earn_one_retry() {
        let mut budget = Budget::new(at(0));
        spend_all(&mut budget, at(0));
        for _ in 0..104 {
            budget.earn();
        }
        assert_eq!(spend_all(&mut budget, at(0)), 20);
    }

    #[test]
    fn savings_have_a_bound_and_time_adds_nothing_to_them() {
        let mut budget = Budget::new(at(0));
        for _ in 0..10_000 {
            budget.earn();
        }
        assert_eq!(spend_all(&mut budget, at(5000)), 100);
    }
}
