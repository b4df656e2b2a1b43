//! The AIL (active item list): items that are durable in the journal and not yet in place.
//!
//! Items are kept in batches, one for each checkpoint, under its start LSN. A log item that is
//! logged again moves to the newer batch. The oldest batch that still holds an item is the
//! journal's tail. A log item leaves the list when it is in place and flushed
//! ([`crate::writeback`]).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use xfskit_units::Lsn;

use crate::lock::{LockRank, LockStats, RankedMutex};
use crate::log_item::LogItem;
use crate::sync::atomic::Ordering;

/// The items of one checkpoint.
#[derive(Debug, Default)]
struct Batch {
    items: Vec<Arc<LogItem>>,
    /// Number of `items` that still belong here: not written, not logged again.
    live: usize,
}

/// The active item list.
#[derive(Debug)]
pub(crate) struct Ail {
    /// Rank [`LockRank::Ail`].
    batches: RankedMutex<BTreeMap<Lsn, Batch>>,
}

impl Ail {
    pub(crate) fn new() -> Self {
        Self { batches: RankedMutex::new(LockRank::Ail, BTreeMap::new()) }
    }

    /// Returns the statistics of its lock.
    pub(crate) fn lock_stats(&self) -> LockStats {
        self.batches.stats()
    }

    /// Returns the oldest LSN with an item that is not in place.
    pub(crate) fn tail(&self) -> Option<Lsn> {
        self.batches.lock().first_key_value().map(|(lsn, _)| *lsn)
    }

    /// Returns the LSN up to which to push if there are more than `most` items. Half of `most` are
    /// left then.
    pub(crate) fn excess_lsn(&self, most: usize) -> Option<Lsn> {
        let batches = self.batches.lock();
        let mut left: usize = batches.values().map(|batch| batch.live).sum();
        if left <= most {
            return None;
        }
        let enough = batches.iter().find(|(_, batch)| {
            left -= batch.live;
            left <= most / 2
        });
        enough.map(|(lsn, _)| *lsn)
    }

    /// Inserts items whose change is durable under `lsn`, and unpins them.
    pub(crate) fn insert(&self, items: Vec<Arc<LogItem>>, lsn: Lsn) {
        if items.is_empty() {
            return;
        }
        let mut batches = self.batches.lock();
        for item in &items {
            let old = item.ail_lsn.swap(lsn.0, Ordering::AcqRel);
            remove_one(&mut batches, Lsn(old));
            item.unpin();
        }
        let batch = batches.entry(lsn).or_default();
        batch.live += items.len();
        batch.items.extend(items);
    }

    /// Removes items that are in place as of their LSNs, or will never be written.
    pub(crate) fn remove<'o>(&self, items: impl Iterator<Item = (&'o LogItem, Lsn)>) {
        let mut batches = self.batches.lock();
        for (item, lsn) in items {
            let gone = (Ordering::AcqRel, Ordering::Relaxed);
            if item.ail_lsn.compare_exchange(lsn.0, 0, gone.0, gone.1).is_ok() {
                remove_one(&mut batches, lsn);
            }
        }
    }

    /// Returns the LSN at which about `enough` items lie between `after` and it; at most `upto`.
    /// Returns `None` if there are no items.
    pub(crate) fn portion_end(&self, after: Lsn, upto: Lsn, enough: usize) -> Option<Lsn> {
        let batches = self.batches.lock();
        let (mut last, mut count) = (None, 0);
        for (lsn, batch) in batches.range((Bound::Excluded(after), Bound::Included(upto))) {
            last = Some(*lsn);
            count += batch.live;
            if count >= enough {
                break;
            }
        }
        last
    }

    /// Returns the unpinned items under LSNs up to `upto`.
    pub(crate) fn due(&self, upto: Lsn) -> Vec<Arc<LogItem>> {
        let batches = self.batches.lock();
        let due = |lsn: Lsn, item: &Arc<LogItem>| {
            item.lsn() == Some(lsn) && item.pins.load(Ordering::Acquire) == 0
        };
        let of_batch = |(&lsn, batch): (&Lsn, &Batch)| {
            let here = batch.items.iter().filter(|item| due(lsn, item));
            here.map(Arc::clone).collect::<Vec<_>>()
        };
        batches.range(..=upto).flat_map(of_batch).collect()
    }
}

/// Removes one item from the count under `lsn`, and the batch with its last item.
fn remove_one(batches: &mut BTreeMap<Lsn, Batch>, lsn: Lsn) {
    if let Some(batch) = batches.get_mut(&lsn) {
        batch.live -= 1;
        if batch.live == 0 {
            batches.remove(&lsn);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use crate::log_item::{DiskLocation, ItemState};
    use crate::testing::map;

    #[test]
    fn a_portion_consists_of_whole_checkpoints() {
        let ail = Ail::new();
        let item =
            |n| LogItem::new(DiskLocation::Block(map(n)), ItemState::new(Bytes::default(), true));
        for (lsn, count) in [(10, 3), (20, 4), (30, 5)] {
            let items = (0..count).map(|n| Arc::new(item(n)));
            ail.insert(
                items.inspect(|item| item.pins.store(1, Ordering::Relaxed)).collect(),
                Lsn(lsn),
            );
        }
        let portion =
            |after, upto, enough| ail.portion_end(Lsn(after), Lsn(upto), enough).map(|lsn| lsn.0);
        assert_eq!(
            [1, 3, 4, 7, 8, 99].map(|enough| portion(0, 99, enough)),
            [10, 10, 20, 20, 30, 30].map(Some)
        );
        assert_eq!(portion(0, 29, 99), Some(20));
        assert_eq!(portion(10, 99, 1), Some(20));
        assert_eq!([portion(30, 99, 1), portion(0, 9, 1)], [None, None]);
    }
}
