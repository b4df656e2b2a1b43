//! Counts of things that a copy left out.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::Serialize;

/// One kind of thing that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedCount {
    /// The thing, with the reason: "devices (need root)".
    pub what: String,
    /// The count.
    pub count: u64,
    /// True if every copy of this kind leaves it out, as other programs do: owners without root,
    /// sockets in archives, attributes of other filesystems. Anything else makes a copy incomplete.
    pub usual: bool,
}

/// Counts of things that were left out, from any thread.
#[derive(Debug, Default)]
pub struct Skipped {
    /// A leaf lock.
    counts: Mutex<BTreeMap<(bool, String), u64>>,
}

impl Skipped {
    /// Counts one more `what`, which makes the copy incomplete.
    pub fn count(&self, what: &str) {
        self.add(what, false, 1);
    }

    /// Counts `count` more, which makes the copy incomplete.
    pub fn count_more(&self, what: &str, count: u64) {
        self.add(what, false, count);
    }

    /// Counts `count` more, which every such copy leaves out.
    pub fn count_usual(&self, what: &str, count: u64) {
        self.add(what, true, count);
    }

    fn add(&self, what: &str, usual: bool, count: u64) {
        let mut counts = self.counts.lock();
        *counts.entry((usual, what.to_owned())).or_default() += count;
    }

    /// Returns the counts, first those that make the copy incomplete.
    pub fn counts(&self) -> Vec<SkippedCount> {
        let counts = self.counts.lock();
        let count = |((usual, what), &count): (&(bool, String), &u64)| SkippedCount {
            what: what.clone(),
            count,
            usual: *usual,
        };
        counts.iter().map(count).filter(|skipped| skipped.count > 0).collect()
    }
}
