//! Whether an attempt is made again, and after which wait.
//!
//! It must never read a clock or draw a number: what has passed and chance come in.

mod budget;

use std::time::Duration;

pub use self::budget::Budget;
use crate::core::{Effect, Fault, FaultKind};

/// Share of a wait by which it varies each way.
const JITTER: f64 = 0.2;

/// How often and when an attempt is made again. What is in none of the lists follows its
/// [`FaultKind`].
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Attempts together, the first included.
    pub max_attempts: u32,
    /// The wait before the second attempt.
    pub initial_delay: Duration,
    /// What each further wait is multiplied with.
    pub multiplier: f64,
    /// Whether a wait is varied by up to 20 % each way.
    pub jitter: bool,
    /// The longest wait; a service that asks for more is not waited for.
    pub max_delay: Duration,
    /// Statuses after which it is tried again.
    pub retryable_statuses: Vec<u16>,
    /// Statuses after which it is not.
    pub final_statuses: Vec<u16>,
    /// Kinds of fault after which it is tried again.
    pub retryable_kinds: Vec<FaultKind>,
    /// Kinds of fault after which it is not.
    pub final_kinds: Vec<FaultKind>,
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Another attempt, after this time.
    Wait(Duration),
    /// The fault stands.
    GiveUp(GiveUp),
}

/// Why no further attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// A fault of this sort would only come back.
    Final,
    /// The call may have had its effect already.
    Effect,
    /// All attempts are made.
    Attempts,
    /// The service asks for a longer wait than is allowed.
    RetryAfter,
    /// The session would be over before the next attempt.
    Deadline,
}

impl Policy {
    /// One attempt and no more.
    pub const fn never() -> Self {
        Self {
            max_attempts: 1,
            initial_delay: Duration::ZERO,
            multiplier: 1.0,
            jitter: false,
            max_delay: Duration::ZERO,
            retryable_statuses: Vec::new(),
            final_statuses: Vec::new(),
            retryable_kinds: Vec::new(),
            final_kinds: Vec::new(),
        }
    }

    /// The same for calls of models. A model changes nothing and writes something else each time,
    /// so a reply that cannot be read is asked for again, like one that broke off. A tool's answer
    /// that cannot be read stays final: the tool may have done its work.
    #[must_use]
    pub fn for_models(mut self) -> Self {
        self.retryable_kinds.push(FaultKind::Malformed);
        self
    }

    /// Whether this fault is worth another attempt. A listed status wins, then a listed kind,
    /// then the kind itself.
    pub fn retries(&self, fault: &Fault) -> bool {
        let status = |list: &[u16]| fault.status.is_some_and(|status| list.contains(&status));
        if status(&self.retryable_statuses) {
            true
        } else if status(&self.final_statuses) {
            false
        } else if self.retryable_kinds.contains(&fault.kind) {
            true
        } else {
            !self.final_kinds.contains(&fault.kind) && fault.kind.retryable()
        }
    }

    /// Decides after attempt number `attempt` (from 1) ended in `fault`. `left` is what remains
    /// of the session's time, `random` a number from 0 up to 1.
    pub fn decide(&self, attempt: u32, fault: &Fault, effect: Effect, left: Duration, random: f64) -> Decision {
        if !self.retries(fault) {
            return Decision::GiveUp(GiveUp::Final);
        }
        if effect == Effect::Unsafe && !fault.kind.surely_not_executed() {
            return Decision::GiveUp(GiveUp::Effect);
        }
        if attempt >= self.max_attempts {
            return Decision::GiveUp(GiveUp::Attempts);
        }
        let asked = fault.retry_after.unwrap_or_default();
        if asked > self.max_delay {
            return Decision::GiveUp(GiveUp::RetryAfter);
        }
        let wait = self.backoff(attempt, random).max(asked);
        if wait >= left {
            return Decision::GiveUp(GiveUp::Deadline);
        }
        Decision::Wait(wait)
    }

    /// The wait after attempt number `attempt`, which no service asked for.
    fn backoff(&self, attempt: u32, random: f64) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let vary = if self.jitter { 1.0 - JITTER + 2.0 * JITTER * random } else { 1.0 };
        let seconds = self.initial_delay.as_secs_f64() * self.multiplier.powi(exponent) * vary;
        Duration::try_from_secs_f64(seconds).unwrap_or(self.max_delay).min(self.max_delay)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The seed's policy for models.
    fn seed() -> Policy {
        Policy {
            max_attempts: 3,
            initial_delay: Duration::from_secs(1),
            multiplier: 2.0,
            jitter: true,
            max_delay: Duration::from_secs(30),
            retryable_statuses: vec![429, 503, 529],
            final_statuses: vec![400, 401, 413],
            retryable_kinds: Vec::new(),
            final_kinds: Vec::new(),
        }
    }

    fn overloaded() -> Fault {
        Fault::new(FaultKind::Overloaded, "busy").status(529)
    }

    fn decide(policy: &Policy, attempt: u32, fault: &Fault) -> Decision {
        policy.decide(attempt, fault, Effect::Read, Duration::from_secs(600), 0.5)
    }

    const fn wait(millis: u64) -> Decision {
        Decision::Wait(Duration::from_millis(millis))
    }

    #[test]
    fn three_attempts_are_two_waits_of_one_and_two_seconds() {
        let decisions: Vec<_> = (1..=3).map(|attempt| decide(&seed(), attempt, &overloaded())).collect();
        assert_eq!(decisions, [wait(1000), wait(2000), Decision::GiveUp(GiveUp::Attempts)]);
    }

