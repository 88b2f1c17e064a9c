//! `llm_retry_policy`, `tool_retry_policy`, `circuit_breaker` and `rate_limits`: what happens when
//! the other side fails or too much is asked of it.
//!
//! The keys of the retry policies and of the breaker, and their units, are those of the seed
//! document, so that its YAML can be taken over as it stands.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use super::{
    reader::Section,
    scalar::{self, Read},
    tools::tool_name,
    tree::Node,
};
use crate::{
    core::FaultKind,
    machine::{breaker, retry},
    policy,
};

/// How often and when an attempt is made again. What is in none of the lists follows its
/// [`FaultKind`].
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts together, the first included.
    pub max_attempts: u32,
    /// The wait before the second attempt.
    pub initial_delay: Duration,
    /// What each further wait is multiplied with.
    pub backoff_multiplier: f64,
    /// Whether a wait is varied by up to 20 % each way.
    pub jitter: bool,
    /// The longest wait, also where a service asks for more.
    pub max_delay: Duration,
    /// Statuses after which it is tried again.
    pub retryable_status_codes: Vec<u16>,
    /// Statuses after which it is not.
    pub non_retryable_status_codes: Vec<u16>,
    /// Faults after which it is tried again.
    pub retryable_exceptions: Vec<Exception>,
    /// Faults after which it is not.
    pub non_retryable_exceptions: Vec<Exception>,
}

/// The seed's names for kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// No connection, or one that broke.
    NetworkError,
    /// No answer in time.
    TimeoutError,
    /// The request itself is wrong.
    ValidationError,
    /// The credential is refused.
    AuthorizationError,
}

/// When calls of a tool or model that keeps failing are stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct CircuitBreaker {
    /// Share of failures at which it opens, above 0 and up to 1.
    pub failure_threshold: f64,
    /// How far back attempts are counted.
    pub window: Duration,
    /// Attempts below which it never opens.
    pub min_calls: u32,
    /// How long it stays open before a probe.
    pub half_open_after: Duration,
}

/// How much one principal, and all together, may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// Sessions that one principal may begin in an hour; none is no limit.
    pub sessions_per_user_per_hour: Option<u32>,
    /// Sessions of one principal that run at the same time; none is no limit.
    pub concurrent_sessions_per_user: Option<u32>,
    /// Limits of single tools.
    pub tools: BTreeMap<String, ToolRate>,
}

/// How often a tool may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRate {
    /// By all together.
    pub per_minute: Option<u32>,
    /// By one principal.
    pub per_principal_per_minute: Option<u32>,
}

impl Exception {
    /// Every one, with its word in configuration.
    pub const ALL: [(&'static str, Self); 4] = [
        ("NetworkError", Self::NetworkError),
        ("TimeoutError", Self::TimeoutError),
        ("ValidationError", Self::ValidationError),
        ("AuthorizationError", Self::AuthorizationError),
    ];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NetworkError => "NetworkError",
            Self::TimeoutError => "TimeoutError",
            Self::ValidationError => "ValidationError",
            Self::AuthorizationError => "AuthorizationError",
        }
    }

    /// The kinds of fault that the word stands for.
    pub const fn kinds(self) -> &'static [FaultKind] {
        match self {
            Self::NetworkError => &[FaultKind::Connection, FaultKind::Transport],
            Self::TimeoutError => &[FaultKind::Timeout],
            Self::ValidationError => &[FaultKind::Refused],
            Self::AuthorizationError => &[FaultKind::Auth],
        }
    }
}

impl RetryPolicy {
    /// The seed's policy for models: three attempts, waits of 1 s and 2 s.
    pub fn llm() -> Self {
        Self {
            max_attempts: 3,
            initial_delay: Duration::from_secs(1),
            backoff_multiplier: 2.0,
            jitter: true,
            max_delay: Duration::from_secs(30),
            retryable_status_codes: vec![429, 503, 529],
            non_retryable_status_codes: vec![400, 401, 413],
            retryable_exceptions: Vec::new(),
            non_retryable_exceptions: Vec::new(),
        }
    }

