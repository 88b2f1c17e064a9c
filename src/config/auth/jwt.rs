//! `auth.jwt`: whose tokens are believed, and what in them says who calls.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use jsonwebtoken::Algorithm;

use crate::config::{
    agents::label_name,
    reader::Section,
    scalar::{self, Read},
    secret::Vault,
    tree::Node,
};

/// Signatures by a private key. What a shared secret signs is not among them: a service that
/// takes both can be made to take its own public key for the secret.
pub(in crate::config) const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// Tokens of a login service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// Its name in `iss`.
    pub issuer: String,
    /// The names in `aud` of which one must be there.
    pub audience: Vec<String>,
    /// Its public keys.
    pub jwks: Jwks,
    /// The age from which the keys are read again.
    pub jwks_refresh: Duration,
    /// The least time between two readings, whatever tokens come.
    pub jwks_pause: Duration,
    /// The signatures that are taken.
    pub algorithms: Vec<Algorithm>,
    /// How far its clock and ours may differ.
    pub leeway: Duration,
    /// What says who calls.
    pub claims: Claims,
}

/// Where public keys are, as a JSON Web Key Set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Jwks {
    /// At an address.
    Url(String),
    /// In a file.
    File(PathBuf),
}

/// The claims that make a principal: each the name of a claim, or a path of names with dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Of the principal's id.
    pub id: String,
    /// Of the principal's scopes: a list, or words with spaces between.
    pub scopes: String,
    /// Of the principal's roles: as with scopes; others than ours are left out.
    pub roles: String,
    /// Of the principal's attributes.
    pub attributes: BTreeMap<String, String>,
}

impl Default for Claims {
    fn default() -> Self {
        Self { id: "sub".into(), scopes: "scope".into(), roles: "roles".into(), attributes: BTreeMap::new() }
    }
}

pub(super) fn read(auth: &Section<'_>, vault: Vault<'_>) -> Option<Jwt> {
    let wanted = auth.has("jwt");
    let section = auth.section("jwt");
    let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let issuer = if wanted { section.need("issuer", scalar::text) } else { section.get("issuer", scalar::text) };
    let audience = section.list("audience", scalar::text);
    let jwks = section.get("jwks", |node| jwks(node, vault));
    let algorithms = section.list("algorithms", algorithm);
    let long = |low| scalar::duration(low, day);
    let (refresh, pause) = (section.get("jwks_refresh", long(second)), section.get("jwks_pause", long(Duration::ZERO)));
    let leeway = section.get("leeway", scalar::duration(Duration::ZERO, Duration::from_secs(600)));
    let claims = read_claims(&section.section("claims"));
    if wanted {
        require(&section, &audience, &algorithms);
    }
    Some(Jwt {
        issuer: issuer?,
        audience: audience?,
        jwks: jwks?,
        jwks_refresh: refresh.unwrap_or(Duration::from_secs(600)),
        jwks_pause: pause.unwrap_or(Duration::from_secs(30)),
        algorithms: algorithms
            .unwrap_or_else(|| vec![Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA]),
        leeway: leeway.unwrap_or(Duration::from_secs(60)),
        claims,
    })
}

fn require(section: &Section<'_>, audience: &Option<Vec<String>>, algorithms: &Option<Vec<Algorithm>>) {
    if audience.as_ref().is_some_and(Vec::is_empty) || !section.has("audience") {
        section
            .wrong("audience", "must name this service as tokens do in aud; a token for another is not for this one");
    }
    if algorithms.as_ref().is_some_and(Vec::is_empty) {
        section.wrong("algorithms", "must name a signature such as RS256, or nobody could come in");
    }
    if !section.has("jwks") {
        section.wrong("jwks", "is missing: the address or the file of the issuer's public keys");
    }
}

fn read_claims(section: &Section<'_>) -> Claims {
    let plain = Claims::default();
    Claims {
        id: section.get("id", scalar::text).unwrap_or(plain.id),
        scopes: section.get("scopes", scalar::text).unwrap_or(plain.scopes),
        roles: section.get("roles", scalar::text).unwrap_or(plain.roles),
        attributes: section.map("attributes", label_name, scalar::text),
    }
}

fn algorithm(node: &Node) -> Read<Algorithm> {
    let why = match scalar::scalar(node, "") {
        Ok((text, _)) if text.eq_ignore_ascii_case("none") => "a token without a signature proves nothing",
        Ok((text, _)) if text.starts_with("HS") => "with a shared secret, whoever checks a token can make one",
        Ok(_) | Err(_) => return scalar::word(&ALGORITHMS)(node),
    };
    let right = scalar::either(&ALGORITHMS.map(|(label, _)| label));
    Err(format!("must be {right}, not {}: {why}", scalar::show(node)))
}

/// An address, or a file that is there.
fn jwks(node: &Node, vault: Vault<'_>) -> Read<Jwks> {
    let text = scalar::text(node)?;
    if let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if host.contains('@') {
            return Err("must not hold a credential".to_owned());
        }
        let near = ["127.0.0.1", "localhost", "[::1]"];
        let local = near
            .iter()
            .any(|near| host.strip_prefix(near).is_some_and(|rest| rest.is_empty() || rest.starts_with(':')));
        if text.starts_with("http://") && !local {
            return Err("must be an https address: whoever changes keys on their way can be anybody".to_owned());
        }
        let fits = !host.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        return if fits {
            Ok(Jwks::Url(text))
        } else {
            Err(format!("must be an https address or a file, not {}", scalar::show(node)))
        };
    }
    let path = vault.folder.join(&text);
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => Ok(Jwks::File(path)),
        Ok(_) => Err(format!("{} is no file; write the path of a key set, or its https address", path.display())),
        Err(error) => Err(format!("the file {} cannot be read: {error}", path.display())),
    }
}
