//! `inject`: faults on purpose in a model or a tool, for rehearsals and load runs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{reader::Section, scalar, units::write_duration};
use crate::core::Injection;

/// The rule; nothing where nothing is done on purpose. `status` is what fails, where none is named.
pub(super) fn read(section: &Section<'_>, status: u16) -> Option<Injection> {
    let inject = section.section("inject");
    let rule = Injection {
        failures: inject.get("failures", scalar::decimal(0.0, 1.0, false)).unwrap_or(0.0),
        status: inject.get("status", scalar::whole(400..=599)).unwrap_or(status),
        latency: inject
            .get("latency", scalar::duration(Duration::ZERO, Duration::from_secs(600)))
            .unwrap_or(Duration::ZERO),
        seed: inject.get("seed", scalar::whole(0..=u64::MAX)).unwrap_or(0),
    };
    section.has("inject").then_some(rule)
}

/// A rule as it is written.
pub(super) fn effective(rule: Option<Injection>) -> Value {
    rule.map_or(Value::Null, |Injection { failures, status, latency, seed }| {
        json!({ "failures": failures, "status": status, "latency": write_duration(latency), "seed": seed })
    })
}
