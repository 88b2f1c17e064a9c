//! What of a new configuration a process that runs cannot take over.
//!
//! The rest it can: agents, models, tools, retries, rate limits, keys and tokens, retention.

use super::Config;

impl Config {
    /// The keys that differ in another configuration and need a restart. Empty where a process that runs with this one can go on with the other.
    pub fn changes_for_a_restart(&self, other: &Self) -> Vec<&'static str> {
        let fixed = [
            ("mcp_servers", self.mcp_servers != other.mcp_servers),
            ("circuit_breaker", self.circuit_breaker != other.circuit_breaker),
            ("store", self.store != other.store),
            ("server", self.server != other.server),
            ("telemetry", self.telemetry != other.telemetry),
            ("privacy", self.privacy != other.privacy),
            ("handovers.webhook, confirmations.webhook", self.webhooks != other.webhooks),
            ("console", self.console != other.console),
            // Where there is none, the address alone says who may call.
            ("auth (whether there is a login)", self.auth.login.is_some() != other.auth.login.is_some()),
        ];
        fixed.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::Path};

    use super::*;

    fn with(change: &str) -> Config {
        let text = format!("{}\n{change}\n", super::super::DEFAULT_YAML);
        let env = BTreeMap::new();
        Config::from_text("test", text.as_bytes(), Path::new(""), &env).unwrap_or_else(|report| panic!("{report}"))
    }

    fn overridden(key: &str, value: &str) -> Vec<&'static str> {
        let env = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let other = Config::from_text("test", super::super::DEFAULT_YAML.as_bytes(), Path::new(""), &env);
        with("").changes_for_a_restart(&other.unwrap_or_else(|report| panic!("{report}")))
    }

    #[test]
    fn what_sessions_begin_with_can_be_taken_over() {
        assert_eq!(overridden("GLASSBOX__AGENTS__BANK__SYSTEM_PROMPT", "Be brief."), [""; 0]);
        assert_eq!(overridden("GLASSBOX__RATE_LIMITS__SESSIONS_PER_USER_PER_HOUR", "7"), [""; 0]);
    }

    #[test]
    fn what_the_process_stands_on_needs_a_restart() {
        assert_eq!(overridden("GLASSBOX__SERVER__LISTEN", "127.0.0.1:9"), ["server"]);
        assert_eq!(overridden("GLASSBOX__CIRCUIT_BREAKER__MIN_CALLS", "9"), ["circuit_breaker"]);
        assert_eq!(overridden("GLASSBOX__TELEMETRY__SAMPLE_RATIO", "0.5"), ["telemetry"]);
        // What is shown of a session is decided when it begins, and by what the process began with.
        assert_eq!(overridden("GLASSBOX__PRIVACY__SPAN_CONTENT", "full"), ["privacy"]);
    }
}
