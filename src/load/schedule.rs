//! When sessions begin, as times from the start of a stage: drawn beforehand by rate and seed,
//! whatever the service does.

use std::time::Duration;

use crate::core::inject::Dice;

/// How arrivals are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// One after the other, at equal distances.
    Constant,
    /// By chance and without memory, as callers who know nothing of each other come.
    Poisson,
}

impl Arrivals {
    /// Each with its word.
    pub const ALL: [(&'static str, Self); 2] = [("constant", Self::Constant), ("poisson", Self::Poisson)];

    /// Its word.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
        }
    }
}

/// The times of arrivals, without end, never going back.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    arrivals: Arrivals,
    /// Arrivals a second.
    rate: f64,
    dice: Dice,
    number: u64,
    /// Seconds, of the arrival before.
    last: f64,
}

impl Schedule {
    /// So many arrivals a second, which must be more than none.
    pub(super) fn new(arrivals: Arrivals, rate: f64, seed: u64) -> Self {
        Self { arrivals, rate, dice: Dice::of(seed), number: 0, last: 0.0 }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let number = self.number;
        self.number += 1;
        self.last = match self.arrivals {
            // By the number and not by adding up, so that no error grows.
            #[expect(clippy::cast_precision_loss, reason = "nobody waits for 2^53 arrivals")]
            Arrivals::Constant => number as f64 / self.rate,
            // The distance between arrivals without memory is exponential; 1 - draw is never 0.
            Arrivals::Poisson => self.last - (1.0 - self.dice.at(number)).ln() / self.rate,
        };
        Some(Duration::from_secs_f64(self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(arrivals: Arrivals, rate: f64, seed: u64, seconds: u64) -> Vec<Duration> {
        Schedule::new(arrivals, rate, seed).take_while(|at| *at < Duration::from_secs(seconds)).collect()
    }

    #[test]
    fn constant_arrivals_are_equally_far_apart_and_do_not_drift() {
        let times = within(Arrivals::Constant, 5.0, 1, 3600);
        assert_eq!(times.len(), 18_000);
        assert_eq!(times[..3], [0, 200, 400].map(Duration::from_millis));
        assert_eq!(times[17_999], Duration::from_millis(3_599_800));
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_scatter_as_much_as_their_mean() {
        // 50 a second for 400 seconds: 20,000, with a standard deviation of 141.
        let times = within(Arrivals::Poisson, 50.0, 7, 400);
        assert!((19_400..=20_600).contains(&times.len()), "{}", times.len());
        // Counts of single seconds: their variance is their mean, 50; of 400 such counts it is
        // within a third of that, and would be 0 for constant arrivals.
        let mut counts = vec![0.0; 400];
        times.iter().for_each(|at| counts[usize::try_from(at.as_secs()).expect("small")] += 1.0);
        let mean = counts.iter().sum::<f64>() / 400.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 399.0;
        assert!((33.0..67.0).contains(&variance), "{variance}");
        assert!(times.is_sorted());
    }

    #[test]
    fn a_seed_gives_the_same_times_again() {
        assert_eq!(within(Arrivals::Poisson, 5.0, 3, 60), within(Arrivals::Poisson, 5.0, 3, 60));
        assert_ne!(within(Arrivals::Poisson, 5.0, 3, 60), within(Arrivals::Poisson, 5.0, 4, 60));
    }
}
