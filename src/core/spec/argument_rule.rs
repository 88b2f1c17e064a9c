//! A rule on the arguments of a call, such as "more than 100000".
//!
//! It must never know what follows from it.

use serde_json::Value;

/// A rule on one argument. What cannot be judged counts as met, so that the cautious thing happens.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentRule {
    /// JSON Pointer into the arguments, such as `/amount`.
    pub pointer: String,
    /// What the argument is held against.
    pub test: ArgumentTest,
}

/// What an argument is held against.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgumentTest {
    /// A number above this one.
    Over(f64),
    /// A number below this one.
    Under(f64),
    /// This value.
    Equals(Value),
}

impl ArgumentRule {
    /// Whether the rule is met. An argument that is missing, or that is no number where one is
    /// asked for, meets it.
    pub fn is_met(&self, arguments: &Value) -> bool {
        let Some(value) = arguments.pointer(&self.pointer) else { return true };
        match &self.test {
            ArgumentTest::Over(limit) => value.as_f64().is_none_or(|number| number > *limit),
            ArgumentTest::Under(limit) => value.as_f64().is_none_or(|number| number < *limit),
            ArgumentTest::Equals(wanted) => same(value, wanted),
        }
    }
}

/// Equal values, where `3` and `3.0` are the same number.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_is_met_where_it_says_so_and_where_nobody_can_tell() {
        let rule = |test| ArgumentRule { pointer: "/amount".into(), test };
        for (test, amount, met) in [
            (ArgumentTest::Over(100.0), json!(100), false),
            (ArgumentTest::Over(100.0), json!(100.5), true),
            (ArgumentTest::Over(100.0), json!("5"), true),
            (ArgumentTest::Under(0.0), json!(-1), true),
            (ArgumentTest::Under(0.0), json!(0), false),
            (ArgumentTest::Equals(json!("all")), json!("all"), true),
            (ArgumentTest::Equals(json!("all")), json!("some"), false),
            (ArgumentTest::Equals(json!(3)), json!(3.0), true),
        ] {
            assert_eq!(rule(test.clone()).is_met(&json!({ "amount": amount })), met, "{test:?} {amount}");
        }
        assert!(rule(ArgumentTest::Over(100.0)).is_met(&json!({})), "a missing amount is not known to be small");
    }
}
