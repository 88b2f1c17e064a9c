//! The series of every declared agent, tool and model, born at zero, with their handles at hand.
//!
//! It must never make a label of anything but configuration, closed sets, and the names of the
//! tools that configured servers offer, as many as a bound allows.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use prometheus::{
    Counter, CounterVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
};

use super::{
    MetricLabels, catalogue as c,
    definitions::Definitions,
    exemplars::{Timing, Timings},
    fallbacks::Fallbacks,
    make::{amounts, counters, gauge, gauges, histograms},
};
use crate::{
    core::{
        FaultKind, SessionStatus, Timestamp, ToolOutcome,
        circuit::{CircuitChange, CircuitId, CircuitState},
        fact::{EraseCause, Limit, ModelOutcome, RateLimit},
        port::StoreErrorKind,
    },
    signal::UNKNOWN,
};

/// The operation of every model call, in the word of the GenAI conventions.
const CHAT: &str = "chat";

/// Tools that have series of their own at the most; further ones, of servers that think of new
/// names again and again, are counted as unknown.
const MOST_TOOLS: usize = 2000;
/// Breakers that have series of their own at the most.
const MOST_CIRCUITS: usize = 4000;

/// Every sort of store error.
pub(super) const STORE_ERRORS: [StoreErrorKind; 6] = [
    StoreErrorKind::Full,
    StoreErrorKind::ReadOnly,
    StoreErrorKind::Busy,
    StoreErrorKind::Conflict,
    StoreErrorKind::Version,
    StoreErrorKind::Io,
];

/// Whether a tool call that a model asked for fits what it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Valid,
    InvalidArguments,
    UnknownTool,
}

impl Verdict {
    pub(super) const ALL: [Self; 3] = [Self::Valid, Self::InvalidArguments, Self::UnknownTool];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::InvalidArguments => "invalid_arguments",
            Self::UnknownTool => "unknown_tool",
        }
    }
}

/// Everything that the fold counts into.
pub(super) struct Series {
    families: Families,
    /// By agent, then by task type. These and the models grow when the configuration is read again.
    sessions: RwLock<HashMap<String, HashMap<String, Arc<SessionSeries>>>>,
    /// May grow, by the names that servers give their tools.
    tools: RwLock<HashMap<String, Arc<ToolSeries>>>,
    unknown_tool: Arc<ToolSeries>,
    models: RwLock<HashMap<String, Arc<ModelSeries>>>,
    circuits: RwLock<HashMap<CircuitId, [CircuitSeries; 3]>>,
    pub(super) sessions_active: IntGauge,
    config_taken: IntGauge,
    config_taken_at: IntGauge,
    pub(super) fallbacks: Fallbacks,
    pub(super) definitions: Definitions,
}

/// Of one state of one circuit breaker.
struct CircuitSeries {
    state: CircuitState,
    now: IntGauge,
    moves: IntCounter,
}

/// Of one agent and task type.
pub(super) struct SessionSeries {
    pub(super) finished: HashMap<SessionStatus, IntCounter>,
    pub(super) degraded: IntCounter,
    pub(super) steps: Histogram,
    pub(super) duration: Timing,
    pub(super) active: Timing,
    pub(super) context: Histogram,
}

/// Of one tool.
pub(super) struct ToolSeries {
    pub(super) calls: HashMap<ToolOutcome, IntCounter>,
    pub(super) attempts: HashMap<ToolOutcome, IntCounter>,
    pub(super) duration: Timing,
}

/// Of one model.
pub(super) struct ModelSeries {
    pub(super) calls: HashMap<ModelOutcome, IntCounter>,
    pub(super) auth_failures: IntCounter,
    pub(super) cost: Counter,
    pub(super) requests: [IntCounter; 3],
    pub(super) retries: HashMap<FaultKind, IntCounter>,
    /// No entry for a lost call, whose duration says nothing.
    pub(super) duration: HashMap<ModelOutcome, Timing>,
    pub(super) input: Histogram,
    pub(super) output: Histogram,
}

struct Families {
    sessions: IntCounterVec,
    degraded: IntCounterVec,
    steps: HistogramVec,
    duration: Timings,
    active: Timings,
    context: HistogramVec,
    limits: IntCounterVec,
    erased: IntCounterVec,
    tool_calls: IntCounterVec,
    tool_attempts: IntCounterVec,
    tool_duration: Timings,
    model_calls: IntCounterVec,
    model_auth: IntCounterVec,
    cost: CounterVec,
    model_tools: IntCounterVec,
    model_retries: IntCounterVec,
    operation: Timings,
    usage: HistogramVec,
    circuit_state: IntGaugeVec,
    circuit_moves: IntCounterVec,
    rate_limited: IntCounterVec,
}

