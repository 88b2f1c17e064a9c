//! Where journals are kept: implementations of the ports [`Store`](crate::core::port::Store)
//! and [`Leases`](crate::core::lease::Leases), all held to one suite of tests.
//!
//! A store keeps facts in their order, each place once, and a list of sessions that is a fold
//! over them. It must never know why a fact was recorded, who reads it, or what time it is.

pub mod memory;
pub mod sqlite;

mod change;
mod check;

use crate::core::port::{StoreError, StoreErrorKind};

/// Sessions on one page where a filter names no number.
const DEFAULT_PAGE: usize = 100;

/// Sessions on one page at the most.
const LARGEST_PAGE: usize = 1000;

/// The number of sessions that a filter asks for, within bounds.
const fn page_size(limit: usize) -> usize {
    match limit {
        0 => DEFAULT_PAGE,
        1..LARGEST_PAGE => limit,
        LARGEST_PAGE.. => LARGEST_PAGE,
    }
}

/// An error of a kind with its phrase.
fn error(kind: StoreErrorKind, detail: impl Into<String>) -> StoreError {
    StoreError { kind, detail: detail.into() }
}
