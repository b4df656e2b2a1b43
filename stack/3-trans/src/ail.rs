//! The active-item list: what is durable in the journal and not yet in place.
//!
//! Items stand in batches, one for each checkpoint, under its start LSN; an item that is logged again
//! moves to the newer batch. The oldest batch that still holds one is the journal's tail: an object leaves
//! the list when it is in place and flushed ([`crate::writeback`]), or logged again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use xfskit_units::Lsn;

use crate::lock::{LockRank, LockStats, RankedMutex};
use crate::object::Object;
use crate::sync::atomic::Ordering;

/// What one checkpoint left to be written.
#[derive(Debug, Default)]
struct Batch {
    objects: Vec<Arc<Object>>,
    /// How many of `objects` still belong here: not written, not logged again.
    live: usize,
}

/// The list.
#[derive(Debug)]
pub(crate) struct Ail {
    /// Rank [`LockRank::Ail`].
    batches: RankedMutex<BTreeMap<Lsn, Batch>>,
}

impl Ail {
    pub(crate) fn new() -> Self {
        Self { batches: RankedMutex::new(LockRank::Ail, BTreeMap::new()) }
    }

    /// Its lock.
    pub(crate) fn lock_stats(&self) -> LockStats {
        self.batches.stats()
    }

    /// The oldest LSN with something left to write.
    pub(crate) fn tail(&self) -> Option<Lsn> {
        self.batches.lock().first_key_value().map(|(lsn, _)| *lsn)
    }

    /// Where there are more than `most` objects: the LSN up to which to write back, so that half as many are left.
    pub(crate) fn too_many(&self, most: usize) -> Option<Lsn> {
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

    /// Takes in objects whose change is durable under `lsn`, and unpins them.
    pub(crate) fn insert(&self, objects: Vec<Arc<Object>>, lsn: Lsn) {
        if objects.is_empty() {
            return;
        }
        let mut batches = self.batches.lock();
        for object in &objects {
            let old = object.ail_lsn.swap(lsn.0, Ordering::AcqRel);
            leave(&mut batches, Lsn(old));
            object.unpin();
        }
        let batch = batches.entry(lsn).or_default();
        batch.live += objects.len();
        batch.objects.extend(objects);
    }

    /// These objects are in place as of their LSNs, or will never be written.
    pub(crate) fn remove<'o>(&self, objects: impl Iterator<Item = (&'o Object, Lsn)>) {
        let mut batches = self.batches.lock();
        for (object, lsn) in objects {
            let gone = (Ordering::AcqRel, Ordering::Relaxed);
            if object.ail_lsn.compare_exchange(lsn.0, 0, gone.0, gone.1).is_ok() {
                leave(&mut batches, lsn);
            }
        }
    }

    /// The LSN up to which about `enough` objects stand behind `after`, at most `upto`; `None` where there are none.
    pub(crate) fn portion(&self, after: Lsn, upto: Lsn, enough: usize) -> Option<Lsn> {
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

    /// Every object that stands under an LSN up to `upto`, and may be written now.
    pub(crate) fn due(&self, upto: Lsn) -> Vec<Arc<Object>> {
        let batches = self.batches.lock();
        let due = |lsn: Lsn, object: &Arc<Object>| {
            object.lsn() == Some(lsn) && object.pins.load(Ordering::Acquire) == 0
        };
        let of_batch = |(&lsn, batch): (&Lsn, &Batch)| {
            let here = batch.objects.iter().filter(|object| due(lsn, object));
            here.map(Arc::clone).collect::<Vec<_>>()
        };
        batches.range(..=upto).flat_map(of_batch).collect()
    }
}

/// One object fewer stands under `lsn`.
fn leave(batches: &mut BTreeMap<Lsn, Batch>, lsn: Lsn) {
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
    use crate::object::{Content, Home};
    use crate::testing::map;

    #[test]
    fn a_portion_is_of_whole_checkpoints() {
        let ail = Ail::new();
        let object = |n| Object::new(Home::Block(map(n)), Content::new(Bytes::default(), true));
        for (lsn, count) in [(10, 3), (20, 4), (30, 5)] {
            let objects = (0..count).map(|n| Arc::new(object(n)));
            ail.insert(
                objects.inspect(|object| object.pins.store(1, Ordering::Relaxed)).collect(),
                Lsn(lsn),
            );
        }
        let portion =
            |after, upto, enough| ail.portion(Lsn(after), Lsn(upto), enough).map(|lsn| lsn.0);
        assert_eq!(
            [1, 3, 4, 7, 8, 99].map(|enough| portion(0, 99, enough)),
            [10, 10, 20, 20, 30, 30].map(Some)
        );
        assert_eq!(portion(0, 29, 99), Some(20));
        assert_eq!(portion(10, 99, 1), Some(20));
        assert_eq!([portion(30, 99, 1), portion(0, 9, 1)], [None, None]);
    }
}
