//! Intents and their done items.

use std::collections::BTreeMap;

use xfskit_format::log::item::{Done, Family, Intent};

/// UnfinishedIntents not kept so far.
#[derive(Debug, Default)]
pub(super) struct UnfinishedIntents {
    /// Numbered as they were made.
    open: BTreeMap<u64, Intent>,
    /// Which number a promise has.
    numbers: BTreeMap<(Family, u64), u64>,
    next: u64,
}

impl UnfinishedIntents {
    /// One more.
    pub(super) fn add(&mut self, intent: &Intent) {
        self.numbers.insert((intent.family, intent.id), self.next);
        self.open.insert(self.next, intent.clone());
        self.next += 1;
    }

    /// One less; or it was made before the tail, and is no matter of ours.
    pub(super) fn finish(&mut self, done: &Done) {
        if let Some(number) = self.numbers.remove(&(done.family, done.id)) {
            self.open.remove(&number);
        }
    }

    /// Those not kept, in the order in which they were made.
    pub(super) fn unfinished(self) -> Vec<Intent> {
        self.open.into_values().collect()
    }
}
