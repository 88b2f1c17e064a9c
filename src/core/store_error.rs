//! What a store could not do, and whose trouble that is.

/// What a store could not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct StoreError {
    /// Which sort.
    pub kind: StoreErrorKind,
    /// One phrase with the place, for a person.
    pub detail: String,
}

/// Sorts of store errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreErrorKind {
    /// No room on the disk.
    Full,
    /// The store cannot be written.
    ReadOnly,
    /// Another process holds it too long.
    Busy,
    /// The place in the journal is taken: somebody else writes the same session.
    Conflict,
    /// The session may not begin: another one has its idempotency key or its conversation.
    Claimed,
    /// The session has changed hands since the writer took it.
    LostLease,
    /// A format that this version does not read.
    Version,
    /// Anything else of the disk or the file.
    Io,
}

impl StoreErrorKind {
    /// Whether it says that the session belongs to somebody else.
    pub const fn is_lost(self) -> bool {
        match self {
            Self::Conflict | Self::Claimed | Self::LostLease => true,
            Self::Full | Self::ReadOnly | Self::Busy | Self::Version | Self::Io => false,
        }
    }

    /// Whether it is of the disk, and may pass, and not of one stream or one file.
    pub const fn may_pass(self) -> bool {
        match self {
            Self::Full | Self::ReadOnly | Self::Busy | Self::Io => true,
            Self::Conflict | Self::Claimed | Self::LostLease | Self::Version => false,
        }
    }

    /// The word in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::ReadOnly => "read_only",
            Self::Busy => "busy",
            Self::Conflict => "conflict",
            Self::Claimed => "claimed",
            Self::LostLease => "lost_lease",
            Self::Version => "version",
            Self::Io => "io",
        }
    }
}
