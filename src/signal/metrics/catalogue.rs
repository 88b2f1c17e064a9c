//! The catalogue of metric families: the one place that names them. The families are made from
//! it, and `docs/metrics.md` is printed from it.
//!
//! It must never know a value: labels come from closed sets and configuration.

use super::document;

/// What sort of numbers a family holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by these upper bounds.
    Histogram(&'static [f64]),
}

/// One family of metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// The name in `/metrics`.
    pub name: &'static str,
    /// What sort.
    pub kind: Kind,
    /// Its labels, in order.
    pub labels: &'static [&'static str],
    /// What is counted or measured, in base units.
    pub unit: &'static str,
    /// What it says; also its HELP line.
    pub meaning: &'static str,
}

/// Steps of a session.
const STEPS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0];
/// Seconds of a session.
const SESSION: &[f64] = &[0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
/// Seconds of a tool call, close around the recommended timeouts of 10 to 30.
const TOOL: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0];
/// Shares of a context window, close around 0.7 (alert) and 0.8 (compaction).
const RATIO: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0];
/// The bounds that the GenAI conventions give for `gen_ai.client.operation.duration`.
const GEN_AI_DURATION: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// The bounds that the GenAI conventions give for `gen_ai.client.token.usage`.
const GEN_AI_TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// Seconds of a commit: an fsync, fast or slow.
const COMMIT: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Names each family as a constant and lists them all.
macro_rules! families {
    ($($constant:ident = $name:literal, $kind:expr, [$($label:literal),*], $unit:literal, $meaning:literal;)+) => {
        $(
            pub(super) const $constant: Family =
                Family { name: $name, kind: $kind, labels: &[$($label),*], unit: $unit, meaning: $meaning };
        )+

        /// Every family, in the order of the document.
        pub const FAMILIES: &[Family] = &[$($constant),+];
    };
}