    #[test]
    fn jitter_is_a_fifth_each_way() {
        let at = |random| seed().decide(1, &overloaded(), Effect::Read, Duration::from_secs(600), random);
        assert_eq!(at(0.0), wait(800));
        assert_eq!(at(0.25), wait(900));
        let Decision::Wait(most) = at(0.999_999) else { panic!("it is retried") };
        assert!(most < Duration::from_millis(1200) && most > Duration::from_millis(1199), "{most:?}");
    }

    #[test]
    fn the_tools_of_the_seed_wait_half_a_second_once() {
        let policy = Policy {
            max_attempts: 2,
            initial_delay: Duration::from_millis(500),
            multiplier: 1.5,
            jitter: false,
            ..seed()
        };
        assert_eq!(decide(&policy, 1, &overloaded()), wait(500));
        assert_eq!(decide(&policy, 2, &overloaded()), Decision::GiveUp(GiveUp::Attempts));
    }

    #[test]
    fn retry_after_is_a_lower_bound() {
        let asked = |seconds| overloaded().retry_after(Duration::from_secs(seconds));
        assert_eq!(decide(&seed(), 1, &asked(0)), wait(1000));
        assert_eq!(decide(&seed(), 1, &asked(7)), wait(7000));
        assert_eq!(decide(&seed(), 1, &asked(30)), wait(30_000));
        assert_eq!(decide(&seed(), 1, &asked(31)), Decision::GiveUp(GiveUp::RetryAfter));
    }

    #[test]
    fn nothing_is_waited_for_beyond_the_deadline() {
        let left = |millis| seed().decide(1, &overloaded(), Effect::Read, Duration::from_millis(millis), 0.5);
        assert_eq!(left(1001), wait(1000));
        assert_eq!(left(1000), Decision::GiveUp(GiveUp::Deadline));
    }

    #[test]
    fn a_listed_status_wins_and_the_rest_follows_the_kind() {
        let policy = Policy { retryable_statuses: vec![418], ..seed() };
        let fault = |kind, status: Option<u16>| Fault { status, ..Fault::new(kind, "x") };
        assert!(policy.retries(&fault(FaultKind::Refused, Some(418))));
        assert!(!policy.retries(&fault(FaultKind::ContextTooLong, Some(413))));
        assert!(policy.retries(&fault(FaultKind::Server, Some(500))));
        assert!(policy.retries(&fault(FaultKind::Connection, None)));
        assert!(!policy.retries(&fault(FaultKind::Auth, None)));
        let policy = Policy { final_kinds: vec![FaultKind::Timeout], ..seed() };
        assert!(!policy.retries(&fault(FaultKind::Timeout, None)));
    }

    #[test]
    fn a_reply_that_cannot_be_read_is_asked_for_again_of_models_only() {
        let malformed = Fault::new(FaultKind::Malformed, "x");
        assert_eq!(decide(&seed(), 1, &malformed), Decision::GiveUp(GiveUp::Final));
        let models = seed().for_models();
        assert_eq!(decide(&models, 1, &malformed), wait(1000));
        assert_eq!(decide(&models, 3, &malformed), Decision::GiveUp(GiveUp::Attempts));
    }

    #[test]
    fn an_unsafe_call_is_repeated_only_if_it_surely_did_not_happen() {
        let repeated: Vec<_> = FaultKind::ALL
            .into_iter()
            .filter(|kind| {
                let fault = Fault::new(*kind, "x");
                let decision = seed().decide(1, &fault, Effect::Unsafe, Duration::from_secs(600), 0.5);
                matches!(decision, Decision::Wait(_))
            })
            .collect();
        assert_eq!(repeated, [FaultKind::Connection, FaultKind::RateLimited]);
    }

    proptest! {
        #[test]
        fn waits_stay_inside_their_bounds(
            attempt in 1_u32..40,
            initial in 0_u64..10_000,
            multiplier in 1.0_f64..10.0,
            jitter: bool,
            cap in 0_u64..60_000,
            asked in proptest::option::of(0_u64..120_000),
            left in 0_u64..600_000,
            random in 0.0_f64..1.0,
        ) {
            let policy = Policy {
                max_attempts: 30,
                initial_delay: Duration::from_millis(initial),
                multiplier,
                jitter,
                max_delay: Duration::from_millis(cap),
                ..seed()
            };
            let fault = Fault { retry_after: asked.map(Duration::from_millis), ..overloaded() };
            match policy.decide(attempt, &fault, Effect::Read, Duration::from_millis(left), random) {
                Decision::Wait(wait) => {
                    prop_assert!(attempt < 30);
                    prop_assert!(wait <= policy.max_delay);
                    prop_assert!(wait < Duration::from_millis(left));
                    prop_assert!(wait >= fault.retry_after.unwrap_or_default());
                    let low = if jitter { 0.8 } else { 1.0 };
                    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                    let least = (initial as f64 * low).min(cap as f64);
                    prop_assert!(wait.as_secs_f64() * 1000.0 >= least - 0.001);
                }
                Decision::GiveUp(GiveUp::Attempts) => prop_assert!(attempt >= 30),
                Decision::GiveUp(GiveUp::RetryAfter) => prop_assert!(asked.is_some_and(|asked| asked > cap)),
                Decision::GiveUp(GiveUp::Deadline) => prop_assert!(left <= cap.max(asked.unwrap_or_default())),
                Decision::GiveUp(GiveUp::Final | GiveUp::Effect) => prop_assert!(false, "529 is retryable"),
            }
        }
    }
}
