//! What stands around every page: navigation, language, who is signed in.

use super::{assets, words::Words};

/// Which page it is, for the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Sessions,
    Confirmations,
    Handovers,
    Circuits,
    /// None of those that the navigation names.
    Elsewhere,
}

/// What stands around a page.
pub(super) struct Frame {
    pub(super) t: &'static Words,
    pub(super) lang: &'static str,
    pub(super) other: &'static str,
    /// The other language, in its own words.
    pub(super) other_name: &'static str,
    /// This page in the other language.
    pub(super) switch: String,
    /// Nothing before anybody signed in.
    pub(super) who: Option<String>,
    pub(super) roles: String,
    pub(super) signed_in: bool,
    /// What forms carry, so that they are known to be from this page.
    pub(super) token: String,
    pub(super) place: Place,
    /// Whether the navigation leads to the hand-overs.
    pub(super) is_operator: bool,
    /// Hand-overs that nobody has taken on, for operators.
    pub(super) unclaimed: u64,
}

impl Frame {
    pub(super) fn style(&self) -> String {
        assets::address("console.css")
    }

    pub(super) fn script(&self) -> String {
        assets::address("console.js")
    }

    pub(super) fn icon(&self) -> String {
        assets::address("icon.svg")
    }

    /// The value of `aria-current` of a link.
    pub(super) fn current(&self, place: Place) -> &'static str {
        if self.place == place { "page" } else { "false" }
    }

    pub(super) fn in_sessions(&self) -> &'static str {
        self.current(Place::Sessions)
    }

    pub(super) fn in_confirmations(&self) -> &'static str {
        self.current(Place::Confirmations)
    }

    pub(super) fn in_handovers(&self) -> &'static str {
        self.current(Place::Handovers)
    }

    pub(super) fn in_circuits(&self) -> &'static str {
        self.current(Place::Circuits)
    }
}
