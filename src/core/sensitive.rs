//! A value that must not appear by accident in a log, an error or a panic.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Wraps text of people (a task, a name, a secret): `Debug` shows only that something is there.
/// Reading it takes a call of [`Sensitive::expose`], which can be searched for.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Sensitive<T>(T);

impl<T> Sensitive<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself; the caller answers for where it goes.
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Sensitive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[sensitive]")
    }
}

impl From<&str> for Sensitive<String> {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Sensitive<String> {
    fn from(text: String) -> Self {
        Self(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_value() {
        assert_eq!(format!("{:?}", Sensitive::from("+7 701 123 45 67")), "[sensitive]");
    }
}
