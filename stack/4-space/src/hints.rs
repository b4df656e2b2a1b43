//! The longest free extent of each group, as last seen.

use std::sync::atomic::{AtomicU32, Ordering};

use xfskit_units::AgNumber;

/// Free space of each group as last seen. Read without locks, so a value may be out of date.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// Longest free extent of each group.
    longest: Vec<AtomicU32>,
}

impl Hints {
    pub(crate) fn new(agcount: u32) -> Self {
        Self { longest: (0..agcount).map(|_| AtomicU32::new(u32::MAX)).collect() }
    }

    pub(crate) fn saw(&self, agno: AgNumber, longest: u32) {
        if let Some(hint) = self.longest.get(agno.0 as usize) {
            hint.store(longest, Ordering::Relaxed);
        }
    }

    pub(crate) fn longest(&self, agno: AgNumber) -> u32 {
        self.longest.get(agno.0 as usize).map_or(u32::MAX, |hint| hint.load(Ordering::Relaxed))
    }
}
