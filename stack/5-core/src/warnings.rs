//! Damage that a search meets on its way.

use crate::error::Error;

/// Maximum number of warnings that are kept. A damaged volume may have any number.
const KEPT: usize = 1000;

/// The first warnings of a search, and the number of all others.
#[derive(Debug, Default)]
pub struct Warnings {
    /// The first warnings.
    pub first: Vec<Error>,
    /// Number of warnings that were not kept.
    pub more: u64,
}

impl Warnings {
    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Adds a warning.
    pub fn add(&mut self, warning: impl Into<Error>) {
        if self.first.len() < KEPT {
            self.first.push(warning.into());
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Adds the warnings of `other`.
    pub fn append(&mut self, other: Self) {
        for warning in other.first {
            self.add(warning);
        }
        self.more = self.more.saturating_add(other.more);
    }
}
