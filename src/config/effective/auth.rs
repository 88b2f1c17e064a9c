//! `auth` as it took effect, as configuration again. Keys of a file stand with the others: what is
//! shown is their hash, which lets nobody in.

use serde_json::{Value, json};

use super::named;
use crate::{
    config::{
        auth::{ALGORITHMS, ApiKey, Auth, Jwks, Jwt},
        units::write_duration,
    },
    core::Principal,
};

pub(super) fn auth(auth: &Auth) -> Value {
    let login = auth.login.as_ref();
    let keys = login.map(|login| &login.api_keys).filter(|keys| !keys.is_empty());
    json!({
        "default_principal": principal(&auth.default_principal),
        "api_keys": keys.map(|keys| named(keys, api_key)),
        "jwt": login.and_then(|login| login.jwt.as_ref()).map(jwt),
        "protect_ops": login.map(|login| login.protect_ops),
        "join_traces": login.map(|login| &login.join_traces),
        "approvers": auth.approvers.label(),
    })
}

fn principal(principal: &Principal) -> Value {
    json!({
        "id": principal.id,
        "scopes": principal.scopes,
        "roles": principal.roles,
        "attributes": named(&principal.attributes, |value| json!(value)),
    })
}

fn api_key(key: &ApiKey) -> Value {
    json!({ "hash": key.hash.to_string(), "principal": principal(&key.principal) })
}

fn jwt(jwt: &Jwt) -> Value {
    let label = |algorithm| ALGORITHMS.iter().find(|(_, known)| known == algorithm).map(|(label, _)| *label);
    json!({
        "issuer": jwt.issuer,
        "audience": jwt.audience,
        "jwks": match &jwt.jwks {
            Jwks::Url(url) => url.clone(),
            Jwks::File(path) => path.display().to_string(),
        },
        "jwks_refresh": write_duration(jwt.jwks_refresh),
        "jwks_pause": write_duration(jwt.jwks_pause),
        "algorithms": jwt.algorithms.iter().filter_map(label).collect::<Vec<_>>(),
        "leeway": write_duration(jwt.leeway),
        "claims": {
            "id": jwt.claims.id,
            "scopes": jwt.claims.scopes,
            "roles": jwt.claims.roles,
            "attributes": named(&jwt.claims.attributes, |claim| json!(claim)),
        },
    })
}
