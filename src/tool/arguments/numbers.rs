//! Numbers as every language can hold them: whole ones are integers, and none loses digits.

use serde_json::{Number, Value};

use super::{MAX_PROBLEMS, Problem};
use crate::tool::schema::escape;

/// The largest integer that a double holds with all its neighbours: 2^53 - 1.
const MAX_SAFE: i64 = 9_007_199_254_740_991;

/// Makes `3.0` the integer `3`; names the integers that a double cannot hold.
pub(super) fn normalise(value: &mut Value, path: &str, problems: &mut Vec<Problem>) {
    match value {
        Value::Number(number) => match whole(number) {
            Whole::Safe(integer) => *value = Value::from(integer),
            Whole::Unsafe if problems.len() <= MAX_PROBLEMS => problems.push(Problem::new(path, too_big(number))),
            Whole::Unsafe | Whole::Not => {}
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                normalise(item, &format!("{path}/{index}"), problems);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                normalise(field, &format!("{path}/{}", escape(name)), problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

enum Whole {
    Safe(i64),
    Unsafe,
    Not,
}

fn whole(number: &Number) -> Whole {
    if let Some(integer) = number.as_i64() {
        return if (-MAX_SAFE..=MAX_SAFE).contains(&integer) { Whole::Safe(integer) } else { Whole::Unsafe };
    }
    match number.as_f64() {
        Some(double) if double.fract() != 0.0 => Whole::Not,
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "whole and inside 2^53")]
        Some(double) if double.abs() <= MAX_SAFE as f64 => Whole::Safe(double as i64),
        _ => Whole::Unsafe,
    }
}

fn too_big(number: &Number) -> String {
    format!("expected an integer from -{MAX_SAFE} to {MAX_SAFE}, got {number}, send a number this big as a string")
}
