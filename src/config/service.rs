//! `store`, `server`, `privacy` and `retention`: where and how long sessions are kept, and where
//! the service listens.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{
    otel::Otel,
    reader::Section,
    scalar::{self, Read},
    secret::Vault,
    tree::Node,
};
use crate::core::{Sensitive, fact::SpanContent};

/// Where sessions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// One file; the path is relative to the data folder.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// How sure a commit is.
        synchronous: Synchronous,
    },
    /// Nowhere: a restart forgets them.
    Memory,
}

/// `PRAGMA synchronous`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// A commit survives the loss of power.
    #[default]
    Full,
    /// A commit survives the end of the process; the last ones may not survive the loss of power.
    Normal,
}

/// The HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The largest body of a request, in bytes.
    pub max_body_bytes: u64,
    /// The longest time that a request may wait for its answer; streams are not held to it.
    pub request_timeout: Duration,
    /// How long nothing may move on a connection: the head of a request does not come to its
    /// end, or the other side takes nothing of an answer.
    pub idle_timeout: Duration,
    /// How often a stream of events gives a sign of life.
    pub heartbeat: Duration,
    /// How long a stop waits for sessions to reach a step boundary.
    pub grace_period: Duration,
    /// Sessions that run at the same time.
    pub max_sessions: u32,
    /// How long a session stays with a process that no longer renews it: after a crash, the time
    /// until another takes it up.
    pub lease: Duration,
    /// How far behind the journal may be before new sessions are refused.
    pub shed_above: ShedAbove,
}

/// How far behind the journal may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShedAbove {
    /// Facts that wait for their commit.
    pub queue_facts: u32,
    /// The time that a commit takes.
    pub commit_time: Duration,
}

/// How people are kept out of telemetry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privacy {
    /// The key of the hashes of identifiers; none is made on first run, in the data folder.
    pub hash_key: Option<Sensitive<String>>,
    /// What spans show of what was said.
    pub span_content: SpanContent,
}

/// How long sessions are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The time from a session's end until it is erased; for ever, if there is none.
    pub sessions: Option<Duration>,
}

impl Synchronous {
    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
        }
    }
}

pub(super) fn read_store(section: &Section<'_>) -> Store {
    let sqlite = section.get("kind", scalar::word(&[("sqlite", true), ("memory", false)])).unwrap_or(true);
    let path = section.get("path", scalar::text);
    let words = [Synchronous::Full, Synchronous::Normal].map(|sync| (sync.label(), sync));
    let synchronous = section.get("synchronous", scalar::word(&words));
    if sqlite {
        let path = PathBuf::from(path.unwrap_or_else(|| "glassbox.db".to_owned()));
        return Store::Sqlite { path, synchronous: synchronous.unwrap_or_default() };
    }
    for key in ["path", "synchronous"] {
        if section.has(key) {
            section.wrong(key, "is for kind sqlite only; a memory store has no file");
        }
    }
    Store::Memory
}

pub(super) fn read_server(section: &Section<'_>, login: bool) -> Server {
    let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let long = || scalar::duration(second, day);
    let max_body = section.get("max_body_bytes", scalar::bytes(1024..=1 << 30));
    Server {
        listen: section
            .get("listen", |node| listen(node, login))
            .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080))),
        max_body_bytes: max_body.unwrap_or(1 << 20),
        request_timeout: section.get("request_timeout", long()).unwrap_or(Duration::from_secs(60)),
        idle_timeout: section.get("idle_timeout", long()).unwrap_or(Duration::from_secs(30)),
        heartbeat: section.get("heartbeat", long()).unwrap_or(Duration::from_secs(15)),
        grace_period: section.get("grace_period", long()).unwrap_or(Duration::from_secs(25)),
        lease: section.get("lease", scalar::duration(second, day)).unwrap_or(Duration::from_secs(15)),
        max_sessions: section.get("max_sessions", scalar::whole(1..=1_000_000)).unwrap_or(1000),
        shed_above: read_shed_above(&section.section("shed_above")),
    }
}

fn read_shed_above(section: &Section<'_>) -> ShedAbove {
    let time = scalar::duration(Duration::from_millis(10), Duration::from_secs(3600));
    ShedAbove {
        queue_facts: section.get("queue_facts", scalar::whole(1..=1_000_000)).unwrap_or(4096),
        commit_time: section.get("commit_time", time).unwrap_or(Duration::from_secs(5)),
    }
}

pub(super) fn read_privacy(section: &Section<'_>, otel: &Otel<'_>, vault: Vault<'_>) -> Privacy {
    let content = section.get("span_content", scalar::word(&SpanContent::ALL.map(|mode| (mode.label(), mode))));
    // One that is wrong is not replaced by what the environment says.
    let given = content.is_some() || section.has("span_content");
    let content = if given { content } else { otel.span_content("privacy.span_content") };
    Privacy {
        hash_key: section.get("hash_key", |node| strong(vault.pointed(node)?)),
        span_content: content.unwrap_or_default(),
    }
}

pub(super) fn read_retention(section: &Section<'_>) -> Retention {
    let (hour, century) = (Duration::from_secs(3600), Duration::from_secs(36_500 * 86_400));
    Retention { sessions: section.get("sessions", scalar::duration(hour, century)) }
}

/// A key that can be tried through protects nothing.
fn strong(key: Sensitive<String>) -> Read<Sensitive<String>> {
    if key.expose().len() < 16 {
        return Err("must have at least 16 bytes, such as the output of `openssl rand -hex 32`".to_owned());
    }
    Ok(key)
}

fn listen(node: &Node, login: bool) -> Read<SocketAddr> {
    let right = "must be an address and a port such as 127.0.0.1:8080";
    let (text, _) = scalar::scalar(node, right)?;
    let Ok(address) = text.parse::<SocketAddr>() else {
        let hint = match text.strip_prefix("localhost:").or(text.strip_prefix(':')) {
            Some(port) => format!(": write 127.0.0.1:{port}"),
            None => String::new(),
        };
        return Err(format!("{right}, not {}{hint}", scalar::show(node)));
    };
    reachable(address, login).map(|()| address).map_err(|wrong| format!("{wrong}, not {}", scalar::show(node)))
}

/// Without a login everybody who reaches the port is the default principal, so nobody else may
/// reach it.
pub(super) fn reachable(address: SocketAddr, login: bool) -> Read<()> {
    if login || address.ip().is_loopback() {
        return Ok(());
    }
    let port = address.port();
    Err(format!(
        "must be a loopback address such as 127.0.0.1:{port} while no login is configured (auth.api_keys or auth.jwt)"
    ))
}