    /// The seed's policy for tools: two attempts, a wait of half a second.
    pub fn tool() -> Self {
        Self {
            max_attempts: 2,
            initial_delay: Duration::from_millis(500),
            backoff_multiplier: 1.5,
            jitter: false,
            max_delay: Duration::from_secs(30),
            retryable_status_codes: Vec::new(),
            non_retryable_status_codes: Vec::new(),
            retryable_exceptions: vec![Exception::NetworkError, Exception::TimeoutError],
            non_retryable_exceptions: vec![Exception::ValidationError, Exception::AuthorizationError],
        }
    }

    /// The rules that the policy follows.
    pub fn rules(&self) -> retry::Policy {
        let kinds = |names: &[Exception]| names.iter().flat_map(|name| name.kinds()).copied().collect();
        retry::Policy {
            max_attempts: self.max_attempts,
            initial_delay: self.initial_delay,
            multiplier: self.backoff_multiplier,
            jitter: self.jitter,
            max_delay: self.max_delay,
            retryable_statuses: self.retryable_status_codes.clone(),
            final_statuses: self.non_retryable_status_codes.clone(),
            retryable_kinds: kinds(&self.retryable_exceptions),
            final_kinds: kinds(&self.non_retryable_exceptions),
        }
    }
}

impl CircuitBreaker {
    /// The rules that every breaker follows.
    pub const fn rules(&self) -> breaker::Rules {
        breaker::Rules {
            failure_threshold: self.failure_threshold,
            window: self.window,
            min_calls: self.min_calls,
            half_open_after: self.half_open_after,
        }
    }
}

impl ToolRate {
    /// The rates that the policy keeps.
    pub fn rates(&self) -> policy::ToolRate {
        policy::ToolRate {
            per_minute: self.per_minute.and_then(NonZeroU32::new),
            per_principal_per_minute: self.per_principal_per_minute.and_then(NonZeroU32::new),
        }
    }
}

impl Default for CircuitBreaker {
    /// The seed's values.
    fn default() -> Self {
        Self {
            failure_threshold: 0.8,
            window: Duration::from_secs(300),
            min_calls: 5,
            half_open_after: Duration::from_secs(60),
        }
    }
}

pub(super) fn read_retry(section: &Section<'_>, normal: RetryPolicy) -> RetryPolicy {
    let millis = |most| move |node: &Node| scalar::whole::<u64>(0..=most)(node).map(Duration::from_millis);
    let code = scalar::whole::<u16>(100..=599);
    let exception = scalar::word(&Exception::ALL);
    let policy = RetryPolicy {
        max_attempts: section.get("max_attempts", scalar::whole(1..=20)).unwrap_or(normal.max_attempts),
        initial_delay: section.get("initial_delay_ms", millis(600_000)).unwrap_or(normal.initial_delay),
        backoff_multiplier: section
            .get("backoff_multiplier", scalar::decimal(1.0, 10.0, false))
            .unwrap_or(normal.backoff_multiplier),
        jitter: section.get("jitter", scalar::flag).unwrap_or(normal.jitter),
        max_delay: section.get("max_delay_ms", millis(3_600_000)).unwrap_or(normal.max_delay),
        retryable_status_codes: section.list("retryable_status_codes", &code).unwrap_or(normal.retryable_status_codes),
        non_retryable_status_codes: section
            .list("non_retryable_status_codes", &code)
            .unwrap_or(normal.non_retryable_status_codes),
        retryable_exceptions: section.list("retryable_exceptions", &exception).unwrap_or(normal.retryable_exceptions),
        non_retryable_exceptions: section
            .list("non_retryable_exceptions", &exception)
            .unwrap_or(normal.non_retryable_exceptions),
    };
    refuse_contradictions(section, &policy);
    policy
}

pub(super) fn read_breaker(section: &Section<'_>) -> CircuitBreaker {
    let normal = CircuitBreaker::default();
    let window = section.get("window_seconds", scalar::whole(1..=86_400)).map(Duration::from_secs);
    CircuitBreaker {
        failure_threshold: section
            .get("failure_threshold", scalar::decimal(0.0, 1.0, true))
            .unwrap_or(normal.failure_threshold),
        window: window.unwrap_or(normal.window),
        min_calls: section.get("min_calls", scalar::whole(1..=100_000)).unwrap_or(normal.min_calls),
        half_open_after: section.get("half_open_after", seconds).unwrap_or(normal.half_open_after),
    }
}

