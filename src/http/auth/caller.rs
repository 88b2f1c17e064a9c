//! The caller of one request, as handlers take it.
//!
//! It must never know how a caller proved who it is.

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};

use super::super::problem::Problem;
use crate::core::Principal;

/// May see and stop everything, and switch circuits.
const OPERATOR: &str = "operator";
/// May decide on calls of others that wait for a person.
const APPROVER: &str = "approver";

/// Who asks.
#[derive(Clone, Debug)]
pub(in crate::http) struct Caller(Arc<Principal>);

impl Caller {
    pub(in crate::http) const fn new(principal: Arc<Principal>) -> Self {
        Self(principal)
    }

    /// The identifier from the login.
    pub(in crate::http) fn id(&self) -> &str {
        &self.0.id
    }

    /// Who a session of this caller acts for.
    pub(in crate::http) fn principal(&self) -> &Principal {
        &self.0
    }

    /// Whether it may act for every principal, and switch circuits.
    pub(in crate::http) fn is_operator(&self) -> bool {
        self.has(OPERATOR)
    }

    /// Whether it may decide on calls of others.
    pub(in crate::http) fn is_approver(&self) -> bool {
        self.has(APPROVER)
    }

    /// Whether it may see, stop, export and erase what belongs to this principal.
    pub(in crate::http) fn may_see(&self, owner: &str) -> bool {
        self.0.id == owner || self.is_operator()
    }

    fn has(&self, role: &str) -> bool {
        self.0.roles.iter().any(|own| own == role)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Only a path that needs no login comes here without one.
        let found = parts.extensions.get::<Self>().cloned();
        found.ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "this needs a login"))
    }
}
