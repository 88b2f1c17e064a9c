//! Who calls: each request is given its principal before a handler sees it.
//!
//! Handlers take a [`Caller`] and ask it what it may see; where the principal comes from is known
//! here alone. It must never know what a session is, and never writes down what a caller showed.

mod api_key;
mod caller;
mod claims;
mod credential;
mod jwks;
mod refusal;
mod signature;
mod token;

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::HeaderMap,
    middleware::Next,
    response::{IntoResponse as _, Response},
};

pub use self::api_key::new_api_key;
pub(super) use self::caller::Caller;
use self::{api_key::ApiKeys, credential::Credential, refusal::Refusal, token::Tokens};
use crate::{
    config::{self, Approvers},
    core::Clock,
    signal::Metrics,
};

/// Paths that probes and scrapers ask, which have no login of their own.
const OPS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Who callers are and what they may, as requests that come now are asked. Clones share it.
#[derive(Clone)]
pub struct Access {
    clock: Arc<dyn Clock>,
    current: Arc<RwLock<(Gate, Approvers)>>,
}

/// Where principals come from.
#[derive(Clone)]
pub(super) enum Gate {
    /// No login is configured: every caller is this one.
    Open(Caller),
    /// Callers say who they are.
    Login(Arc<Login>),
}

/// What callers can show.
pub(super) struct Login {
    keys: ApiKeys,
    tokens: Option<Tokens>,
    protect_ops: bool,
}

impl Access {
    /// The access that a configuration asks for; the clock says which tokens have expired.
    pub fn of(auth: &config::Auth, clock: Arc<dyn Clock>) -> Self {
        let current = Arc::new(RwLock::new((Gate::of(auth, clock.clone()), auth.approvers)));
        Self { clock, current }
    }

    /// Asks requests that come from now on by another configuration. Whether there is a login at
    /// all stays as it was: that decides where the service may listen.
    pub fn replace(&self, auth: &config::Auth) {
        if auth.login.is_some() == self.gate().has_login() {
            let current = (Gate::of(auth, self.clock.clone()), auth.approvers);
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        }
    }

    /// Who decides on calls that wait for a person.
    pub(super) fn approvers(&self) -> Approvers {
        self.current.read().unwrap_or_else(PoisonError::into_inner).1
    }

    pub(super) fn gate(&self) -> Gate {
        self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Access")
    }
}

impl Gate {
    /// The gate that a configuration asks for.
    pub(super) fn of(auth: &config::Auth, clock: Arc<dyn Clock>) -> Self {
        let Some(login) = &auth.login else {
            return Self::Open(Caller::new(Arc::new(auth.default_principal.clone())));
        };
        Self::Login(Arc::new(Login {
            keys: ApiKeys::of(login.api_keys.values()),
            tokens: login.jwt.clone().map(|jwt| Tokens::of(jwt, clock)),
            protect_ops: login.protect_ops,
        }))
    }

    /// Whether callers say who they are.
    pub(super) const fn has_login(&self) -> bool {
        matches!(self, Self::Login(_))
    }

    async fn admit(&self, path: &str, headers: &HeaderMap) -> Result<Option<Caller>, Refusal> {
        match self {
            Self::Open(caller) => Ok(Some(caller.clone())),
            Self::Login(login) if OPS.contains(&path) && !login.protect_ops => Ok(None),
            Self::Login(login) => login.caller(headers).await.map(Some),
        }
    }
}

impl Login {
    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        match (credential::read(headers)?, &self.tokens) {
            (Credential::ApiKey(key), _) => self.keys.find(key).map(Caller::new),
            (Credential::Token(token), Some(tokens)) => tokens.check(token).await.map(|who| Caller::new(Arc::new(who))),
            (Credential::Token(_), None) => Err(Refusal::Invalid("this is no API key, and tokens are not taken here")),
        }
    }
}

/// Names the caller of a request, or says why it has none.
pub(super) async fn guard(
    State((access, metrics)): State<(Access, Metrics)>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    match access.gate().admit(request.uri().path(), request.headers()).await {
        Ok(caller) => {
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(refusal) => {
            metrics.login_refused(refusal.reason());
            refusal.into_response()
        }
    }
}
