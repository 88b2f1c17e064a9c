//! Who calls: each request is given its principal before a handler sees it.
//!
//! Handlers take a [`Caller`] and ask it what it may see; where the principal comes from is known
//! here alone. It must never know what a session is, and never writes down what a caller showed.

mod access;
mod api_key;
mod caller;
mod claims;
mod credential;
mod jwks;
mod refusal;
mod signature;
mod token;

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::HeaderMap,
    middleware::Next,
    response::{IntoResponse as _, Response},
};

pub use self::{access::Access, api_key::new_api_key};
use self::{api_key::ApiKeys, credential::Credential, token::Tokens};
pub(super) use self::{caller::Caller, refusal::Refusal};
use crate::{config, core::Clock, signal::Metrics};

/// Paths that probes and scrapers ask, which have no login of their own.
const OPS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

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

    /// Who asks for a page: the one caller where there is no login, whoever a credential names,
    /// or nobody yet.
    pub(super) async fn visitor(&self, headers: &HeaderMap) -> Result<Option<Caller>, Refusal> {
        match self {
            Self::Open(caller) => Ok(Some(caller.clone())),
            Self::Login(login) => match login.caller(headers).await {
                Err(Refusal::Missing) => Ok(None),
                shown => shown.map(Some),
            },
        }
    }

    /// Whose API key this is.
    pub(super) fn holder(&self, key: &str) -> Option<Caller> {
        match self {
            Self::Open(_) => None,
            Self::Login(login) => login.keys.find(key).ok().map(Caller::new),
        }
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
