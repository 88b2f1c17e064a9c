//! How a server is reached, and what is held of its tools.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use reqwest::Url;

use crate::{
    core::{BlobHash, Sensitive, fact::McpWay},
    tool::{Overrides, Strict},
};

/// One MCP server as it is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where it is.
    pub reach: Reach,
    /// What the names of its tools begin with, for models.
    pub prefix: String,
    /// The tools that are taken, by the server's own names; all, if none are named.
    pub tools: Option<Vec<String>>,
    /// What is done with open schemas.
    pub strict: Strict,
    /// Whether the server's word on what its tools change counts.
    pub trusted: bool,
    /// The time until it has connected and listed its tools.
    pub start_timeout: Duration,
    /// What is set for all of its tools.
    pub all: Overrides,
    /// What is set for single tools, by the server's own names.
    pub each: BTreeMap<String, Overrides>,
    /// The definitions that are accepted, by the server's own names.
    pub pins: BTreeMap<String, BlobHash>,
    /// What is done with a tool whose definition changed.
    pub on_drift: OnDrift,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// A child process, over its pipes.
    Stdio {
        /// The program and its arguments; not empty.
        command: Vec<String>,
        /// Variables that are set for it.
        env: BTreeMap<String, Sensitive<String>>,
        /// Variables of this process that it gets besides, and no others.
        inherited: BTreeMap<String, String>,
        /// Where it runs; the folder of this process, if none is named.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, Sensitive<String>>,
    },
}

impl Reach {
    /// The way as facts name it; nothing for an address that is none.
    pub(super) fn way(&self) -> Option<McpWay> {
        match self {
            Self::Stdio { .. } => Some(McpWay::Pipe),
            Self::Http { url, .. } => {
                let url = Url::parse(url).ok()?;
                let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
                Some(McpWay::Http { host, port: url.port_or_known_default()? })
            }
        }
    }
}

/// What is done with a tool that is defined otherwise than when it was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrift {
    /// Blocked where the configuration pins the definition, else noted and accepted.
    #[default]
    BlockPinned,
    /// Blocked until the configuration pins what it is now.
    Block,
    /// Noted and accepted.
    Allow,
}

impl OnDrift {
    /// The ones that can be asked for, with their words in configuration.
    pub const ALL: [(&'static str, Self); 2] = [("block", Self::Block), ("allow", Self::Allow)];

    /// The word in configuration; none for what holds when nothing is said.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::BlockPinned => None,
            Self::Block => Some("block"),
            Self::Allow => Some("allow"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_over_http_is_named_by_host_and_port_and_nothing_that_may_be_secret() {
        let way = |url: &str| Reach::Http { url: url.to_owned(), headers: BTreeMap::new() }.way();
        let http = |host: &str, port| Some(McpWay::Http { host: host.to_owned(), port });
        assert_eq!(way("https://user:key@mcp.example.org/key?key=1"), http("mcp.example.org", 443));
        assert_eq!(way("http://127.0.0.1:8080/mcp"), http("127.0.0.1", 8080));
        assert_eq!(way("http://[::1]/mcp"), http("::1", 80));
        assert_eq!(way("mcp.example.org"), None);
    }
}
