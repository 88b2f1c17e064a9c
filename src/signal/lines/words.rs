//! The closed sets of words that fields of event lines take, each from the type that it is of.

use crate::core::{
    SessionStatus, ToolOutcome,
    circuit::{CircuitCause, CircuitKind, CircuitState},
    fact::{
        CallPurpose, Decision, DefinitionVerdict, FallbackCause, HandoverCause, Limit, ModelOutcome, RateLimit,
        SuspendCause,
    },
    outcome::EndReason,
};

/// Words of providers for why a reply ended; any other is written as `other`.
const FINISH_REASONS: [&str; 14] = [
    "stop",
    "end_turn",
    "stop_sequence",
    "tool_use",
    "tool_calls",
    "function_call",
    "length",
    "max_tokens",
    "content_filter",
    "refusal",
    "pause_turn",
    "model_context_window_exceeded",
    "final_answer",
    "other",
];

/// A finish reason as a closed word: the text comes from outside and may be anything.
pub(super) fn finish_reason(word: &str) -> &'static str {
    FINISH_REASONS.into_iter().find(|known| *known == word).unwrap_or("other")
}

pub(super) fn fallback_causes() -> Vec<&'static str> {
    FallbackCause::all().map(FallbackCause::label).collect()
}

pub(super) fn definition_verdicts() -> Vec<&'static str> {
    DefinitionVerdict::ALL.map(DefinitionVerdict::label).to_vec()
}

pub(super) fn purposes() -> Vec<&'static str> {
    CallPurpose::ALL.map(CallPurpose::label).to_vec()
}

pub(super) fn rate_limits() -> Vec<&'static str> {
    RateLimit::ALL.map(RateLimit::label).to_vec()
}

pub(super) fn circuit_kinds() -> Vec<&'static str> {
    CircuitKind::ALL.map(CircuitKind::label).to_vec()
}

pub(super) fn circuit_states() -> Vec<&'static str> {
    CircuitState::ALL.map(CircuitState::label).to_vec()
}

pub(super) fn circuit_causes() -> Vec<&'static str> {
    CircuitCause::ALL.map(CircuitCause::label).to_vec()
}

pub(super) fn finish_reasons() -> Vec<&'static str> {
    FINISH_REASONS.to_vec()
}

pub(super) fn model_outcomes() -> Vec<&'static str> {
    ModelOutcome::all().map(ModelOutcome::label).collect()
}

pub(super) fn tool_outcomes() -> Vec<&'static str> {
    ToolOutcome::ALL.iter().map(|outcome| outcome.label()).collect()
}

pub(super) fn limits() -> Vec<&'static str> {
    Limit::ALL.map(Limit::label).to_vec()
}

pub(super) fn handover_causes() -> Vec<&'static str> {
    [HandoverCause::SessionEnded, HandoverCause::UnknownOutcome].map(HandoverCause::label).to_vec()
}

pub(super) fn suspend_causes() -> Vec<&'static str> {
    SuspendCause::ALL.map(SuspendCause::label).to_vec()
}

pub(super) fn decisions() -> Vec<&'static str> {
    Decision::ALL.map(Decision::label).to_vec()
}

pub(super) fn statuses() -> Vec<&'static str> {
    SessionStatus::FINAL.map(SessionStatus::label).to_vec()
}

pub(super) fn reasons() -> Vec<&'static str> {
    EndReason::ALL.iter().map(|reason| reason.label()).collect()
}