families! {
    SESSIONS = "glassbox_sessions_total", Kind::Counter, ["agent", "task_type", "status"], "sessions",
        "Sessions that ended, by final status.";
    DEGRADED = "glassbox_sessions_degraded_total", Kind::Counter, ["agent", "task_type"], "sessions",
        "Sessions that answered without tools because all were unavailable; they also count as done.";
    SESSION_STEPS = "glassbox_session_steps", Kind::Histogram(STEPS), ["agent", "task_type"], "steps",
        "Steps of sessions that ended.";
    SESSION_DURATION = "glassbox_session_duration_seconds", Kind::Histogram(SESSION), ["agent", "task_type"], "seconds",
        "Time from the first to the last fact of sessions that ended.";
    SESSION_ACTIVE = "glassbox_session_active_seconds", Kind::Histogram(SESSION), ["agent", "task_type"], "seconds",
        "Active time of sessions that ended; waiting for a person does not count.";
    SESSIONS_ACTIVE = "glassbox_sessions_active", Kind::Gauge, [], "sessions",
        "Sessions that this process drives now.";
    SESSIONS_ERASED = "glassbox_sessions_erased_total", Kind::Counter, ["cause"], "sessions",
        "Sessions removed from the store, by why: their time was over, or somebody asked for it.";
    CONFIG_TAKEN = "glassbox_config_last_reload_successful", Kind::Gauge, [], "0 or 1",
        "Whether the process runs with the configuration that it was last asked to read.";
    CONFIG_TAKEN_AT = "glassbox_config_last_reload_success_timestamp_seconds", Kind::Gauge, [], "seconds",
        "When the process last took over a configuration, in seconds since 1970.";
    CONTEXT = "glassbox_context_utilization_ratio", Kind::Histogram(RATIO), ["agent"], "ratio",
        "Fullest that the context window of a session was before a call, observed once when it ends.";
    LIMITS = "glassbox_limits_reached_total", Kind::Counter, ["limit"], "limits",
        "Limits that stopped a session.";
    TOOL_CALLS = "glassbox_tool_calls_total", Kind::Counter, ["tool", "outcome"], "calls",
        "Tool calls that ended, by outcome; a name that no tool has is the tool unknown.";
    TOOL_ATTEMPTS = "glassbox_tool_attempts_total", Kind::Counter, ["tool", "outcome"], "attempts",
        "Attempts of tool calls that ended, by outcome.";
    TOOL_DURATION = "glassbox_tool_duration_seconds", Kind::Histogram(TOOL), ["tool"], "seconds",
        "Time of tool calls that made an attempt, retries included; lost calls are left out.";
    DEFINITIONS = "glassbox_tool_definition_changes_total", Kind::Counter, ["server", "verdict"], "definitions",
        "Definitions of tools of an MCP server that were seen for the first time or changed, by what became of them.";
    CONFIRMATIONS_PENDING = "glassbox_confirmations_pending", Kind::Gauge, [], "calls",
        "Tool calls that wait for a person, as far as this process has seen them.";
    CONFIRMATION_OLDEST = "glassbox_confirmation_oldest_seconds", Kind::Gauge, [], "seconds",
        "How long the oldest tool call that waits for a person has waited; 0 where none does.";
    HANDOVERS_OPEN = "glassbox_handovers_open", Kind::Gauge, [], "hand-overs",
        "Hand-overs in the store that no operator has claimed or closed.";
    HANDOVER_OLDEST = "glassbox_handover_oldest_seconds", Kind::Gauge, [], "seconds",
        "How long the oldest hand-over that no operator has claimed has waited; 0 where there is none.";
    WEBHOOKS = "glassbox_webhooks_total", Kind::Counter, ["hook", "outcome"], "notices",
        "Notices to webhooks: delivered, failed attempts, given up after a day, or obsolete before they were told.";
    MODEL_CALLS = "glassbox_model_calls_total", Kind::Counter, ["model", "outcome"], "calls",
        "Model calls that ended, by the model asked last and the outcome.";
    MODEL_AUTH = "glassbox_model_auth_failures_total", Kind::Counter, ["model"], "attempts",
        "Attempts that the model provider refused for the credential (401, 403).";
    MODEL_TOOLS = "glassbox_model_tool_requests_total", Kind::Counter, ["model", "verdict"], "calls",
        "Tool calls that a model asked for, by whether name and arguments fit what was offered.";
    MODEL_RETRIES = "glassbox_model_retries_total", Kind::Counter, ["model", "reason"], "attempts",
        "Attempts repeated at the same model, by the fault of the attempt before.";
    FALLBACKS = "glassbox_model_fallbacks_total", Kind::Counter, ["model", "cause"], "calls",
        "Model calls sent to the fallback, by the model that was not asked, or not again, and why.";
    FALLBACK_ACTIVE = "glassbox_model_fallback_active", Kind::Gauge, ["model"], "0 or 1",
        "Whether calls of this model go straight to its fallback now: it is down, or its circuit is not closed.";
    FALLBACK_UNTESTED = "glassbox_model_fallback_untested", Kind::Gauge, ["model"], "0 or 1",
        "Whether this fallback was not tried with the tool definitions of now.";
    COST = "glassbox_cost_usd_total", Kind::Counter, ["model"], "US dollars",
        "What model calls cost, by the prices that are configured; stays at zero for a model without prices.";
    CIRCUIT_STATE = "glassbox_circuit_state", Kind::Gauge, ["kind", "name", "state"], "0 or 1",
        "How a circuit breaker stands: 1 for the state it is in, 0 for the others.";
    CIRCUIT_MOVES = "glassbox_circuit_transitions_total", Kind::Counter, ["kind", "name", "to"], "moves",
        "Moves of a circuit breaker, an operator's switches and what a restart took over included, by the new state.";
    RATE_LIMITED = "glassbox_rate_limited_total", Kind::Counter, ["limit"], "refusals",
        "What a rate limit of ours refused.";
    LOGINS_REFUSED = "glassbox_logins_refused_total", Kind::Counter, ["reason"], "requests",
        "Requests that were not let in for their login.";
    GEN_AI_OPERATION = "gen_ai_client_operation_duration_seconds", Kind::Histogram(GEN_AI_DURATION),
        ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"], "seconds",
        "GenAI operation duration: model calls that made an attempt, retries included; lost calls are left out.";
    GEN_AI_USAGE = "gen_ai_client_token_usage", Kind::Histogram(GEN_AI_TOKENS),
        ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"], "tokens",
        "Number of input and output tokens used, one observation of each a model call.";
    DROPPED = "glassbox_telemetry_dropped_total", Kind::Counter, ["sink"], "items",
        "What a sink could not hand on: lines, spans, live readers that were cut off, or texts that one was too slow for.";
    SPANS = "glassbox_spans_acknowledged_total", Kind::Counter, [], "spans",
        "Spans that the collector took.";
    JOURNAL_COMMITS = "glassbox_journal_commits_total", Kind::Counter, [], "commits",
        "Commits that made facts durable.";
    JOURNAL_FACTS = "glassbox_journal_facts_total", Kind::Counter, [], "facts",
        "Facts made durable.";
    JOURNAL_COMMIT = "glassbox_journal_commit_duration_seconds", Kind::Histogram(COMMIT), [], "seconds",
        "Time of one commit.";
    JOURNAL_ERRORS = "glassbox_journal_errors_total", Kind::Counter, ["kind"], "errors",
        "Commits, or single writes of one, that failed.";
    JOURNAL_QUEUE = "glassbox_journal_queue_facts", Kind::Gauge, [], "facts",
        "Facts that wait for their commit.";
    BUILD_INFO = "glassbox_build_info", Kind::Gauge, ["version"], "always 1",
        "Version of glassbox that runs.";
    PROCESS_CPU = "process_cpu_seconds_total", Kind::Counter, [], "seconds",
        "Total user and system CPU time spent in seconds.";
    PROCESS_OPEN_FDS = "process_open_fds", Kind::Gauge, [], "files",
        "Number of open file descriptors.";
    PROCESS_MAX_FDS = "process_max_fds", Kind::Gauge, [], "files",
        "Maximum number of open file descriptors.";
    PROCESS_VIRTUAL = "process_virtual_memory_bytes", Kind::Gauge, [], "bytes",
        "Virtual memory size in bytes.";
    PROCESS_RESIDENT = "process_resident_memory_bytes", Kind::Gauge, [], "bytes",
        "Resident memory size in bytes.";
    PROCESS_START = "process_start_time_seconds", Kind::Gauge, [], "seconds",
        "Start time of the process since unix epoch in seconds.";
    PROCESS_THREADS = "process_threads", Kind::Gauge, [], "threads",
        "Number of OS threads in the process.";
}

impl Kind {
    /// The word of the TYPE line.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// The text of `docs/metrics.md`.
pub fn render_document() -> String {
    document::render(FAMILIES)
}
