//! Who calls: each request is given its principal before a handler sees it.
//!
//! Handlers take a [`Caller`] and ask it what it may see; where the principal comes from is known
//! here alone. It must never know what a session is.

mod caller;

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};

pub(super) use self::caller::Caller;
use crate::core::Principal;

/// Where principals come from.
#[derive(Clone)]
pub(super) enum Gate {
    /// No login is configured: every caller is this one.
    Open(Caller),
}

impl Gate {
    /// The gate of a service without a login.
    pub(super) fn open(everybody: Principal) -> Self {
        Self::Open(Caller::new(Arc::new(everybody)))
    }
}

/// Names the caller of a request.
pub(super) async fn guard(State(gate): State<Gate>, mut request: Request<Body>, next: Next) -> Response {
    match &gate {
        Gate::Open(caller) => drop(request.extensions_mut().insert(caller.clone())),
    }
    next.run(request).await
}
