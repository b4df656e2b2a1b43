//! Intents and done items: work that takes several transactions.
//!
//! Each transaction of such work logs an intent for what is left, and a done item for the intent of
//! the transaction before. Recovery finishes the intents that it finds without a done item. So the
//! journal's tail must not pass an open intent, and an old intent must not hold up the tail.
//!
//! 1. The tail stays at or before the oldest checkpoint with an intent for which no durable
//!    checkpoint holds a done item.
//! 2. An intent that is logged and done between two checkpoints leaves no trace in the journal.
//! 3. An intent that grows old is relogged: the next checkpoint holds a done item for it and the
//!    same intent under another id. The code that logged it need not know.

use crate::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, HashSet};

use xfskit_format::log::item::{Done, Family, Intent, encode};
use xfskit_log::Payload;
use xfskit_units::Lsn;

/// A log item about work in several transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntentItem {
    /// The work is to be done.
    Intent(Intent),
    /// The work of the intent is done.
    Done(Done),
}

/// Intents are identified by family and id.
type Key = (Family, u64);

/// Source of intent ids. An id is never that of an open intent.
#[derive(Debug, Default)]
pub(crate) struct Ids(AtomicU64);

impl Ids {
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Reserves the ids up to `newest`.
    pub(crate) fn reserve(&self, newest: u64) {
        self.0.fetch_max(newest, Ordering::Relaxed);
    }
}

/// An intent in the journal without a done item.
#[derive(Debug)]
struct Open {
    /// The intent as the journal holds it.
    intent: Intent,
    /// Start of the checkpoint that holds it.
    lsn: Lsn,
}

/// The open intents in the journal, by the ids under which they were logged first.
#[derive(Debug, Default)]
pub(crate) struct OpenIntents(BTreeMap<Key, Open>);

impl OpenIntents {
    /// Returns the start of the oldest checkpoint that holds one.
    pub(crate) fn tail(&self) -> Option<Lsn> {
        self.0.values().map(|open| open.lsn).min()
    }

    /// Writes the intents and done items of `items` into the checkpoint that begins at `lsn`, and
    /// relogs the open intents of checkpoints before `old`.
    pub(crate) fn format(
        &mut self,
        items: &[IntentItem],
        payload: &mut Payload,
        (lsn, old): (Lsn, Lsn),
        ids: &Ids,
    ) {
        let (intents, dones) = keys(items);
        for item in items {
            match item {
                IntentItem::Intent(intent) if !dones.contains(&(intent.family, intent.id)) => {
                    encode::intent(payload, intent);
                    let open = Open { intent: intent.clone(), lsn };
                    self.0.insert((intent.family, intent.id), open);
                }
                IntentItem::Done(done) if !intents.contains(&(done.family, done.id)) => {
                    let open = self.0.remove(&(done.family, done.id));
                    // An unknown intent was logged before the volume was opened.
                    let done = open.map_or_else(|| done.clone(), |open| open.intent.done());
                    encode::done(payload, &done);
                }
                _ => {}
            }
        }
        for open in self.0.values_mut().filter(|open| open.lsn < old) {
            encode::done(payload, &open.intent.done());
            open.intent.id = ids.next();
            encode::intent(payload, &open.intent);
            open.lsn = lsn;
        }
    }
}

/// Returns the keys of the intents and of the done items.
fn keys(items: &[IntentItem]) -> (HashSet<Key>, HashSet<Key>) {
    let (mut intents, mut dones) = (HashSet::new(), HashSet::new());
    for item in items {
        match item {
            IntentItem::Intent(intent) => intents.insert((intent.family, intent.id)),
            IntentItem::Done(done) => dones.insert((done.family, done.id)),
        };
    }
    (intents, dones)
}

#[cfg(test)]
mod tests;
