//! `auth`: who callers are, by API keys and by tokens of a login service.
//!
//! It must never hold a key, only the hash of one, and never know how a token is checked.

mod jwt;
mod keys;

use std::collections::BTreeMap;

use super::{
    agents,
    reader::Section,
    scalar::{self, Read},
    secret::Vault,
    tree::Node,
};
use crate::core::{BlobHash, Principal};

pub(super) use self::jwt::ALGORITHMS;
pub use self::jwt::{Claims, Jwks, Jwt};

/// Who callers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Whom the command line acts for, and every caller as long as no login is configured.
    pub default_principal: Principal,
    /// How callers say who they are; without it they need not.
    pub login: Option<Login>,
    /// Who decides on calls that wait for a person.
    pub approvers: Approvers,
}

/// How callers say who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// By name.
    pub api_keys: BTreeMap<String, ApiKey>,
    /// Tokens of a login service.
    pub jwt: Option<Jwt>,
    /// Whether `/metrics`, `/healthz` and `/readyz` need a login too.
    pub protect_ops: bool,
    /// Ids of the principals whose `traceparent` is joined and not only linked.
    pub join_traces: Vec<String>,
}

/// A key that callers show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// SHA-256 of the key; the key itself is nowhere.
    pub hash: BlobHash,
    /// Who comes with it.
    pub principal: Principal,
}

/// Who decides on a call that waits for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approvers {
    /// The session's own principal alone.
    Owner,
    /// Whoever has the role `approver`, but never on a session of its own: four eyes.
    Role,
    /// Either.
    #[default]
    Both,
}

impl Approvers {
    /// Each, with its word in configuration.
    const ALL: [(&'static str, Self); 3] = [("owner", Self::Owner), ("role", Self::Role), ("both", Self::Both)];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Role => "role",
            Self::Both => "both",
        }
    }
}

/// The roles that there are.
pub const ROLES: [&str; 3] = ["user", "approver", "operator"];

/// Reads one of the roles.
pub(super) fn role(node: &Node) -> Read<String> {
    scalar::word(&ROLES.map(|role| (role, role)))(node).map(str::to_owned)
}

pub(super) fn read(section: &Section<'_>, vault: Vault<'_>) -> Auth {
    let default = section.section("default_principal");
    let id = default.get("id", scalar::text).unwrap_or_else(|| "C-001".to_owned());
    let default_principal = principal(&default, id, &ROLES);
    let login = read_login(section, vault);
    let approvers = section.get("approvers", scalar::word(&Approvers::ALL)).unwrap_or_default();
    if approvers == Approvers::Role && login.is_none() {
        let wrong = "must be owner or both while no login is configured: every caller owns every session, so nobody \
                     could agree to anything";
        section.wrong("approvers", wrong);
    }
    Auth { default_principal, login, approvers }
}

fn read_login(section: &Section<'_>, vault: Vault<'_>) -> Option<Login> {
    let wanted = ["api_keys", "api_keys_file", "jwt"].iter().any(|key| section.has(key));
    let (api_keys, jwt) = (keys::read(section, vault), jwt::read(section, vault));
    let protect_ops = section.get("protect_ops", scalar::flag);
    if protect_ops == Some(true) && !wanted {
        section.wrong("protect_ops", "needs a login: write api_keys, api_keys_file or jwt");
    }
    let join_traces = section.list("join_traces", scalar::text).unwrap_or_default();
    if !join_traces.is_empty() && !wanted {
        section.wrong("join_traces", "needs a login: without one everybody is the same caller, whom nobody trusts");
    }
    wanted.then(|| Login { api_keys, jwt, protect_ops: protect_ops.unwrap_or_default(), join_traces })
}

/// The principal of a section whose `id` was read already.
fn principal(section: &Section<'_>, id: String, roles: &[&str]) -> Principal {
    Principal {
        id,
        scopes: section.list("scopes", scalar::text).unwrap_or_default(),
        roles: section.list("roles", role).unwrap_or_else(|| roles.iter().map(|role| (*role).to_owned()).collect()),
        attributes: section.map("attributes", agents::label_name, scalar::text),
    }
}

/// With a login nothing is open to everybody by an oversight: a tool says what it needs, be it
/// nothing.
pub(super) fn require_access(section: &Section<'_>, login: bool) {
    if login && !section.has("scopes") && !section.has("roles") {
        let wrong = "is missing: with a login, write what a caller must hold for it, or scopes: [] if every caller may";
        section.wrong("scopes", wrong);
    }
}
