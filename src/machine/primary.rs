//! The record of one model that has a fallback: whether calls go straight to the fallback, and
//! who may try the model itself meanwhile.
//!
//! Only a failure begins it and only a success ends it: idle time alone says nothing of a model.
//! It must never read a clock or hold a lock: time comes in, moves come out of
//! [`Primary::take_move`].

use std::time::Duration;

use crate::core::Timestamp;

/// How long a model may fail, without a success in between, before calls go straight to the
/// fallback.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The record of one primary model.
#[derive(Clone, Debug)]
pub struct Primary {
    /// From the last failure to a probe.
    pace: Duration,
    failing: Option<Failing>,
    probing: bool,
    /// What was told last.
    told_down: bool,
}

/// Failures without a success in between.
#[derive(Clone, Copy, Debug)]
struct Failing {
    first: Timestamp,
    last: Timestamp,
}

/// The right to ask the primary once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a probe that is never given back keeps all others out"]
pub enum Pass {
    /// It is up: nothing hangs on this call.
    Plain,
    /// It is down: this call is the only one that tries it.
    Probe,
}

impl Primary {
    /// One that has not failed; while it is down it is tried `pace` after its last failure.
    pub const fn new(pace: Duration) -> Self {
        Self { pace, failing: None, probing: false, told_down: false }
    }

    /// Whether calls go straight to the fallback, probes left aside.
    pub fn is_down(&self, now: Timestamp) -> bool {
        self.failing.is_some_and(|failing| now.since(failing.first) >= PATIENCE)
    }

    /// Whether a call may ask it now.
    pub fn may_ask(&self, now: Timestamp) -> bool {
        let due = || self.failing.is_none_or(|failing| now.since(failing.last) >= self.pace);
        !self.is_down(now) || (!self.probing && due())
    }

    /// Asks for the right to ask it.
    pub fn admit(&mut self, now: Timestamp) -> Option<Pass> {
        if !self.may_ask(now) {
            return None;
        }
        if !self.is_down(now) {
            return Some(Pass::Plain);
        }
        self.probing = true;
        Some(Pass::Probe)
    }

    /// Gives the right back, whatever became of the call.
    #[expect(clippy::needless_pass_by_value, reason = "a pass is good for one call")]
    pub const fn give_back(&mut self, pass: Pass) {
        if matches!(pass, Pass::Probe) {
            self.probing = false;
        }
    }

    /// An attempt failed.
    pub fn fail(&mut self, now: Timestamp) {
        let first = self.failing.map_or(now, |failing| failing.first);
        self.failing = Some(Failing { first, last: now });
    }

    /// An attempt succeeded.
    pub const fn succeed(&mut self) {
        self.failing = None;
    }

    /// When time alone makes it count as down.
    pub fn next_move(&self) -> Option<Timestamp> {
        self.failing.filter(|_| !self.told_down).map(|failing| failing.first.plus(PATIENCE))
    }

    /// Whether it is down now, if that is news.
    pub fn take_move(&mut self, now: Timestamp) -> Option<bool> {
        let down = self.is_down(now);
        (std::mem::replace(&mut self.told_down, down) != down).then_some(down)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn failing_since(seconds: u64) -> Primary {
        let mut primary = Primary::new(PACE);
        primary.fail(at(seconds));
        primary
    }

    #[test]
    fn idle_time_alone_never_counts() {
        let mut primary = Primary::new(PACE);
        assert!(!primary.is_down(at(1_000_000)));
        assert_eq!(primary.next_move(), None);
        assert_eq!(primary.admit(at(1_000_000)), Some(Pass::Plain));
    }

    #[test]
    fn thirty_seconds_count_from_the_first_failure() {
        let mut primary = failing_since(100);
        primary.fail(at(129));
        assert_eq!(primary.next_move(), Some(at(130)));
        assert!(!primary.is_down(at(129)) && primary.is_down(at(130)));
        assert_eq!(primary.take_move(at(129)), None);
        assert_eq!(primary.take_move(at(130)), Some(true));
        assert_eq!((primary.take_move(at(131)), primary.next_move()), (None, None), "it is told once");
    }

    #[test]
    fn a_success_in_between_begins_the_count_anew() {
        let mut primary = failing_since(100);
        primary.succeed();
        primary.fail(at(125));
        assert!(!primary.is_down(at(154)));
        assert!(primary.is_down(at(155)));
    }

    #[test]
    fn one_probe_at_a_time_a_pace_after_the_last_failure() {
        let mut primary = failing_since(100);
        primary.fail(at(110));
        assert_eq!(primary.admit(at(169)), None);
        assert_eq!(primary.admit(at(170)), Some(Pass::Probe));
        assert_eq!(primary.admit(at(171)), None, "one is under way");
        primary.give_back(Pass::Probe);
        assert_eq!(primary.admit(at(172)), Some(Pass::Probe), "a probe that said nothing is made again");
        primary.fail(at(180));
        primary.give_back(Pass::Probe);
        assert_eq!(primary.admit(at(239)), None, "one that failed is waited after");
        assert_eq!(primary.admit(at(240)), Some(Pass::Probe));
        primary.succeed();
        primary.give_back(Pass::Probe);
        assert_eq!(primary.admit(at(241)), Some(Pass::Plain), "it is taken back");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever happens in whatever order: it is down exactly where an own count over the
        /// history says so, and while it is, no two hold a pass.
        #[test]
        fn it_is_down_by_its_history_and_probed_by_one(steps in proptest::collection::vec((0u8..4, 0u64..25), 1..60)) {
            let mut primary = Primary::new(PACE);
            let (mut now, mut failures, mut probes) = (0, Vec::new(), 0);
            for (act, pause) in steps {
                now += pause;
                let down = failures.first().is_some_and(|first| now - first >= 30);
                prop_assert_eq!(primary.is_down(at(now)), down);
                match act {
                    0 => {
                        primary.fail(at(now));
                        failures.push(now);
                    }
                    1 => {
                        primary.succeed();
                        failures.clear();
                    }
                    2 => match primary.admit(at(now)) {
                        Some(Pass::Plain) => prop_assert!(!down),
                        Some(Pass::Probe) => {
                            prop_assert!(down && now - failures[failures.len() - 1] >= 60);
                            probes += 1;
                        }
                        None => prop_assert!(down),
                    },
                    _ if probes > 0 => {
                        primary.give_back(Pass::Probe);
                        probes -= 1;
                    }
                    _ => {}
                }
                prop_assert!(probes <= 1, "two probes at a time");
            }
        }
    }
}
