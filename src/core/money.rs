//! Money in whole billionths of a US dollar, and what a model's tokens cost.
//!
//! Sums are integers, so that they are the same in any order and in any process; a fraction of a
//! billionth is rounded up once a call. It must never know which model is asked, or for whom.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::message::Usage;

/// Prices are given for so many tokens.
const UNIT: u128 = 1_000_000;
/// Billionths of a dollar in a millionth.
const MICRO: u64 = 1_000;

/// An amount in billionths of a US dollar (nano-dollars).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money(u64);

/// What a model's tokens cost: each the price of a million of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Input that no cache is involved in.
    pub input: Money,
    /// Output, reasoning included.
    pub output: Money,
    /// Input that is read from a cache.
    pub cache_read: Money,
    /// Input that is written to a cache.
    pub cache_write: Money,
}

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many billionths of a dollar.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Billionths of a dollar.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Dollars, for people and for signals; never summed up.
    #[expect(clippy::cast_precision_loss, reason = "a display of money, exact up to nine million dollars")]
    pub const fn usd(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left of it, and never less than nothing.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Money {
    /// Dollars with two to six digits, rounded up: `$0.0123`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.div_ceil(MICRO);
        let digits = format!("{:06}", micros % 1_000_000);
        let short = digits.trim_end_matches('0');
        write!(f, "${}.{short:0<2}", micros / 1_000_000)
    }
}

impl Prices {
    /// What a call cost. The parts from and into a cache are subsets of the input, which is what
    /// every provider's count is brought to.
    pub fn cost(&self, usage: &Usage) -> Money {
        let plain = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
        sum(&[
            (plain, self.input),
            (usage.cache_read, self.cache_read),
            (usage.cache_write, self.cache_write),
            (usage.output, self.output),
        ])
    }

    /// What so much input of the next call costs at the most, as long as no cache makes it dearer
    /// than writing to one does.
    pub fn of_input(&self, tokens: u64) -> Money {
        sum(&[(tokens, self.input.max(self.cache_write))])
    }

    /// Output tokens that this money buys.
    pub fn output_for(&self, money: Money) -> u64 {
        match u128::from(self.output.0) {
            0 => u64::MAX,
            price => u64::try_from(u128::from(money.0) * UNIT / price).unwrap_or(u64::MAX),
        }
    }
}

fn sum(parts: &[(u64, Money)]) -> Money {
    let of = |(tokens, price): &(u64, Money)| u128::from(*tokens) * u128::from(price.0);
    let total = parts.iter().map(of).fold(0, u128::saturating_add);
    Money(u64::try_from(total.div_ceil(UNIT)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// $3 in, $15 out, $0.30 from the cache, $3.75 into it.
    const PRICES: Prices = Prices {
        input: Money(3_000_000_000),
        output: Money(15_000_000_000),
        cache_read: Money(300_000_000),
        cache_write: Money(3_750_000_000),
    };

    #[test]
    fn parts_of_the_input_have_their_own_price_and_are_not_paid_twice() {
        // 5 plain, 128,955 read, 1,253 written, 1 out: 15 + 38,686.5 + 4,698.75 + 15 micro-dollars.
        let usage = Usage { input: 130_213, output: 1, cache_read: 128_955, cache_write: 1_253, ..Usage::default() };
        assert_eq!(PRICES.cost(&usage), Money(43_415_250));
        // 200 plain, 800 read, 50 out with reasoning among them: 600 + 240 + 750 micro-dollars.
        let usage = Usage { input: 1000, output: 50, cache_read: 800, reasoning: 30, ..Usage::default() };
        assert_eq!(PRICES.cost(&usage), Money(1_590_000));
    }

    #[test]
    fn a_fraction_of_a_billionth_is_rounded_up() {
        let prices = Prices { input: Money(1), output: Money(0), cache_read: Money(1), cache_write: Money(1) };
        assert_eq!(prices.cost(&Usage { input: 1, ..Usage::default() }), Money(1));
        assert_eq!(prices.cost(&Usage { input: 1_000_001, ..Usage::default() }), Money(2));
        assert_eq!(prices.output_for(Money(1)), u64::MAX);
    }

    #[test]
    fn dollars_are_short() {
        for (nanos, text) in [
            (0, "$0.00"),
            (1, "$0.000001"),
            (12_300_000, "$0.0123"),
            (1_500_000_000, "$1.50"),
            (2_000_000_000, "$2.00"),
            (999_999_999, "$1.00"),
        ] {
            assert_eq!(Money(nanos).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn output_that_money_buys_costs_no_more_than_the_money(money in 0..u64::MAX / 2, price in 1..u64::MAX) {
            let prices = Prices { output: Money(price), ..PRICES };
            let bought = prices.output_for(Money(money));
            let cost = prices.cost(&Usage { output: bought, ..Usage::default() });
            prop_assert!(cost <= Money(money), "{}", cost);
        }
    }
}
