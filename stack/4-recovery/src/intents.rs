//! Intents and their done items.

use std::collections::BTreeMap;

use xfskit_format::log::item::{Done, Family, Intent};

/// Intents without a done item so far.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedIntents {
    /// Numbered in the order of the journal.
    open: BTreeMap<u64, Intent>,
    /// The number of each intent.
    numbers: BTreeMap<(Family, u64), u64>,
    next: u64,
}

impl UnfinishedIntents {
    /// Adds an intent.
    pub(crate) fn add(&mut self, intent: &Intent) {
        self.numbers.insert((intent.family, intent.id), self.next);
        self.open.insert(self.next, intent.clone());
        self.next += 1;
    }

    /// Removes the intent of a done item. An intent before the journal's tail is not here, and is
    /// ignored.
    pub(crate) fn finish(&mut self, done: &Done) {
        if let Some(number) = self.numbers.remove(&(done.family, done.id)) {
            self.open.remove(&number);
        }
    }

    /// Returns the intents without a done item, in the order of the journal.
    pub(crate) fn unfinished(self) -> Vec<Intent> {
        self.open.into_values().collect()
    }
}
