//! The limits of one session.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::money::Money;

/// Where a session is stopped. Stands in its first fact, so that a change of the configuration
/// never changes a session that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Steps (a model call and its tool calls) at the most.
    pub max_iterations: u32,
    /// Tokens of all model calls together, input and output.
    pub token_budget: u64,
    /// Money for all model calls together; none is no limit.
    #[serde(rename = "cost_limit_nano_usd", default, skip_serializing_if = "Option::is_none")]
    pub cost_limit: Option<Money>,
    /// Share of the model's context window at which a session is compacted or ended, 0 to 1.
    pub context_ratio: f64,
    /// Active time of the session; waiting for a person does not count.
    #[serde(with = "millis")]
    pub deadline: Duration,
    /// Tool calls of one step that run side by side.
    pub max_parallel_tools: u32,
}

impl Default for Limits {
    /// The values of the seed document, and ten minutes.
    fn default() -> Self {
        Self {
            max_iterations: 15,
            token_budget: 50_000,
            cost_limit: None,
            context_ratio: 0.8,
            deadline: Duration::from_secs(600),
            max_parallel_tools: 8,
        }
    }
}

/// Durations as whole milliseconds, for people and for other languages.
pub mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes whole milliseconds.
    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        u64::try_from(value.as_millis()).unwrap_or(u64::MAX).serialize(serializer)
    }

    /// Reads whole milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
