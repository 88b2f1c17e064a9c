//! What belongs to the process: circuits, limits, primaries, the journal.

use std::time::Duration;

use super::{check, metrics, publish, value};
use crate::{
    core::{
        Entry, FaultKind, StreamId, Timestamp,
        circuit::{CircuitCause, CircuitChange, CircuitId, CircuitState},
        fact::{Fact, FallbackCause, RateLimit},
        id::ProcessId,
        port::{JournalWatch as _, StoreErrorKind},
    },
    signal::samples::Journal,
};

#[test]
fn circuits_and_rate_limits_count_their_facts() {
    let metrics = metrics();
    let mut journal = Journal::new(1);
    let circuit = |name: &str, to| {
        let (circuit, from, cause) = (CircuitId::tool(name), CircuitState::Closed, CircuitCause::Failures);
        Fact::CircuitChanged(Box::new(CircuitChange { circuit, from, to, cause, forced: false, until: None, by: None }))
    };
    for to in [CircuitState::Open, CircuitState::HalfOpen, CircuitState::Open] {
        journal.push(circuit("search", to));
        journal.push(circuit("no longer configured", to));
    }
    journal.push(Fact::RateLimited { limit: RateLimit::Tool, tool: Some("pay".into()), wait_ms: 1, times: 1 });
    publish(&metrics, &journal.entries);
    let expected = [
        (r#"glassbox_circuit_state{kind="tool",name="search",state="closed"}"#, 0.0),
        (r#"glassbox_circuit_state{kind="tool",name="search",state="open"}"#, 1.0),
        (r#"glassbox_circuit_state{kind="tool",name="search",state="half_open"}"#, 0.0),
        (r#"glassbox_circuit_state{kind="model",name="main",state="closed"}"#, 1.0),
        (r#"glassbox_circuit_transitions_total{kind="tool",name="search",to="open"}"#, 2.0),
        (r#"glassbox_circuit_transitions_total{kind="tool",name="search",to="half_open"}"#, 1.0),
        (r#"glassbox_circuit_transitions_total{kind="tool",name="search",to="closed"}"#, 0.0),
        (r#"glassbox_rate_limited_total{limit="tool"}"#, 1.0),
        (r#"glassbox_rate_limited_total{limit="tool_principal"}"#, 0.0),
    ];
    check(&metrics, &expected);
    assert!(!metrics.render().contains("no longer configured"));
}

#[test]
fn a_primary_is_given_up_while_it_is_down_or_its_circuit_is_not_closed() {
    let metrics = metrics();
    let system = |fact| Entry {
        stream: StreamId::System(ProcessId::from_bytes([2; 16])),
        seq: 0,
        at: Timestamp::default(),
        fact,
    };
    let down = |down| system(Fact::PrimaryChanged { model: "main".into(), down });
    let circuit = |to| {
        system(Fact::CircuitChanged(Box::new(CircuitChange {
            circuit: CircuitId::model("main"),
            from: CircuitState::Closed,
            to,
            cause: CircuitCause::Failures,
            forced: false,
            until: None,
            by: None,
        })))
    };
    let active = |fact: Entry| {
        publish(&metrics, &[fact]);
        value(&metrics, r#"glassbox_model_fallback_active{model="main"}"#).expect("a series")
    };
    assert_eq!(active(circuit(CircuitState::Open)), 1.0);
    assert_eq!(active(circuit(CircuitState::HalfOpen)), 1.0, "all but the probe go to the fallback");
    assert_eq!(active(down(true)), 1.0);
    assert_eq!(active(circuit(CircuitState::Closed)), 1.0, "it is still down");
    assert_eq!(active(down(false)), 0.0);
    let mut journal = Journal::new(6);
    journal.started("bank", "cards");
    let cause = FallbackCause::Fault(FaultKind::RateLimited);
    journal.push(Fact::ModelFallback { step: 1, from: "main".into(), to: "backup".into(), cause });
    journal.push(Fact::ModelFallback { step: 2, from: "gone".into(), to: "backup".into(), cause });
    publish(&metrics, &journal.entries);
    check(
        &metrics,
        &[
            (r#"glassbox_model_fallbacks_total{cause="rate_limited",model="main"}"#, 1.0),
            (r#"glassbox_model_fallbacks_total{cause="rate_limited",model="unknown"}"#, 1.0),
        ],
    );
    metrics.fallback_untested("backup", true);
    check(&metrics, &[(r#"glassbox_model_fallback_untested{model="backup"}"#, 1.0)]);
}

#[test]
fn the_journal_tells_of_its_health() {
    let metrics = metrics();
    metrics.committed(7, Duration::from_millis(3));
    metrics.failed(StoreErrorKind::Full);
    metrics.queued(12);
    metrics.dropped("lines").inc_by(4);
    check(
        &metrics,
        &[
            ("glassbox_journal_commits_total", 1.0),
            ("glassbox_journal_facts_total", 7.0),
            (r#"glassbox_journal_commit_duration_seconds_bucket{le="0.0025"}"#, 0.0),
            (r#"glassbox_journal_commit_duration_seconds_bucket{le="0.005"}"#, 1.0),
            (r#"glassbox_journal_errors_total{kind="full"}"#, 1.0),
            ("glassbox_journal_queue_facts", 12.0),
            (r#"glassbox_telemetry_dropped_total{sink="lines"}"#, 4.0),
        ],
    );
}
