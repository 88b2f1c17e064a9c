//! Faults on purpose: how often a model or a tool fails where somebody asked for it, to see what
//! then happens.
//!
//! The draws follow from a seed and the number of the call, so the same run fails in the same
//! places. It must never know who fails.

use std::time::Duration;

use super::fault::{Fault, FaultKind};

/// What is done to the calls of one model or tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Injection {
    /// The share of calls that fail, 0 to 1.
    pub failures: f64,
    /// The HTTP status that those fail with, 400 to 599.
    pub status: u16,
    /// What every call takes before anything else.
    pub latency: Duration,
    /// Another seed draws other calls.
    pub seed: u64,
}

impl Injection {
    /// Whether the call of this number, from 0, fails.
    pub fn strikes(&self, call: u64) -> bool {
        Dice::of(self.seed).at(call) < self.failures
    }

    /// What it fails with.
    pub fn fault(&self) -> Fault {
        let kind = FaultKind::of_status(self.status).unwrap_or(FaultKind::Server);
        let detail = format!("status {} on purpose (inject)", self.status);
        Fault { status: Some(self.status), ..Fault::new(kind, detail) }
    }
}

/// Draws that anybody can repeat.
#[derive(Clone, Copy, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The draws of a seed.
    pub const fn of(seed: u64) -> Self {
        Self(splitmix64(seed))
    }

    /// The draw of this number: from 0, up to but not 1.
    pub fn at(self, number: u64) -> f64 {
        /// What a float of 53 bits can tell apart.
        const STEPS: f64 = 9_007_199_254_740_992.0;
        let bits = splitmix64(self.0.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let share = bits as f64 / STEPS;
        share
    }
}

/// The finaliser of splitmix64: a bijection on 64 bits that scatters neighbours.
pub(super) const fn splitmix64(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(failures: f64, seed: u64) -> usize {
        let injection = Injection { failures, status: 503, latency: Duration::ZERO, seed };
        (0..10_000).filter(|call| injection.strikes(*call)).count()
    }

    #[test]
    fn the_share_is_kept_and_follows_from_the_seed() {
        assert_eq!((struck(0.0, 1), struck(1.0, 1)), (0, 10_000));
        for seed in 0..20 {
            // Four standard deviations of 10,000 draws at 0.1 are 120.
            let count = struck(0.1, seed);
            assert!((880..=1120).contains(&count), "seed {seed} struck {count} of 10000 at 0.1");
            assert_eq!(count, struck(0.1, seed));
        }
    }

    #[test]
    fn another_seed_strikes_other_calls() {
        let of = |seed| (0..64).map(|call| Dice::of(seed).at(call) < 0.5).collect::<Vec<_>>();
        assert_ne!(of(1), of(2));
        assert_ne!(of(1)[1..], of(2)[..63], "nor the same ones later");
    }

    #[test]
    fn splitmix_matches_its_published_first_output() {
        // The first output of splitmix64 seeded with 0, from the reference implementation.
        assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
    }
}