pub(super) fn read_rate_limits(section: &Section<'_>, tools: &[String], prefixes: &[String]) -> RateLimits {
    let sessions = section.get("sessions_per_user_per_hour", number_or_unlimited);
    let at_once = section.get("concurrent_sessions_per_user", number_or_unlimited);
    let mut limits = BTreeMap::new();
    for (name, tool) in section.named("tools", tool_name) {
        if !tools.contains(&name) && !prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            let names: Vec<&str> = tools.iter().map(String::as_str).collect();
            let hint = scalar::did_you_mean(&name, &names);
            tool.wrong_here(format!("is no tool under tools{hint}"));
        }
        let rate = || scalar::whole(1..=1_000_000);
        let per_minute = tool.get("per_minute", rate());
        limits.insert(
            name,
            ToolRate { per_minute, per_principal_per_minute: tool.get("per_principal_per_minute", rate()) },
        );
    }
    RateLimits {
        sessions_per_user_per_hour: sessions.unwrap_or(Some(600)),
        concurrent_sessions_per_user: at_once.unwrap_or_default(),
        tools: limits,
    }
}

fn number_or_unlimited(node: &Node) -> Read<Option<u32>> {
    let unlimited = scalar::scalar(node, "").is_ok_and(|(text, _)| text == "unlimited");
    if unlimited { Ok(None) } else { scalar::whole(1..=1_000_000)(node).map(Some) }
}

/// One code or name cannot be both tried again and not.
fn refuse_contradictions(section: &Section<'_>, policy: &RetryPolicy) {
    let codes = policy.non_retryable_status_codes.iter().filter(|code| policy.retryable_status_codes.contains(code));
    for code in codes {
        let key = if section.has("non_retryable_status_codes") {
            "non_retryable_status_codes"
        } else {
            "retryable_status_codes"
        };
        section.wrong(key, format!("{code} is both retryable and not; the other list holds it too"));
    }
    let names = policy.non_retryable_exceptions.iter().filter(|name| policy.retryable_exceptions.contains(name));
    for name in names {
        let key =
            if section.has("non_retryable_exceptions") { "non_retryable_exceptions" } else { "retryable_exceptions" };
        section.wrong(key, format!("{} is both retryable and not; the other list holds it too", name.label()));
    }
}

/// The seed gives plain seconds here; a duration with its unit is read too.
fn seconds(node: &Node) -> Read<Duration> {
    let (low, high) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let plain = scalar::whole::<u64>(1..=86_400)(node).map(Duration::from_secs);
    let unit = scalar::duration(low, high)(node);
    unit.or(plain)
        .map_err(|_| format!("must be seconds or a duration from 1s to 1d, such as 60s, not {}", scalar::show(node)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Fault;

    #[test]
    fn the_policies_of_the_seed_retry_what_it_says() {
        let fault = |kind, status: Option<u16>| Fault { status, ..Fault::new(kind, "x") };
        let (llm, tool) = (RetryPolicy::llm().rules(), RetryPolicy::tool().rules());
        for status in [429, 503, 529] {
            assert!(llm.retries(&fault(FaultKind::Overloaded, Some(status))), "{status}");
        }
        for status in [400, 401, 413] {
            assert!(!llm.retries(&fault(FaultKind::Overloaded, Some(status))), "{status}");
        }
        for kind in [FaultKind::Connection, FaultKind::Transport, FaultKind::Timeout] {
            assert!(tool.retries(&fault(kind, None)), "{kind}");
        }
        for kind in [FaultKind::Refused, FaultKind::Auth] {
            assert!(!tool.retries(&fault(kind, None)), "{kind}");
        }
    }

    #[test]
    fn the_breaker_of_the_seed_is_the_default() {
        assert_eq!(CircuitBreaker::default().rules(), breaker::Rules::default());
    }
}
