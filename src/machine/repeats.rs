//! Notices a session that goes in circles: the same call failing, one tool failing whatever it
//! is asked, or the same call succeeding again and again.

use std::collections::HashMap;

use super::prompt::canonical;
use crate::core::{Arguments, ToolCall, fact::Limit};

/// Failures of one call that end a session.
const SAME_CALL_FAILURES: u32 = 3;
/// Failures in a row of one tool that end a session.
const TOOL_FAILURES_IN_A_ROW: u32 = 5;
/// Successes of one call that end a session.
const SAME_CALL_SUCCESSES: u32 = 4;

/// Counts of the calls of a session, taken in call order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeats {
    calls: HashMap<String, Count>,
    tools: HashMap<String, u32>,
    limit: Option<(Limit, u32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    failures: u32,
    successes: u32,
}

impl Repeats {
    /// Counts one finished call and gives the hint that its observation carries, if it is one
    /// before a limit.
    pub fn count(&mut self, call: &ToolCall, is_error: bool) -> Option<&'static str> {
        let count = self.calls.entry(key(call)).or_default();
        let row = self.tools.entry(call.name.clone()).or_default();
        if is_error {
            count.failures += 1;
            *row += 1;
        } else {
            count.successes += 1;
            *row = 0;
        }
        let (count, row) = (*count, *row);
        self.reach(count, row, is_error);
        hint(count, row, is_error)
    }

    /// The limit that was reached, with the count at which it stands.
    pub const fn limit(&self) -> Option<(Limit, u32)> {
        self.limit
    }

    fn reach(&mut self, count: Count, row: u32, is_error: bool) {
        let reached = if is_error && count.failures >= SAME_CALL_FAILURES {
            Some((Limit::RepeatedFailure, count.failures))
        } else if is_error && row >= TOOL_FAILURES_IN_A_ROW {
            Some((Limit::RepeatedFailure, row))
        } else if !is_error && count.successes >= SAME_CALL_SUCCESSES {
            Some((Limit::NoProgress, count.successes))
        } else {
            None
        };
        self.limit = self.limit.or(reached);
    }
}

/// Same name and same arguments, in whatever order their keys came.
fn key(call: &ToolCall) -> String {
    match &call.arguments {
        Arguments::Json(value) => format!("{}\u{0}{}", call.name, canonical(value)),
        Arguments::Raw(text) => format!("{}\u{1}{text}", call.name),
    }
}

const fn hint(count: Count, row: u32, is_error: bool) -> Option<&'static str> {
    if is_error && count.failures == SAME_CALL_FAILURES - 1 {
        Some(
            "This call has failed twice with the same arguments. Change the arguments or do without it; once more ends the session.",
        )
    } else if is_error && row == TOOL_FAILURES_IN_A_ROW - 1 {
        Some("This tool has failed four times in a row. Do without it; once more ends the session.")
    } else if !is_error && count.successes == SAME_CALL_SUCCESSES - 1 {
        Some("This call has given its result three times. Use the result you have; once more ends the session.")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, argument: i64) -> ToolCall {
        ToolCall { id: "x".into(), name: name.into(), arguments: Arguments::Json(json!({"a": argument})) }
    }

    /// Counts calls written as (argument, fails) and gives the place (from 1) where each thing
    /// first showed: the hints, and the limit.
    fn run(calls: &[(i64, bool)]) -> (Vec<usize>, Option<(usize, Limit)>) {
        let mut repeats = Repeats::default();
        let (mut hints, mut limit) = (Vec::new(), None);
        for (index, (argument, fails)) in calls.iter().enumerate() {
            if repeats.count(&call("t", *argument), *fails).is_some() {
                hints.push(index + 1);
            }
            limit = limit.or_else(|| repeats.limit().map(|(which, _)| (index + 1, which)));
        }
        (hints, limit)
    }

    #[test]
    fn the_same_failing_call_is_hinted_at_two_and_ends_at_three() {
        assert_eq!(run(&[(1, true), (1, true), (1, true)]), (vec![2], Some((3, Limit::RepeatedFailure))));
    }

    #[test]
    fn one_tool_failing_with_other_arguments_ends_at_five() {
        let calls = [(1, true), (2, true), (3, true), (4, true), (5, true)];
        assert_eq!(run(&calls), (vec![4], Some((5, Limit::RepeatedFailure))));
    }

    #[test]
    fn a_success_breaks_the_row_but_not_the_count_of_the_same_call() {
        let calls = [(1, true), (2, true), (3, true), (9, false), (4, true), (5, true)];
        assert_eq!(run(&calls), (vec![], None));
        let calls = [(1, true), (1, false), (1, true), (1, false), (1, true)];
        assert_eq!(run(&calls), (vec![3], Some((5, Limit::RepeatedFailure))));
    }

    #[test]
    fn the_same_succeeding_call_is_hinted_at_three_and_ends_at_four() {
        let calls = [(1, false), (1, false), (1, false), (1, false)];
        assert_eq!(run(&calls), (vec![3], Some((4, Limit::NoProgress))));
    }

    #[test]
    fn key_order_does_not_make_another_call() {
        let with = |value| ToolCall { id: "x".into(), name: "t".into(), arguments: Arguments::Json(value) };
        assert_eq!(key(&with(json!({"a": 1, "b": 2}))), key(&with(json!({"b": 2, "a": 1}))));
    }
}
