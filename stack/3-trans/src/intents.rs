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
mod tests {
    use std::collections::BTreeMap;

    use xfskit_block::BlockDevice;
    use xfskit_format::log::item::intent::{FreeExtent, Work};
    use xfskit_format::log::item::{Family, Intent, Item, split};
    use xfskit_format::{Ctx, Image, Location};
    use xfskit_log::Log;
    use xfskit_units::{Daddr, Lsn, Sectors};

    use crate::testing::{engine_and_log, geo};
    use crate::{BufMap, Engine};

    /// Returns work that identifies an intent.
    fn work(number: u64) -> Work {
        Work::Free(vec![FreeExtent { start: number.into(), len: 1.into(), pad: 0.into() }])
    }

    fn number(intent: &Intent) -> u64 {
        let Work::Free(extents) = &intent.work else { panic!("{intent:?}") };
        extents[0].start.get()
    }

    /// Logs the done item of `done` and an intent for `new` in one transaction.
    fn roll(engine: &Engine, done: Option<&Intent>, new: Option<u64>) -> Option<Intent> {
        let mut tx = engine.begin().unwrap();
        if let Some(intent) = done {
            tx.log_done(intent.done());
        }
        let intent = new.map(|number| tx.log_intent(Family::ExtentFree, work(number)));
        tx.commit();
        intent
    }

    /// Returns what recovery would find: the number of intent and done items, and the open intents.
    fn found(log_dev: &dyn BlockDevice) -> (usize, Vec<u64>, Lsn) {
        let geo = geo();
        let log = Log::open(log_dev, Daddr(0), &geo).unwrap();
        let ctx = Ctx::new(&geo, Location::of("test"));
        let (mut items, mut open) = (0, BTreeMap::new());
        for transaction in log.transactions().map(Result::unwrap) {
            let regions = transaction.regions();
            for item in split(&regions[1..], &ctx) {
                match Item::decode(item.unwrap(), &ctx).unwrap() {
                    Item::Intent(intent) => assert!(open.insert(intent.id, intent).is_none()),
                    Item::Done(done) => drop(open.remove(&done.id)),
                    _ => continue,
                }
                items += 1;
            }
        }
        (items, open.values().map(number).collect(), log.tail())
    }

    /// Writes a checkpoint of 64 KiB.
    fn fill(engine: &Engine) {
        let mut tx = engine.begin().unwrap();
        for block in 3000..3016 {
            let handle = tx.fresh(&BufMap::single(Daddr(block * 8), Sectors(8))).unwrap();
            tx.image(handle).put(0, b"full");
        }
        tx.commit();
        engine.checkpoint().unwrap();
    }

    #[test]
    fn an_intent_done_in_the_same_checkpoint_leaves_no_trace() {
        let (engine, log_dev) = engine_and_log();
        let first = roll(&engine, None, Some(1));
        let second = roll(&engine, first.as_ref(), Some(2));
        let third = roll(&engine, second.as_ref(), Some(3));
        engine.checkpoint().unwrap();
        assert_eq!((found(&*log_dev).0, found(&*log_dev).1), (1, vec![3]));
        roll(&engine, third.as_ref(), None);
        fill(&engine);
        assert_eq!(found(&*log_dev).1, []);
    }

    #[test]
    fn the_tail_stays_at_the_newest_intent_only() {
        let (engine, log_dev) = engine_and_log();
        let mut intent = roll(&engine, None, Some(0));
        fill(&engine);
        for n in 1..300 {
            intent = roll(&engine, intent.as_ref(), Some(n));
            fill(&engine);
            engine.write_back().unwrap();
            assert_eq!(found(&*log_dev).1, [n], "at {n}");
        }
        let before = found(&*log_dev).2;
        roll(&engine, intent.as_ref(), None);
        fill(&engine);
        engine.write_back().unwrap();
        fill(&engine);
        assert!(found(&*log_dev).1.is_empty() && found(&*log_dev).2 > before);
    }

    /// Writes the 64 MiB of the journal three times over.
    #[test]
    fn an_old_intent_is_relogged_and_does_not_hold_the_tail() {
        let (engine, log_dev) = engine_and_log();
        let intents = [1, 2].map(|n| roll(&engine, None, Some(n)));
        for n in 0..3000 {
            fill(&engine);
            engine.write_back().unwrap();
            if n % 100 == 0 {
                let mut open = found(&*log_dev).1;
                open.sort_unstable();
                assert_eq!(open, [1, 2], "at {n}");
            }
        }
        for intent in &intents {
            roll(&engine, intent.as_ref(), None);
        }
        fill(&engine);
        assert_eq!(found(&*log_dev).1, []);
    }
}
