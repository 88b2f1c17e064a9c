//! Whose result a call may get again: what a result depends on, as a key.
//!
//! It must never know where results are kept, and for how long.

use serde_json::json;

use super::confirm::{canonical_hash, definition_hash};
use crate::{core::Principal, policy::CachePlace, tool::Admitted};

/// Where the result of this call is kept; nothing where it must be got anew.
///
/// A tool may look at anything in the login, so the whole of it is a part of the key, unless the
/// tool is declared to give everybody the same.
pub(super) fn place(admitted: &Admitted, principal: &Principal) -> Option<CachePlace> {
    let spec = admitted.spec();
    let rule = spec.cache_for(admitted.confirm)?;
    let key = canonical_hash(&json!({
        "definition": definition_hash(&admitted.definition, spec),
        "arguments": admitted.arguments,
        "bound": admitted.bound,
        "principal": (!rule.shared).then_some(principal),
    }));
    Some(CachePlace { tool: spec.name().to_owned(), key, rule })
}
