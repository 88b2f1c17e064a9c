//! What facts say of the MCP server that an attempt of a call asks.
//!
//! It is what traces name it by: no key, no path and no query of an address stands here.

use serde::{Deserialize, Serialize};

/// The MCP server that an attempt asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpPeer {
    /// The version of the protocol that both sides agreed on; nothing while there is no connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// How it is reached.
    pub way: McpWay,
}

/// How an MCP server is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpWay {
    /// As a child process, over its pipes.
    Pipe,
    /// Over HTTP.
    Http {
        /// The name or the address of the host; that of IPv6 without brackets.
        host: String,
        /// The port, also where the address leaves it to the scheme.
        port: u16,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::{Effect, Fact, SpanId};

    fn attempt(mcp: Option<McpPeer>) -> Fact {
        let call = SpanId::from_bytes([7; 8]);
        Fact::ToolAttemptStarted { call, attempt: 1, effect: Effect::Read, wait_ms: 0, mcp: mcp.map(Box::new) }
    }

    #[test]
    fn an_attempt_is_written_with_the_server_that_it_asks_and_an_old_one_still_reads() {
        let plain = json!({"call": "0707070707070707", "attempt": 1, "effect": "read"});
        let with = |mcp| {
            let mut fact = plain.clone();
            fact["mcp"] = mcp;
            fact
        };
        let http = McpWay::Http { host: "::1".into(), port: 443 };
        for (fact, written) in [
            (attempt(None), plain.clone()),
            (attempt(Some(McpPeer { protocol: None, way: McpWay::Pipe })), with(json!({"way": "pipe"}))),
            (
                attempt(Some(McpPeer { protocol: Some("2025-11-25".into()), way: http })),
                with(json!({"protocol": "2025-11-25", "way": {"http": {"host": "::1", "port": 443}}})),
            ),
        ] {
            let written = json!({"tool_attempt_started": written});
            assert_eq!(serde_json::to_value(&fact).expect("plain data"), written);
            assert_eq!(serde_json::from_value::<Fact>(written).expect("a fact"), fact);
        }
    }
}