impl Series {
    pub(super) fn new(registry: &Registry, labels: &MetricLabels) -> Result<Self, prometheus::Error> {
        let families = Families::register(registry)?;
        for limit in Limit::ALL {
            families.limits.with_label_values(&[limit.label()]);
        }
        for cause in EraseCause::ALL {
            families.erased.with_label_values(&[cause.label()]);
        }
        for limit in RateLimit::ALL {
            families.rate_limited.with_label_values(&[limit.label()]);
        }
        let unknown_tool = Arc::new(families.tool(UNKNOWN));
        let sessions_active = gauge(registry, &c::SESSIONS_ACTIVE)?;
        let series = Self {
            families,
            sessions: RwLock::default(),
            tools: RwLock::default(),
            unknown_tool,
            models: RwLock::default(),
            circuits: RwLock::default(),
            sessions_active,
            config_taken: gauge(registry, &c::CONFIG_TAKEN)?,
            config_taken_at: gauge(registry, &c::CONFIG_TAKEN_AT)?,
            fallbacks: Fallbacks::new(registry)?,
            definitions: Definitions::new(registry, labels)?,
        };
        series.declare(labels);
        Ok(series)
    }

    /// Gives birth at zero to the series of all declared names that have none yet.
    pub(super) fn declare(&self, labels: &MetricLabels) {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        for (agent, task_types) in &labels.agents {
            let of_agent = sessions.entry(agent.clone()).or_default();
            for task_type in task_types {
                let born = || Arc::new(self.families.session(agent, task_type));
                of_agent.entry(task_type.clone()).or_insert_with(born);
            }
        }
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        for (name, provider, request_model) in &labels.models {
            // A model may be asked by another name than before; equal names give the same series.
            models.insert(name.clone(), Arc::new(self.families.model(name, provider, request_model)));
        }
        self.fallbacks.declare(&labels.fallbacks);
        self.declare_tools(&labels.tools, &labels.circuits);
    }

    /// Gives birth at zero to the series of tools and breakers that have none yet.
    pub(super) fn declare_tools(&self, tools: &[String], circuits: &[CircuitId]) {
        let mut known = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        for tool in tools.iter().take(MOST_TOOLS.saturating_sub(known.len())) {
            known.entry(tool.clone()).or_insert_with(|| Arc::new(self.families.tool(tool)));
        }
        let mut known = self.circuits.write().unwrap_or_else(PoisonError::into_inner);
        for circuit in circuits.iter().take(MOST_CIRCUITS.saturating_sub(known.len())) {
            known.entry(circuit.clone()).or_insert_with(|| self.families.circuit(circuit));
        }
    }

    /// The series of an agent and task type; undeclared ones share `unknown`.
    pub(super) fn session(&self, agent: &str, task_type: &str) -> Arc<SessionSeries> {
        match self.sessions.read().unwrap_or_else(PoisonError::into_inner).get(agent) {
            None => Arc::new(self.families.session(UNKNOWN, UNKNOWN)),
            Some(of_agent) => match of_agent.get(task_type) {
                None => Arc::new(self.families.session(agent, UNKNOWN)),
                Some(series) => Arc::clone(series),
            },
        }
    }

    /// The series of a tool, or of `unknown`.
    pub(super) fn tool(&self, tool: Option<&str>) -> Arc<ToolSeries> {
        let known = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        tool.and_then(|name| known.get(name)).unwrap_or(&self.unknown_tool).clone()
    }

    /// The series of a model; one that is no longer configured becomes `unknown`.
    pub(super) fn model(&self, model: Option<&str>) -> Arc<ModelSeries> {
        let known = self.models.read().unwrap_or_else(PoisonError::into_inner);
        match model.and_then(|name| known.get(name)) {
            Some(series) => Arc::clone(series),
            None => Arc::new(self.families.model(UNKNOWN, UNKNOWN, UNKNOWN)),
        }
    }

    /// The families whose buckets may have exemplars.
    pub(super) const fn timings(&self) -> [&Timings; 4] {
        let Families { duration, active, tool_duration, operation, .. } = &self.families;
        [duration, active, tool_duration, operation]
    }

    pub(super) fn erased(&self, cause: EraseCause, count: u64) {
        self.families.erased.with_label_values(&[cause.label()]).inc_by(count);
    }

    /// Shows how a breaker stands now; one that is no longer configured has no series.
    pub(super) fn circuit(&self, change: &CircuitChange) {
        let known = self.circuits.read().unwrap_or_else(PoisonError::into_inner);
        for series in known.get(&change.circuit).into_iter().flatten() {
            let is_new = series.state == change.to;
            series.now.set(i64::from(is_new));
            series.moves.inc_by(u64::from(is_new));
        }
    }

