//! Tokens of a login service: whose signature, for whom, and when.
//!
//! It must never say more of a token than which rule it broke.

use std::{collections::HashSet, sync::Arc};

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header, errors::ErrorKind};
use serde_json::{Map, Value};

use super::{claims, jwks::KeySet, refusal::Refusal, signature};
use crate::{
    config::Jwt,
    core::{Clock, Principal},
};

/// The tokens that are believed.
pub(super) struct Tokens {
    rules: Jwt,
    keys: Arc<KeySet>,
    clock: Arc<dyn Clock>,
}

impl Tokens {
    pub(super) fn of(rules: Jwt, clock: Arc<dyn Clock>) -> Self {
        signature::install();
        let keys = KeySet::of(&rules, Arc::clone(&clock));
        Self { keys: Arc::new(keys), rules, clock }
    }

    /// Who shows this token.
    pub(super) async fn check(&self, token: &str) -> Result<Principal, Refusal> {
        let header = decode_header(token).map_err(|_| {
            Refusal::Invalid("this is neither an API key nor a token signed with an algorithm that is taken here")
        })?;
        if !self.rules.algorithms.contains(&header.alg) {
            return Err(Refusal::Invalid("the token is signed with an algorithm that is not taken here"));
        }
        let keys = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let claims = self.verify(token, header.alg, &keys)?;
        self.check_time(&claims)?;
        claims::principal(&self.rules.claims, &claims)
    }

    /// The claims, if one of the keys signed them for us.
    fn verify(&self, token: &str, algorithm: Algorithm, keys: &[DecodingKey]) -> Result<Map<String, Value>, Refusal> {
        let mut validation = Validation::new(algorithm);
        // Times are held against the clock of the runtime below.
        (validation.validate_exp, validation.validate_nbf) = (false, false);
        validation.required_spec_claims = HashSet::from(["iss".to_owned(), "aud".to_owned()]);
        validation.set_issuer(&[&self.rules.issuer]);
        validation.set_audience(&self.rules.audience);
        let mut refusal = Refusal::Invalid("no key of the issuer has the kid of the token");
        for key in keys {
            match decode(token, key, &validation) {
                Ok(data) => return Ok(data.claims),
                Err(error) => refusal = why(error.kind()),
            }
            if refusal != WRONG_SIGNATURE {
                break;
            }
        }
        Err(refusal)
    }

    fn check_time(&self, claims: &Map<String, Value>) -> Result<(), Refusal> {
        let now = self.clock.now().as_nanos() as f64 / 1e9;
        let leeway = self.rules.leeway.as_secs_f64();
        let time = |name: &str| claims.get(name).map(|value| value.as_f64().filter(|time| time.is_finite()));
        match time("exp") {
            None => return Err(Refusal::Invalid("the token has no exp, so it would be good for ever")),
            Some(None) => return Err(Refusal::Invalid("the exp of the token is no number")),
            Some(Some(expires)) if now >= expires + leeway => return Err(Refusal::Invalid("the token has expired")),
            Some(Some(_)) => {}
        }
        match time("nbf") {
            Some(None) => Err(Refusal::Invalid("the nbf of the token is no number")),
            Some(Some(begins)) if now + leeway < begins => Err(Refusal::Invalid("the token is not good yet (nbf)")),
            Some(Some(_)) | None => Ok(()),
        }
    }
}

const WRONG_SIGNATURE: Refusal = Refusal::Invalid("the signature of the token does not fit");

fn why(kind: &ErrorKind) -> Refusal {
    match kind {
        ErrorKind::InvalidSignature => WRONG_SIGNATURE,
        ErrorKind::InvalidIssuer => Refusal::Invalid("the token is of another issuer"),
        ErrorKind::InvalidAudience => Refusal::Invalid("the token is for another audience"),
        ErrorKind::MissingRequiredClaim(_) => Refusal::Invalid("the token names no issuer or no audience"),
        _ => Refusal::Invalid("the token cannot be read"),
    }
}
