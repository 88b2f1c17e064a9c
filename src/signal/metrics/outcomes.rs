//! Closed sets of label values of what is counted as it happens and is no fact.

/// What came of telling somebody outside of something that waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was taken.
    Delivered,
    /// It was not; it is told again later.
    Failed,
    /// It was not for so long that it is told no more.
    GivenUp,
    /// It waits no longer, so it was not told.
    Obsolete,
}

/// Why a caller is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// It showed nothing.
    Missing,
    /// What it showed does not count.
    Invalid,
    /// The keys of the login service could not be read.
    Unavailable,
}

impl Told {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Delivered, Self::Failed, Self::GivenUp, Self::Obsolete];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::GivenUp => "given_up",
            Self::Obsolete => "obsolete",
        }
    }
}

impl LoginRefusal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Missing, Self::Invalid, Self::Unavailable];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
        }
    }
}