    /// A configuration was taken over at this time, or was not.
    pub(super) fn config(&self, taken: Option<Timestamp>) {
        self.config_taken.set(i64::from(taken.is_some()));
        if let Some(at) = taken {
            self.config_taken_at.set(i64::try_from(at.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX));
        }
    }

    pub(super) fn rate_limited(&self, limit: RateLimit, times: u64) {
        self.families.rate_limited.with_label_values(&[limit.label()]).inc_by(times);
    }

    pub(super) fn limit(&self, limit: Limit) {
        self.families.limits.with_label_values(&[limit.label()]).inc();
    }
}

impl ModelSeries {
    pub(super) fn request(&self, verdict: Verdict) {
        self.requests[verdict as usize].inc();
    }
}

impl Families {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            sessions: counters(registry, &c::SESSIONS)?,
            degraded: counters(registry, &c::DEGRADED)?,
            steps: histograms(registry, &c::SESSION_STEPS)?,
            duration: Timings::register(registry, &c::SESSION_DURATION)?,
            active: Timings::register(registry, &c::SESSION_ACTIVE)?,
            context: histograms(registry, &c::CONTEXT)?,
            limits: counters(registry, &c::LIMITS)?,
            erased: counters(registry, &c::SESSIONS_ERASED)?,
            tool_calls: counters(registry, &c::TOOL_CALLS)?,
            tool_attempts: counters(registry, &c::TOOL_ATTEMPTS)?,
            tool_duration: Timings::register(registry, &c::TOOL_DURATION)?,
            model_calls: counters(registry, &c::MODEL_CALLS)?,
            model_auth: counters(registry, &c::MODEL_AUTH)?,
            cost: amounts(registry, &c::COST)?,
            model_tools: counters(registry, &c::MODEL_TOOLS)?,
            model_retries: counters(registry, &c::MODEL_RETRIES)?,
            operation: Timings::register(registry, &c::GEN_AI_OPERATION)?,
            usage: histograms(registry, &c::GEN_AI_USAGE)?,
            circuit_state: gauges(registry, &c::CIRCUIT_STATE)?,
            circuit_moves: counters(registry, &c::CIRCUIT_MOVES)?,
            rate_limited: counters(registry, &c::RATE_LIMITED)?,
        })
    }

    fn session(&self, agent: &str, task_type: &str) -> SessionSeries {
        let finished = SessionStatus::FINAL
            .into_iter()
            .map(|status| (status, self.sessions.with_label_values(&[agent, task_type, status.label()])));
        SessionSeries {
            finished: finished.collect(),
            degraded: self.degraded.with_label_values(&[agent, task_type]),
            steps: self.steps.with_label_values(&[agent, task_type]),
            duration: self.duration.with_label_values(&[agent, task_type]),
            active: self.active.with_label_values(&[agent, task_type]),
            context: self.context.with_label_values(&[agent]),
        }
    }

    fn tool(&self, tool: &str) -> ToolSeries {
        let each = |family: &IntCounterVec| {
            ToolOutcome::ALL.iter().map(|end| (*end, family.with_label_values(&[tool, end.label()]))).collect()
        };
        ToolSeries {
            calls: each(&self.tool_calls),
            attempts: each(&self.tool_attempts),
            duration: self.tool_duration.with_label_values(&[tool]),
        }
    }

    /// Every breaker is born closed.
    fn circuit(&self, circuit: &CircuitId) -> [CircuitSeries; 3] {
        CircuitState::ALL.map(|state| {
            let labels = [circuit.kind.label(), &circuit.name, state.label()];
            let now = self.circuit_state.with_label_values(&labels);
            now.set(i64::from(state == CircuitState::Closed));
            CircuitSeries { state, now, moves: self.circuit_moves.with_label_values(&labels) }
        })
    }

    fn model(&self, name: &str, provider: &str, request_model: &str) -> ModelSeries {
        let timed = ModelOutcome::all().filter(|end| *end != ModelOutcome::Lost).map(|end| {
            let error = if end == ModelOutcome::Ok { "" } else { end.label() };
            (end, self.operation.with_label_values(&[CHAT, provider, request_model, error]))
        });
        let calls = ModelOutcome::all().map(|end| (end, self.model_calls.with_label_values(&[name, end.label()])));
        let retries =
            FaultKind::ALL.into_iter().map(|kind| (kind, self.model_retries.with_label_values(&[name, kind.label()])));
        ModelSeries {
            calls: calls.collect(),
            auth_failures: self.model_auth.with_label_values(&[name]),
            cost: self.cost.with_label_values(&[name]),
            requests: Verdict::ALL.map(|verdict| self.model_tools.with_label_values(&[name, verdict.label()])),
            retries: retries.collect(),
            duration: timed.collect(),
            input: self.usage.with_label_values(&[CHAT, provider, request_model, "input"]),
            output: self.usage.with_label_values(&[CHAT, provider, request_model, "output"]),
        }
    }
}
