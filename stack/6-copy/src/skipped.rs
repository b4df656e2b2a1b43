//! What a copy left out: one report for all ways in and out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// One kind of thing that was not copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedCount {
    /// What, with the reason: "devices (need root)".
    pub what: String,
    /// How often.
    pub count: u64,
    /// Every copy of this kind leaves it out, as other programs do: owners without root, sockets in
    /// archives, attributes of other filesystems. All else makes a copy incomplete.
    pub usual: bool,
}

/// What was left out, and how often; counted by any thread.
#[derive(Debug, Default)]
pub struct Skipped {
    /// A leaf lock.
    counts: Mutex<BTreeMap<(bool, String), u64>>,
}

impl Skipped {
    /// One more `what` was left out, which makes the copy incomplete.
    pub fn count(&self, what: &str) {
        self.add(what, false, 1);
    }

    /// So many more were left out, which makes the copy incomplete.
    pub fn count_more(&self, what: &str, count: u64) {
        self.add(what, false, count);
    }

    /// So many more were left out, as every such copy does.
    pub fn count_usual(&self, what: &str, count: u64) {
        self.add(what, true, count);
    }

    fn add(&self, what: &str, usual: bool, count: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((usual, what.to_owned())).or_default() += count;
    }

    /// What was left out, with how often; first what makes the copy incomplete.
    pub fn counts(&self) -> Vec<SkippedCount> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |((usual, what), &count): (&(bool, String), &u64)| SkippedCount {
            what: what.clone(),
            count,
            usual: *usual,
        };
        counts.iter().map(count).filter(|skipped| skipped.count > 0).collect()
    }
}
