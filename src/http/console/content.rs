//! Who reads the texts of a session on a screen: task, arguments, results, answers, errors.
//!
//! The one rule of the console's own. It only ever hides what the caller could ask the API for:
//! an operator's screen is often in sight of others.

use crate::{config::Content, http::auth::Caller};

/// Whether this caller reads the texts of sessions of this principal.
pub(super) fn reads(content: Content, caller: &Caller, owner: &str) -> bool {
    match content {
        Content::Owner => caller.id() == owner,
        Content::Operators => caller.may_see(owner),
        Content::Off => false,
    }
}

/// A text, or that it is not for this caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Text(String),
    Hidden,
}

impl Shown {
    /// The text where it may be read; it is not even made where it may not.
    pub(super) fn when(reads: bool, text: impl FnOnce() -> String) -> Self {
        if reads { Self::Text(text()) } else { Self::Hidden }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::core::Principal;

    fn caller(id: &str, role: &str) -> Caller {
        let roles = vec![role.to_owned()];
        Caller::new(Arc::new(Principal { id: id.into(), scopes: vec![], roles, attributes: BTreeMap::new() }))
    }

    #[test]
    fn an_operator_reads_texts_of_others_only_where_that_is_configured() {
        let (owner, operator) = (caller("C-1", "user"), caller("O-1", "operator"));
        let of = |content| [&owner, &operator, &caller("C-2", "user")].map(|who| reads(content, who, "C-1"));
        assert_eq!(of(Content::Owner), [true, false, false]);
        assert_eq!(of(Content::Operators), [true, true, false]);
        assert_eq!(of(Content::Off), [false, false, false]);
        assert!(reads(Content::Owner, &operator, "O-1"), "its own");
    }
}
