//! Prints the catalogue as `docs/metrics.md`. It must never add a fact that the catalogue lacks.

use std::fmt::Write as _;

use super::{
    LoginRefusal, Told,
    catalogue::{Family, Kind},
};
use crate::core::{
    FaultKind, SessionStatus, ToolOutcome,
    circuit::{CircuitKind, CircuitState},
    fact::{DefinitionVerdict, FallbackCause, Limit, ModelOutcome, RateLimit},
    notice::Hook,
};

const HEAD: &str = "# Metrics

This page is printed from the catalogue in `src/signal/metrics/catalogue.rs`; a test compares the two.

Counters count what this process published: nothing is replayed after a restart.
Every series of a declared agent, task type, model, tool and sink is there from the start, at zero.
Label values come from configuration or from the closed sets below, never from what a model or a person wrote.
A tool, agent, task type or model that the configuration does not know is `unknown`.
The `glassbox_journal_*` and `glassbox_telemetry_*` families tell of the signals' own health, `glassbox_handovers_open` and
the ages of what waits for a person are worked out when they are scraped, webhooks and logins are counted where they
happen; all others are counted from the facts of the journal.

`GET /metrics` answers in the text format of Prometheus, or, where `Accept` asks for
`application/openmetrics-text`, as OpenMetrics 1.0; the samples are the same, and `le` is spelled alike in both.
OpenMetrics has exemplars, `trace_id` and `span_id`, in the buckets of `glassbox_session_duration_seconds`,
`glassbox_session_active_seconds`, `glassbox_tool_duration_seconds` and `gen_ai_client_operation_duration_seconds`: the
last observation of each bucket whose trace is exported. Without an endpoint for traces there are none; under tail
sampling they come when a session has ended and its trace is kept.

";

/// The page.
pub(super) fn render(families: &[Family]) -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Families\n\n| name | kind | labels | unit | meaning |\n|---|---|---|---|---|\n");
    for Family { name, kind, labels, unit, meaning } in families {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        row(&mut page, &[&format!("`{name}`"), kind.label(), &labels, unit, meaning]);
    }
    page.push_str("\n## Upper bounds of the histograms\n\n| name | le |\n|---|---|\n");
    for family in families {
        if let Kind::Histogram(bounds) = family.kind {
            let bounds = bounds.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
            row(&mut page, &[&format!("`{}`", family.name), &bounds]);
        }
    }
    page.push_str("\n## Closed sets of labels\n\n| label | values |\n|---|---|\n");
    for (label, values) in closed_sets() {
        let values = values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
        row(&mut page, &[&format!("`{label}`"), &values]);
    }
    page
}

/// Labels whose values stand in the code.
fn closed_sets() -> Vec<(&'static str, Vec<&'static str>)> {
    let faults = FaultKind::ALL.map(FaultKind::label);
    vec![
        ("status", SessionStatus::FINAL.map(SessionStatus::label).to_vec()),
        ("outcome of tools", ToolOutcome::ALL.iter().map(|outcome| outcome.label()).collect()),
        ("outcome of models", ModelOutcome::all().map(ModelOutcome::label).collect()),
        ("cause of fallbacks", FallbackCause::all().map(FallbackCause::label).collect()),
        ("verdict", super::series::Verdict::ALL.map(super::series::Verdict::label).to_vec()),
        ("verdict of definitions", DefinitionVerdict::ALL.map(DefinitionVerdict::label).to_vec()),
        ("reason", faults.to_vec()),
        ("limit", Limit::ALL.map(Limit::label).to_vec()),
        ("limit of rates", RateLimit::ALL.map(RateLimit::label).to_vec()),
        ("hook", Hook::ALL.map(Hook::label).to_vec()),
        ("outcome of webhooks", Told::ALL.map(Told::label).to_vec()),
        ("reason of logins", LoginRefusal::ALL.map(LoginRefusal::label).to_vec()),
        ("kind of circuits", CircuitKind::ALL.map(CircuitKind::label).to_vec()),
        ("state, to", CircuitState::ALL.map(CircuitState::label).to_vec()),
        ("kind of errors", super::series::STORE_ERRORS.map(crate::core::port::StoreErrorKind::label).to_vec()),
        ("gen_ai_operation_name", vec!["chat"]),
        ("gen_ai_token_type", vec!["input", "output"]),
        ("error_type (empty for a success)", faults.into_iter().chain(["cancelled"]).collect()),
    ]
}

fn row(page: &mut String, cells: &[&str]) {
    writeln!(page, "| {} |", cells.join(" | ")).expect("a string takes any text");
}
